"""Sensors: each looks at one side of a submission and reports findings that the host can re-open."""
