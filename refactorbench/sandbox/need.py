"""Programs of the machine that a sandbox is made with."""

from __future__ import annotations

import shutil

from refactorbench.errors import ToolMissing


def need(program: str, package: str) -> str:
    """Return the path of `program`; ToolMissing names the Debian package it comes in."""
    found = shutil.which(program)
    if found is None:
        raise ToolMissing(f"{program} is not installed, so no sandbox can be started: apt-get install {package}")
    return found
