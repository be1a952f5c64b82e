#!/bin/sh
# The shell, linked statically with the library as upstream does; no readline, so that only the C library is needed.
set -e
./configure --disable-tcl --disable-readline --disable-shared CFLAGS="${CFLAGS:--O1}"
make -j2 sqlite3
