#!/bin/sh
# Compares this port with the C program of an installed bzip2 on the files that are named. Not part of the build.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
old=${OLD_BZIP2:-/usr/bin/bzip2}
for file in "$@"; do
    for level in 1 2 3 4 5 6 7 8 9; do
        "$old" -c "-$level" "$file" | cksum > /tmp/c.sum
        "$here/target/release/bzip2" -c "-$level" "$file" | cksum > /tmp/rust.sum
        cmp /tmp/c.sum /tmp/rust.sum || echo "$file differs at level $level: gcc's and rustc's programs disagree"
    done
done
