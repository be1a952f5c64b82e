#!/bin/sh
# cargo runs this before every rustc: the compiler keeps its bitcode, which is evidence and changes no output.
# REFACTORBENCH_EVIDENCE_FLAGS are the evidence build's own options; they don't enter cargo's hashes, so that names stay the same.
exec "$@" -C save-temps ${REFACTORBENCH_EVIDENCE_FLAGS:-}
