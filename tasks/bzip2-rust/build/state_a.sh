#!/bin/sh
# State A as its own makefiles build it. CC and CFLAGS may come from the environment; the defaults are upstream's.
# SHARED_CFLAGS goes to the shared library's objects alone.
set -eu
CC="${CC:-gcc}"
CFLAGS="${CFLAGS:--Wall -Winline -O2 -g -D_FILE_OFFSET_BITS=64}"

# The shared library first: its position-independent objects carry the same names as those of the program.
make -f Makefile-libbz2_so all CC="$CC" CFLAGS="-fpic -fPIC $CFLAGS ${SHARED_CFLAGS:-}"
rm -f ./*.o
make -f Makefile bzip2 bzip2recover CC="$CC" CFLAGS="$CFLAGS"
