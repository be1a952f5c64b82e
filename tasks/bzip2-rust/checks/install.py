"""Module install: what is delivered where."""

from __future__ import annotations

import random
from collections.abc import Iterator

from refactorbench.observe.model import Check

from .common import Module, ask

API = (
    b"BZ2_bzCompressInit BZ2_bzCompress BZ2_bzCompressEnd BZ2_bzDecompressInit BZ2_bzDecompress BZ2_bzDecompressEnd "
    b"BZ2_bzReadOpen BZ2_bzReadClose BZ2_bzReadGetUnused BZ2_bzRead BZ2_bzWriteOpen BZ2_bzWrite BZ2_bzWriteClose "
    b"BZ2_bzWriteClose64 BZ2_bzBuffToBuffCompress BZ2_bzBuffToBuffDecompress BZ2_bzlibVersion BZ2_bzopen BZ2_bzdopen "
    b"BZ2_bzread BZ2_bzwrite BZ2_bzflush BZ2_bzclose BZ2_bzerror"
).split()
PROGRAMS = (b"bin/bzip2", b"bin/bunzip2", b"bin/bzcat", b"bin/bzip2recover")
LIBRARY, HEADER = b"lib/libbz2.so.1.0", b"include/bzlib.h"


def _table(rng: random.Random) -> Iterator[tuple[str, Check]]:
    for path in (*PROGRAMS, LIBRARY):
        label = path.decode().replace("/", "-")
        yield f"entry-{label}", ask(b"entry", path)
        for fact in (b"class", b"machine", b"stack", b"textrel"):
            yield f"elf-{label}-{fact.decode()}", ask(b"elf", path, fact)
    yield "library-type", ask(b"elf", LIBRARY, b"type")
    yield "library-soname", ask(b"elf", LIBRARY, b"soname")
    yield "header-entry", ask(b"entry", HEADER)
    yield "header-digest", ask(b"digest", HEADER)
    yield "bin", ask(b"list", b"bin")
    yield "lib", ask(b"list", b"lib")
    yield "include", ask(b"list", b"include")
    for name in API:
        yield f"symbol-{name.decode()}", ask(b"symbols", LIBRARY, name)


INSTALL = Module("install", _table)
