#!/bin/sh
# cargo runs this before every rustc: the compiler keeps its bitcode, which is evidence and changes no output.
# Beside it lie the evidence build's own options, where no setting of the tree reaches them; they don't enter cargo's hashes,
# so that names stay the same. What would have the linker take debug information away again is then left out.
read -r flags < "${0%/*}/flags"
[ "$flags" ] && for word; do
    shift
    case $word in link-arg=-s | link-arg=-Wl,-s | link-arg=-Wl,-S | link-arg=-Wl,--strip-*) word=link-arg=-g ;; esac
    set -- "$@" "$word"
done
exec "$@" -C save-temps $flags
