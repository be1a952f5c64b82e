"""Input generators of the task, one file per group of modules; generate.py is the entry."""
