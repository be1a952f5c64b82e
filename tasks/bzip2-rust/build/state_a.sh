#!/bin/sh
# State A as its own makefiles build it. CFLAGS may come from the environment; the default is upstream's.
set -eu
CFLAGS="${CFLAGS:--Wall -Winline -O2 -g -D_FILE_OFFSET_BITS=64}"

# The shared library first: its position-independent objects carry the same names as those of the program.
make -f Makefile-libbz2_so all CFLAGS="-fpic -fPIC $CFLAGS"
rm -f ./*.o
make -f Makefile bzip2 bzip2recover CFLAGS="$CFLAGS"
