#!/bin/sh
# The shell, linked statically with the library as upstream does; no readline, so that only the C library is needed.
set -e
# zlib is looked for on the building machine; the product must not depend on whether it is there
ac_cv_search_deflate=no ./configure --disable-tcl --disable-readline --disable-shared CFLAGS="${CFLAGS:--O1}"
make -j2 sqlite3
