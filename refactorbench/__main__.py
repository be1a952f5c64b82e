"""`python -m refactorbench`."""

from refactorbench.cli.main import main

main()
