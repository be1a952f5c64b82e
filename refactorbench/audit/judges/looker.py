"""What a judge may do: list, read, search and diff both trees, and look findings up. What is cut off is said to be."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from refactorbench.audit.judges.casefile import DocketView
from refactorbench.audit.judges.shown import Fence
from refactorbench.audit.judges.trees import SIDES, Entry, Tree, decoded, found_in, near, path_shown
from refactorbench.llm.inquiry import Tool, ToolError
from refactorbench.llm.protocol import ToolSpec

T = TypeVar("T")
ENTRIES = 400  # that one listing shows
LINES = 400  # that one reading shows
WIDTH = 500  # characters of a line that are shown
HITS = 60
DIFFED = 1 << 18  # bytes of a file that is compared line by line
DIFF_LINES = 4000

Text_ = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ListInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tree: str
    folder: str = ""
    depth: Annotated[int, msgspec.Meta(ge=1, le=20)] = 2
    start: Annotated[int, msgspec.Meta(ge=0)] = 0


class ReadInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tree: str
    path: str
    line: Annotated[int, msgspec.Meta(ge=1)] = 1
    count: Annotated[int, msgspec.Meta(ge=1, le=LINES)] = LINES


class SearchInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tree: str
    texts: Annotated[tuple[Text_, ...], msgspec.Meta(min_length=1, max_length=8)]
    folder: str = ""
    ignore_case: bool = False


class DiffInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    state_a: str = ""
    submission: str = ""


class DocketInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    eye: Literal["source", "build", "runtime"]
    kind: str = ""
    start: Annotated[int, msgspec.Meta(ge=0)] = 0


class Looked(msgspec.Struct, frozen=True):
    """One look that was taken. what: read | search | list | diff. `path` is a file or folder ("" is the whole tree), or
    the eye whose part of the docket (`tree` "docket") was read."""

    tree: str
    what: str
    path: str


class Looker:
    """The tools of one sample; notes what was looked at. `most` bounds the characters that are shown in all."""

    def __init__(self, trees: Mapping[str, Tree], fence: Fence, most: int, docket: DocketView | None = None) -> None:
        self.trees, self.fence, self.left, self.docket = trees, fence, most, docket
        self.looks: list[Looked] = []

    def tools(self) -> tuple[Tool, ...]:
        return (
            self._tool("list", LIST, ListInput, self.entries),
            self._tool("read", READ, ReadInput, self.read),
            self._tool("search", SEARCH, SearchInput, self.search),
            *((self._tool("diff", DIFF, DiffInput, self.diff),) if set(self.trees) == set(SIDES) else ()),
            *((self._tool("docket", DOCKET, DocketInput, self.findings),) if self.docket else ()),
        )

    def _tool(self, name: str, text: str, kind: type[T], do: Any) -> Tool:
        def run(given: dict[str, Any]) -> str:
            if self.left <= 0:
                raise ToolError("all that you may read for this question has been read: answer now")
            try:
                wanted = msgspec.convert(given, kind)
            except msgspec.ValidationError as e:
                raise ToolError(f"this call of {name} was not understood: {e}") from e
            try:
                found: str = do(wanted)
            except ToolError as e:
                raise ToolError(self.fence.around(str(e))) from e
            self.left -= len(found)
            return found

        shape = schema(kind)
        if "tree" in shape["properties"]:
            shape["properties"]["tree"] = {"enum": list(self.trees)}
        return Tool(ToolSpec(name, text, shape), run)

    def _tree(self, name: str) -> Tree:
        if name not in self.trees:
            raise ToolError(f"there is no tree '{name}': they are {', '.join(self.trees)}")
        return self.trees[name]

    def findings(self, given: DocketInput) -> str:
        assert self.docket is not None
        self._looked("docket", "read", given.eye)
        return self.fence.around(*self.docket.page(given.eye, given.kind, given.start))

    def _looked(self, tree: str, what: str, path: str) -> None:
        self.looks.append(Looked(tree, what, path))

    def entries(self, given: ListInput) -> str:
        tree, top = self._tree(given.tree), given.folder.strip("/")
        if top not in tree.folders:
            raise ToolError(f"there is no folder '{top}' in {given.tree}{near(top, tree.folders)}")
        found: list[str] = []
        total = self._below(tree, top, given.depth, given.start, found)
        self._looked(given.tree, "list", top)
        end = given.start + len(found)
        more = f"; {total - end} more: give start={end}" if total > end else ""
        head = f"{given.tree}: entries {given.start}-{end} of {total} below '{top}', {given.depth} levels{more}"
        return self.fence.around(head, "\n".join(found))

    def _below(self, tree: Tree, top: str, depth: int, start: int, found: list[str]) -> int:
        """Put ENTRIES lines from `start` on into `found`; return how many there are."""
        total, stack = 0, [(path, 1) for path in reversed(tree.folders[top])]
        while stack:
            path, level = stack.pop()
            entry = tree.entries[path]
            if start <= total < start + ENTRIES:
                found.append(entry_line(tree, path, entry, level == depth))
            total += 1
            if stat.S_ISDIR(entry.mode) and level < depth:
                stack += [(p, level + 1) for p in reversed(tree.folders[path])]
        return total

    def read(self, given: ReadInput) -> str:
        tree = self._tree(given.tree)
        entry = tree.file(given.path)
        lines, total = tree.lines(given.path, given.line, given.count)
        room = self.left
        rows: list[str] = []
        for number, raw in enumerate(lines, given.line):
            text = cut(decoded(raw))
            room -= len(text) + 8
            if room < 0 and rows:
                break
            rows.append(f"{number:6d}| {text}")
        if not rows and total:
            raise ToolError(f"'{given.path}' has {total} lines: give a line from 1 to {total}")
        self._looked(given.tree, "read", given.path.strip("/").removeprefix("./"))
        last = given.line + len(rows) - 1
        more = f"; {total - last} lines follow: give line={last + 1}" if total > last else ""
        head = f"{given.tree}: lines {given.line}-{last} of {total} of '{given.path}', {entry.size} bytes{more}"
        return self.fence.around(head, "\n".join(rows))

    def search(self, given: SearchInput) -> str:
        tree, top = self._tree(given.tree), given.folder.strip("/")
        if top and top not in tree.folders and top not in tree.entries:
            raise ToolError(f"there is no '{top}' in {given.tree}{near(top, tree.folders)}")
        needles = [t.encode() for t in given.texts]
        rows: list[str] = []
        hits = files = looked = 0
        for path, entry in tree.entries.items():
            if not (not top or path == top or path.startswith(top + "/")):
                continue
            names = [t for t in given.texts if t in path.rpartition("/")[2]]
            if names and len(rows) < HITS:
                rows.append(f"name {path}")
            if not stat.S_ISREG(entry.mode):
                continue
            looked += 1
            count = 0
            for number, text in found_in(tree.chunks(path), needles, given.ignore_case, WIDTH):
                count += 1
                if len(rows) < HITS:
                    rows.append(f"{path}:{number}: {cut(decoded(text))}")
            hits, files = hits + count, files + bool(count)
        self._looked(given.tree, "search", top)
        more = f"; only {HITS} are shown: look for less, or in a folder" if hits > HITS else ""
        head = (
            f"{given.tree}: {hits} lines in {files} of {looked} files below '{top}' hold one of "
            f"{', '.join(repr(t) for t in given.texts)}{more}"
        )
        return self.fence.around(head, "\n".join(rows) or "(nothing)")

    def diff(self, given: DiffInput) -> str:
        if not given.state_a and not given.submission:
            return self._whole()
        if not given.state_a or not given.submission:
            raise ToolError("name a file on both sides (state_a and submission), or none to compare the trees")
        sides = {"state-a": given.state_a, "submission": given.submission}
        texts = []
        for side, path in sides.items():
            tree = self.trees[side]
            if tree.file(path).size > DIFFED or (lines := tree.lines(path, 1, DIFF_LINES + 1, DIFFED))[1] > DIFF_LINES:
                raise ToolError(f"'{path}' is longer than {DIFFED} bytes or {DIFF_LINES} lines: read both instead")
            texts.append([decoded(raw) for raw in lines[0]])
        for side, path in sides.items():
            self._looked(side, "read", path.strip("/"))
        rows = list(difflib.unified_diff(texts[0], texts[1], "state-a", "submission", lineterm="", n=2))
        more = f"; cut after {LINES} of {len(rows)} lines" if len(rows) > LINES else ""
        head = f"state-a '{given.state_a}' against submission '{given.submission}'{more}"
        return self.fence.around(head, "\n".join(f"| {cut(r)}" for r in rows[:LINES]) or "(no difference)")

    def _whole(self) -> str:
        a, b = (self.trees[side].digests for side in SIDES)
        same = sorted(p for p in a.keys() & b.keys() if a[p] == b[p])
        changed = sorted(p for p in a.keys() & b.keys() if a[p] != b[p])
        where = {digest: path for path, digest in b.items()}
        moved = sorted(f"{p} -> {where[a[p]]}" for p in a.keys() - b.keys() if a[p] in where)
        gone = sorted(p for p in a.keys() - b.keys() if a[p] not in where)
        for side in SIDES:
            self._looked(side, "diff", "")
        rows: list[str] = []
        for what, names in (
            ("the same in both", same), ("other content under the same path", changed),
            ("State A's content under another path", moved), ("only in State A", gone),
            ("only in the submission", sorted(b.keys() - a.keys())),
        ):  # fmt: skip
            shown_ = names[:ENTRIES]
            rows += [f"{len(names)} {what}:" + (f" ({ENTRIES} shown)" if len(names) > ENTRIES else "")]
            rows += [f"  {n}" for n in shown_]
        return self.fence.around("files of both trees, compared by content", "\n".join(rows))


def entry_line(tree: Tree, path: str, entry: Entry, closed: bool) -> str:
    if stat.S_ISDIR(entry.mode):
        inside = f" ({len(tree.folders[path])} entries inside)" if closed else ""
        return f"{path}/{inside}"
    if stat.S_ISLNK(entry.mode):
        target = os.readlink(os.fsencode(tree.root) + b"/" + entry.raw)  # noqa: PTH115 - bytes paths
        return f"{path} -> {path_shown(target)} (link)"
    return f"{path} {entry.size}" if stat.S_ISREG(entry.mode) else f"{path} (no regular file)"


def cut(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[:WIDTH]} [cut: {len(text) - WIDTH} or more characters follow]"


def schema(kind: type) -> dict[str, Any]:
    """The JSON schema of a closed struct, whole in itself."""
    (_,), parts = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    own = dict(parts.pop(kind.__name__))
    own.pop("title", None)
    return own | ({"$defs": parts} if parts else {})


LIST = (
    "List a folder of a tree, with sizes in bytes and links. Everything that lies there is listed. At most "
    f"{ENTRIES} entries a call; `start` goes on."
)
READ = f"Read lines of a file, numbered. At most {LINES} lines a call; long lines are cut and say so."
SEARCH = (
    "Find every line (and file name) that holds one of `texts`, literally, in all files below `folder`, binaries "
    f"included. Counts all hits and shows {HITS}."
)
DIFF = "Compare the trees file by file (no arguments), or one file of State A with one of the submission by lines."
DOCKET = "What a witness (source, build, runtime) found, with its evidence, and what it covered; `kind` narrows it."
