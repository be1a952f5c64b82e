"""Where every piece of object code in a build came from.

A file counts as made by the target compiler only if rustc of the toolchain wrote it, or a linker or archiver of the
toolchain did from nothing but such files and the toolchain's own run-time objects. One foreign writer is enough to lose
that, before or after the file was read: there is no honest reason for two.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from refactorbench.build.model import BuildFacts, LinkInput, Origin
from refactorbench.build.places import TMP, TREE, Places, below, head
from refactorbench.build.trace import Trace
from refactorbench.build.world import Access, Node, Run, World

ARCHIVE = (b"!<arch>\n", b"!<thin>\n")
OBJECT = (b"\x7fELF", b"BC\xc0\xde", b"\xde\xc0\x17\x0b", *ARCHIVE)
HEX_OBJECT = re.compile(rb"(?:S[0-9][0-9A-F]{8}|:[0-9A-F]{10}|\[?%[0-9A-F]{8})")  # S-record, Intel and Tektronix hex
OBJECT_NAME = re.compile(r"\.(?:a|o|so|rlib|lib|lo|obj|bc)(?:\.[0-9.]+)?$")
# What a target program may take from the C library and from the compiler driver: start files, libc's parts, libgcc.
RUNTIME_OBJECT = re.compile(
    r"(?:[SgrM]*crt[1in]?[A-Za-z]*\.o|libgcc(?:_s|_eh)?\.(?:a|so[.0-9]*)|libc_nonshared\.a|ld-linux[^/]*\.so[.0-9]*"
    r"|lib(?:c|m|mvec|pthread|rt|dl|util|resolv|anl)(?:-[0-9.]+)?\.(?:a|so[.0-9]*))"
)
RUST_LIBRARY = re.compile(r"/rustlib/[^/]+/lib/|/lib(?:/[^/]+)?/lib(?:std|test|rustc_driver)-[0-9a-f]+\.so$")
TEXT_HEAD = 4096
DATA_STATEMENT = re.compile(rb"\b(?:BYTE|SHORT|LONG|QUAD|SQUAD)\s*\(")
SCRIPT_CODE, SCRIPT_BYTES = 32, 4 << 20  # data statements from which on a linker script spells code; how much is read
BITCODE = ".no-opt.bc"
# What programs of the system read for themselves: their messages, their modules, their settings.
OWN_READS = re.compile(
    r"/etc/alternatives/|/usr/(?:share/(?:locale|i18n|zoneinfo|terminfo|misc|perl[^/]*|git-core|ca-certificates)"
    r"|lib(?:/[^/]+-linux-gnu)?/(?:locale|gconv|perl[^/]*|python[\d.]+|ssl|bfd-plugins|rustlib)|local/lib/python[\d.]+)/"
)
TRACER = re.compile(r"/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(?:status|stat|wchan|syscall)")


class Rules(msgspec.Struct, frozen=True):
    """`sysroot`: the inside path of the target toolchain's root; `libraries`: shared libraries that the task declares;
    `end`: the program that a whole trace ends with; `keeps_bitcode`: the compiler was told to keep its bitcode."""

    sysroot: str
    libraries: frozenset[str]
    end: str
    keeps_bitcode: bool


class Provenance:
    """Answers about a replayed `world`; results are kept per node."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.world, self.places, self._rules = world, world.places, rules
        self._known: dict[Node, Origin] = {}

    # --- contents

    def content(self, node: Node, path: str) -> Path | None:
        """The host file that still holds what `node` held, None when it is gone."""
        if not node.writers and node.initial:
            return self.places.was(node.initial) or self.places.host(node.initial)
        return self.places.host(path) if self.world.files.get(path) is node else self._elsewhere(node)

    def _elsewhere(self, node: Node) -> Path | None:
        for path, other in self.world.files.items():
            if other is node:
                return self.places.host(path)
        return None

    def digest(self, node: Node, path: str) -> str:
        return self.places.digest(self.content(node, path))

    def is_object(self, access: Access, run: Run) -> bool:
        """Whether what a linker or compiler opened is object code: by content; by name only where that is gone."""
        place = self.content(access.node, access.path)
        start = head(place, TEXT_HEAD) if place is not None else None
        if start is None:
            if run.role == "linker":  # gcc leaves notes for it, and takes them away
                return {w.run.role for w in access.node.writers} != {"driver"} or self.origin(access.node) != "target"
            return bool(OBJECT_NAME.search(access.path))
        if start.startswith(OBJECT):
            return not access.path.endswith(".rmeta")
        if run.role == "compiler":
            return False
        if b"\0" in start or HEX_OBJECT.match(start):
            return True
        whole = head(place, SCRIPT_BYTES) if place is not None else None
        return len(DATA_STATEMENT.findall(whole or b"")) >= SCRIPT_CODE

    def is_script(self, access: Access) -> bool:
        """Whether a linker read text that the toolchain didn't write: it may place bytes of its own."""
        if self.places.zone(access.path) == "toolchain":
            return False
        roles = {w.run.role for w in access.node.writers}
        return not roles or not roles <= {"compiler", "driver"}

    # --- origins

    def origin(self, node: Node) -> Origin:
        if node not in self._known:
            self._known[node] = "target"  # while it is being found out: a file made from itself
            self._known[node] = self._find(node)
        return self._known[node]

    def _find(self, node: Node) -> Origin:
        initial = node.initial if not any(w.fresh for w in node.writers) else ""
        if initial and initial in self.places.initial:
            return "tree"
        if not node.writers:
            return self._toolchain(node.initial) if self.places.zone(node.initial) == "toolchain" else "unexplained"
        made = {self._by(w.run, node, w.path) for w in node.writers}
        for worst in ("other", "unexplained", "tree", "toolchain"):
            if worst in made:
                return worst
        return "target"

    def _toolchain(self, path: str) -> Origin:
        name = posixpath.basename(path)
        if RUST_LIBRARY.search(path) and below(path, self._rules.sysroot):
            return "toolchain"
        if RUNTIME_OBJECT.fullmatch(name) or (".so" in name and name in self._rules.libraries):
            return "toolchain"
        return "unexplained"

    def foreign_loads(self, run: Run) -> list[Access]:
        """Code from outside the toolchain that was mapped into the process."""
        return [a for a in run.loads if self.places.zone(a.path) not in ("toolchain", "harness")]

    def _by(self, run: Run, node: Node, path: str) -> Origin:
        """What a file is worth that `run` wrote."""
        tainted = bool(self.foreign_loads(run))
        if run.role == "compiler":
            once = sum(w.run is run for w in node.writers) == 1  # rustc opens its output once; what it carries, again
            return "target" if not tainted or (once and own_output(run, path)) else "other"
        if run.role == "driver":
            return "other" if tainted else "target"  # gcc's own scratch: it writes no code, its children do
        if run.role == "linker":
            return "other" if tainted or not self._clean(self.inputs(run)) else "target"
        if run.role == "transform":
            outer = [a for a in run.reads if self.places.zone(a.path) not in ("toolchain", "harness")]
            return "other" if tainted or not outer or not self._clean(outer) else "target"
        if run.role == "tool":
            return self._copied(run, node, path)
        return "other"

    def _clean(self, accesses: Iterable[Access]) -> bool:
        return all(self.origin(a.node) in ("target", "toolchain") for a in accesses)

    def _copied(self, run: Run, node: Node, path: str) -> Origin:
        """cp, install, cargo: a copy is what it is a copy of; anything else a tool of the system writes is foreign."""
        now = self.digest(node, path)
        sources = [a for a in run.reads if a.node is not node]
        for access in sources:
            same = bool(now) and self.digest(access.node, access.path) == now
            if same and self.origin(access.node) in ("target", "toolchain"):
                return self.origin(access.node)
        return "other"

    # --- what the build says

    def inputs(self, run: Run) -> list[Access]:
        """Object code that a linker or compiler opened for reading, not the libraries that it is itself made of."""
        loaded = {a.path for a in run.loads}
        return [a for a in run.reads if a.path not in loaded and not self._own(run, a) and self.is_object(a, run)]

    @staticmethod
    def _own(run: Run, access: Access) -> bool:
        """What a process reads of what it alone wrote is no input."""
        writers = access.node.writers
        return bool(writers) and all(w.run is run for w in writers) and run.role != "compiler"

    def writer(self, node: Node) -> str:
        return node.writers[-1].run.image if node.writers else ""

    def link_inputs(self) -> list[LinkInput]:
        seen: dict[tuple[Node, str], LinkInput] = {}
        for run in self.world.runs:
            if run.role not in ("compiler", "linker"):
                continue
            for access in [*self.inputs(run), *self.foreign_loads(run)]:
                if (access.node, access.path) not in seen:
                    seen[access.node, access.path] = self._fact(access)
        return sorted(seen.values(), key=lambda i: i.line)

    def _fact(self, access: Access) -> LinkInput:
        origin = self.origin(access.node)
        digest = self.digest(access.node, access.path)
        return LinkInput(access.line, access.path, digest, origin, self.writer(access.node))

    def scripts(self) -> list[LinkInput]:
        """Text from outside the toolchain that a linker read."""
        found: dict[str, LinkInput] = {}
        for run in self.world.runs:
            if run.role == "linker":
                objects = {a.line for a in self.inputs(run)}
                for access in run.reads:
                    if access.line not in objects and not self._own(run, access) and self.is_script(access):
                        found.setdefault(access.path, self._fact(access))
        return sorted(found.values(), key=lambda i: i.line)

    def images(self) -> list[LinkInput]:
        """Images outside the toolchain that ran, or whose code was mapped by another that did, with their origin."""
        found: dict[tuple[str, Origin], LinkInput] = {}
        for started in self.world.started:
            if self.places.zone(started.fact.path) in ("toolchain", "harness"):
                continue
            origin: Origin = "unexplained" if started.node is None else self.origin(started.node)
            writer = self.writer(started.node) if started.node else ""
            fact = LinkInput(started.fact.line, started.fact.path, started.fact.sha256, origin, writer)
            found.setdefault((fact.path, origin), fact)
        for run in self.world.runs:
            for access in self.foreign_loads(run):
                fact = self._fact(access)
                found.setdefault((fact.path, fact.origin), fact)
        return sorted(found.values(), key=lambda i: i.line)

    def outputs(self, outputs: Mapping[str, str]) -> list[LinkInput]:
        """The build's machine-code outputs with their origin; `outputs` maps product paths to paths in the tree."""
        found = []
        for path in dict.fromkeys(outputs.values()):
            inside = self.places.resolve(path, TREE)
            place = self.places.host(inside)
            start = head(place) if place is not None else None
            if start is not None and start.startswith(OBJECT):
                node = self.world.node(inside)
                line = node.writers[-1].line if node.writers else 0
                found.append(LinkInput(line, inside, self.places.digest(place), self.origin(node), self.writer(node)))
        return found


def uncovered_runs(runs: Iterable[Run], linked: frozenset[str]) -> Iterable[tuple[int, str]]:
    """(line, image) of compiler runs whose objects were linked and that kept no bitcode."""
    for run in runs:
        written = {a.path for a in run.writes}
        objects = any(p.endswith(".o") and p in linked and not p.endswith("/symbols.o") for p in written)
        if run.role == "compiler" and objects and not any(p.endswith(BITCODE) for p in written):
            yield run.line, run.image


def own_output(run: Run, path: str) -> bool:
    """Whether a compiler that carries foreign code (a procedural macro) writes where its command line says it will."""
    options = dict(zip(run.argv, run.argv[1:], strict=False))
    crate = options.get("--crate-name", "")
    folder = options.get("--out-dir", "")
    extra = next((a.removeprefix("extra-filename=") for a in run.argv if a.startswith("extra-filename=")), "")
    if not crate or not folder or not below(path, folder):
        return below(path, TMP) and posixpath.basename(posixpath.dirname(path)).startswith("rustc")
    first = posixpath.relpath(path, folder).split("/", 1)[0]
    own = re.escape(crate + extra)
    return bool(re.match(rf"(?:lib)?{own}(?:[.-]|$)|(?:rustc|rmeta)[A-Za-z0-9]{{6}}$|\.tmp", first))


def outside(world: World, sysroot: str) -> Iterator[tuple[int, str, str]]:
    """(line, path, reader) of the system's files, each once, that neither the toolchain nor a program of the system
    needs for itself: what a build script or a compiler takes from the machine, no source explains."""
    seen: set[str] = set()
    own = sysroot if sysroot != "/usr" else "/usr/lib/rustlib"
    for run in world.runs:
        if run.role in ("linker", "driver", "harness"):
            continue
        for access in run.reads:
            path = access.path
            if path in seen or world.places.zone(path) != "toolchain" or below(path, own) or OWN_READS.match(path):
                continue
            if path != run.image and all(a.path != path for a in run.loads):
                seen.add(path)
                yield access.line, path, run.image


def asks_for_tracer(trace: Trace) -> Iterator[tuple[int, str]]:
    """Calls whose answer says whether a tracer is there; none of the toolchain's programs makes one."""
    for call in trace.calls:
        opened = call.name in ("open", "openat", "openat2") and TRACER.fullmatch(call.result_path)
        if opened or (call.name == "ptrace" and call.args and call.args[0] == b"PTRACE_TRACEME"):
            yield call.line, call.text


def taken(world: World) -> set[str]:
    """Paths of the submission, as handed in, whose own content was read, mapped or executed."""
    initial = world.places.initial
    found: set[str] = set()
    for run in world.runs:
        for access in [*run.reads, *run.loads]:
            replaced = any(w.fresh and w.line < access.line for w in access.node.writers)
            if access.node.initial in initial and not replaced:
                found.add(access.node.initial)
    return found | {s.node.initial for s in world.started if s.node is not None and s.node.initial in initial}


def gather(
    trace: Trace, places: Places, compilers: frozenset[str], rules: Rules, outputs: Mapping[str, str]
) -> BuildFacts:
    """Replay a trace into the build's facts; unreadable lines are counted, not guessed at."""
    world = World(places, compilers)
    world.replay(trace)
    found = Provenance(world, rules)
    reads = {a.path for run in world.runs for a in run.reads if places.zone(a.path) in ("tree", "toolchain")}
    writes = {a.path for run in world.runs for a in run.writes}
    inputs = found.link_inputs()
    compiled = [a for run in world.runs if run.role == "compiler" for a in run.writes]
    bitcode = {a.path: a.line for a in compiled if a.path.endswith(BITCODE)}
    return BuildFacts(
        execs=tuple(world.execs),
        link_inputs=tuple(inputs),
        reads=tuple(sorted(reads)),
        writes=tuple(sorted(writes)),
        network=tuple(world.network),
        outputs=tuple(found.outputs(outputs)),
        images=tuple(found.images()),
        scripts=tuple(found.scripts()),
        evasions=tuple(world.evasions),
        malformed=trace.malformed,
        taken=tuple(sorted(taken(world))),
        complete=any(e.ok and e.path == rules.end for e in world.execs),
        bitcode=tuple((line, path) for path, line in sorted(bitcode.items())),
        lines=trace.lines,
        outside=tuple(sorted(outside(world, rules.sysroot))),
        watched=tuple(asks_for_tracer(trace)),
        uncovered=tuple(uncovered_runs(world.runs, frozenset(i.path for i in inputs))) if rules.keeps_bitcode else (),
    )
