"""What the source witness knows about State A: its files by digest, its functions, its tables, what may be kept."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from refactorbench.audit.witnesses import answers, content, decode, languages
from refactorbench.audit.witnesses.fingerprints import Fingerprints
from refactorbench.audit.witnesses.resemblance import Resemblance
from refactorbench.catalog.models import Task
from refactorbench.hashing import walk

FEWEST_SOURCE = 64  # bytes of an old source that is told by its digest: less can be equal by chance
FEWEST_TABLE = 64  # numbers in a table that is worth recognising


def regular_files(root: Path) -> Iterable[tuple[str, os.stat_result]]:
    """(path relative to `root`, lstat) of regular files, sorted; links are never followed."""
    for rel, info in walk(root):
        if stat.S_ISREG(info.st_mode):
            yield os.fsdecode(rel), info


class StateA:
    """Read once per task; everything the submission's files are held against."""

    def __init__(self, root: Path, task: Task, recorded: Iterable[bytes] | None) -> None:
        self.task = task
        self.files: dict[str, str] = {}  # sha256 -> a path
        self.kept: set[str] = set()  # sha256 of files the instruction lets a submission keep
        self.sources: dict[str, str] = {}  # sha256 -> path of old-language files that must go
        self.tables: dict[int, str] = {}
        self.index = answers.AnswerIndex(recorded or ())
        functions: list[tuple[str, languages.Function]] = []
        spared: list[languages.Function] = []
        for path, _ in regular_files(root):
            data = (root / path).read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            self.files.setdefault(digest, path)
            kept = any(fnmatch.fnmatchcase(path, glob) for glob in task.old_stack.kept)
            if kept:
                self.kept.add(digest)
            text = content.is_text(data)
            found = languages.c_functions(data) if text else []
            if kept:
                spared += found
            elif len(data) >= FEWEST_SOURCE and (found or path.endswith(task.old_stack.source_suffixes)):
                self.sources[digest] = path
                functions += [(path, f) for f in found]
            if text and (found or path.endswith(task.old_stack.source_suffixes)):
                for _, _, numbers in content.int_lists(data):
                    if len(numbers) >= FEWEST_TABLE:
                        self.tables.setdefault(hash(tuple(numbers)), path)
            if self.index.answers:
                self._forget(data, text)
        self.fingerprints = Fingerprints(functions, spared)
        self._functions = functions

    @cached_property
    def resemblance(self) -> Resemblance:
        return Resemblance(self._functions)

    def _forget(self, data: bytes, text: bool) -> None:
        """What State A's own tree says, in messages or in packed samples, is nobody's recorded answer."""
        self.index.forget(data)
        if text:
            self.index.forget(b"".join(content.literals(data)))
            return
        decoder = decode.Decoder(decode.Bounds())
        for steps in decoder.archives(data):
            if (layer := decoder.follow(decode.Layer((), data), steps)) is not None:
                self.index.forget(layer.data)
