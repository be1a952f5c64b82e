"""Where object code came from, decided on small traces written by hand. Each cheat stands beside its honest twin."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from refactorbench.build.model import BuildFacts
from refactorbench.build.places import HARNESS, TREE, Places
from refactorbench.build.provenance import Rules, gather
from refactorbench.build.trace import read_trace
from refactorbench.sandbox.protocol import Mount

ELF, ARCHIVE = b"\x7fELF" + b"\1" * 60, b"!<arch>\n" + b"\2" * 60
RUSTC, LD, CP, CAT, AR, SH = "/usr/bin/rustc", "/usr/bin/ld", "/usr/bin/cp", "/usr/bin/cat", "/usr/bin/ar", "/usr/bin/sh"
OUT = {"bin/tool": "out/tool"}


class Bench:
    """A tree, a small toolchain in the place of /usr, and a trace that grows line by line."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.lines, self.pid = folder, [f'1 execve("{SH}", ["sh"], 0x1) = 0'], 1
        for name in ("clean", "tree", "usr/bin", "usr/lib", "harness", "tmp"):
            (folder / name).mkdir(parents=True)
        for program in (RUSTC, LD, CP, CAT, AR, SH):
            (folder / program[1:]).write_bytes(ELF + program.encode())
        (folder / "tree" / "out").mkdir()

    def submitted(self, name: str, data: bytes) -> str:
        for top in ("clean", "tree"):
            path = self.folder / top / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return f"{TREE}/{name}"

    def left(self, name: str, data: bytes) -> str:
        """What lies in the tree after the build."""
        path = self.folder / "tree" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"{TREE}/{name}"

    def run(self, image: str, *argv: str, parent: int = 1) -> int:
        self.pid += 1
        self.lines.append(
            f"{parent} clone3({{flags=CLONE_VM|CLONE_VFORK}}, 88) = {self.pid + 5} /* {self.pid} in strace's PID NS */"
        )
        words = ", ".join(f'"{a}"' for a in (image, *argv))
        self.lines.append(f'{self.pid} execve("{image}", [{words}], 0x1 /* 3 vars */) = 0')
        return self.pid

    def say(self, line: str) -> None:
        self.lines.append(line)

    def reads(self, pid: int, *paths: str) -> None:
        self.lines += [f'{pid} openat(AT_FDCWD<{TREE}>, "{p}", O_RDONLY|O_CLOEXEC) = 3<{p}>' for p in paths]

    def writes(self, pid: int, *paths: str) -> None:
        flags = "O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0666"
        self.lines += [f'{pid} openat(AT_FDCWD<{TREE}>, "{p}", {flags}) = 3<{p}>' for p in paths]

    def loads(self, pid: int, path: str) -> None:
        self.lines.append(f"{pid} mmap(NULL, 4096, PROT_READ|PROT_EXEC, MAP_PRIVATE|MAP_FIXED, 3<{path}>, 0) = 0x7f00")

    def facts(self, *, keeps_bitcode: bool = False, guarded: Iterable[str] = ()) -> BuildFacts:
        trace = self.folder / "trace.txt"
        trace.write_text("".join(line + "\n" for line in self.lines))
        mounts = (
            Mount(self.folder / "usr", "/usr"),
            Mount(self.folder / "tree", TREE, True),
            Mount(self.folder / "tmp", "/build/tmp", True),
            Mount(self.folder / "harness", HARNESS),
        )
        places = Places(mounts, (("usr/bin", "/bin"),), self.folder / "clean", guarded)
        rules = Rules("/usr", frozenset({"libz.so.1"}), f"{HARNESS}/end", keeps_bitcode)
        return gather(read_trace(trace), places, frozenset({RUSTC}), rules, OUT)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def origins(facts: BuildFacts) -> dict[str, str]:
    return {i.path.rsplit("/", 1)[1]: i.origin for i in facts.link_inputs}


def link(bench: Bench, *inputs: str, argv: tuple[str, ...] = ()) -> int:
    pid = bench.run(LD, *argv)
    bench.reads(pid, *inputs)
    bench.writes(pid, bench.left("out/tool", ELF + b"tool"))
    return pid


def test_what_rustc_wrote_and_ld_linked_is_the_targets(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), bench.left("a.o", ELF))
    link(bench, f"{TREE}/a.o")
    facts = bench.facts()
    assert origins(facts) == {"a.o": "target"}
    assert [(o.path, o.origin, o.writer) for o in facts.outputs] == [(f"{TREE}/out/tool", "target", LD)]


def test_what_a_build_script_wrote_is_foreign_and_so_is_what_it_was_linked_into(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), bench.left("script.o", ELF))
    script = bench.run(LD)
    bench.reads(script, f"{TREE}/script.o")
    bench.writes(script, bench.left("script", ELF))
    bench.writes(bench.run(f"{TREE}/script"), bench.left("libold.a", ARCHIVE))
    link(bench, f"{TREE}/libold.a")
    facts = bench.facts()
    assert origins(facts) == {"script.o": "target", "libold.a": "other"}
    assert facts.outputs[0].origin == "other"
    assert [(i.path, i.origin) for i in facts.images] == [(f"{TREE}/script", "target")]


def test_an_object_that_lay_in_the_tree_is_the_trees_even_under_a_new_name(bench: Bench) -> None:
    bench.submitted("data.bin", ELF + b"old")
    bench.say(f'1 rename("data.bin", "{TREE}/x.o") = 0')
    (bench.folder / "tree" / "data.bin").rename(bench.folder / "tree" / "x.o")
    link(bench, f"{TREE}/x.o")
    assert origins(bench.facts()) == {"x.o": "tree"}


def test_renames_of_files_and_folders_and_hard_links_keep_the_origin(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), f"{TREE}/tmp1/a.o")
    bench.say(f'1 rename("{TREE}/tmp1", "target") = 0')
    bench.say(f'1 linkat(AT_FDCWD<{TREE}>, "target/a.o", AT_FDCWD<{TREE}>, "target/b.o", 0) = 0')
    bench.say(f'1 unlink("{TREE}/target/a.o") = 0')
    bench.left("target/b.o", ELF)
    link(bench, f"{TREE}/target/b.o")
    assert origins(bench.facts()) == {"b.o": "target"}


def test_a_hard_link_carries_a_foreign_writer_along(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), f"{TREE}/a.o")
    bench.say(f'1 link("{TREE}/a.o", "{TREE}/b.o") = 0')
    bench.writes(bench.run(CAT), f"{TREE}/b.o")
    bench.left("a.o", ELF)
    link(bench, f"{TREE}/a.o")
    assert origins(bench.facts()) == {"a.o": "other"}


@pytest.mark.parametrize("before", [True, False])
def test_one_foreign_writer_spoils_a_file_whenever_it_wrote(bench: Bench, before: bool) -> None:
    bench.writes(bench.run(RUSTC), bench.left("a.o", ELF))
    if before:
        bench.writes(bench.run(CAT), f"{TREE}/a.o")
    link(bench, f"{TREE}/a.o")
    if not before:
        bench.writes(bench.run(CAT), f"{TREE}/a.o")
    assert origins(bench.facts()) == {"a.o": "other"}


def test_a_copy_is_what_it_is_a_copy_of(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), bench.left("a.o", ELF + b"same"))
    bench.submitted("old.o", ELF + b"old")
    for source, target, data in (("a.o", "b.o", ELF + b"same"), ("old.o", "c.o", ELF + b"old")):
        pid = bench.run(CP)
        bench.reads(pid, f"{TREE}/{source}")
        bench.writes(pid, bench.left(target, data))
    pid = bench.run(CAT)  # reads the honest object and writes something else
    bench.reads(pid, f"{TREE}/a.o")
    bench.writes(pid, bench.left("d.o", ELF + b"else"))
    link(bench, *(f"{TREE}/{n}.o" for n in "bcd"))
    assert origins(bench.facts()) == {"b.o": "target", "c.o": "other", "d.o": "other"}


def test_archivers_keep_the_origin_and_lose_it_with_one_foreign_member(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), bench.left("a.o", ELF))
    bench.submitted("old.o", ELF + b"old")
    for name, members in (("good.a", ["a.o"]), ("bad.a", ["a.o", "old.o"])):
        pid = bench.run(AR)
        bench.reads(pid, *(f"{TREE}/{m}" for m in members))
        bench.writes(pid, bench.left(name, ARCHIVE))
    link(bench, f"{TREE}/good.a", f"{TREE}/bad.a")
    assert origins(bench.facts()) == {"good.a": "target", "bad.a": "other"}


def test_a_procedural_macro_may_write_nothing_but_its_compilers_own_files(bench: Bench) -> None:
    bench.left("target/libmac.so", ELF)
    maker = bench.run(LD)
    bench.writes(maker, f"{TREE}/target/libmac.so")
    pid = bench.run(RUSTC, "--crate-name", "tool", "--out-dir", f"{TREE}/target", "-C", "extra-filename=-12")
    bench.reads(pid, f"{TREE}/target/libmac.so")
    bench.loads(pid, f"{TREE}/target/libmac.so")
    bench.writes(pid, bench.left("target/tool-12.tool.1-cgu.0.rcgu.o", ELF), bench.left("target/libold.a", ARCHIVE))
    link(bench, f"{TREE}/target/tool-12.tool.1-cgu.0.rcgu.o", f"{TREE}/target/libold.a")
    found = origins(bench.facts())
    assert found["tool-12.tool.1-cgu.0.rcgu.o"] == "target"
    assert found["libold.a"] == "other"


def test_a_linker_with_a_plugin_of_the_trees_makes_nothing_of_the_targets(bench: Bench) -> None:
    bench.submitted("plugin.so", ELF + b"plugin")
    bench.writes(bench.run(RUSTC), bench.left("a.o", ELF))
    bench.loads(link(bench, f"{TREE}/a.o"), f"{TREE}/plugin.so")
    facts = bench.facts()
    assert facts.outputs[0].origin == "other"
    assert [(i.path, i.origin) for i in facts.images] == [(f"{TREE}/plugin.so", "tree")]


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("libc.a", "toolchain"),
        ("crt1.o", "toolchain"),
        ("libgcc_s.so.1", "toolchain"),
        ("libz.so.1", "toolchain"),  # declared by the task
        ("libz.a", "unexplained"),
        ("libbz2.a", "unexplained"),
        ("libsqlite3.so", "unexplained"),
    ],
)
def test_of_the_system_only_run_time_objects_and_declared_libraries_may_be_linked(
    bench: Bench, name: str, origin: str
) -> None:
    (bench.folder / "usr/lib" / name).write_bytes(ARCHIVE if name.endswith(".a") else ELF)
    link(bench, f"/usr/lib/{name}")
    assert origins(bench.facts()) == {name: origin}


def test_libraries_of_the_linker_itself_are_no_link_inputs(bench: Bench) -> None:
    (bench.folder / "usr/lib/libbfd.so").write_bytes(ELF)
    bench.writes(bench.run(RUSTC), bench.left("a.o", ELF))
    pid = link(bench, f"{TREE}/a.o", "/usr/lib/libbfd.so")
    bench.loads(pid, "/usr/lib/libbfd.so")
    assert origins(bench.facts()) == {"a.o": "target"}


def test_rustc_reading_an_archive_is_a_link_input_and_reading_text_or_metadata_is_none(bench: Bench) -> None:
    bench.submitted("libold.a", ARCHIVE)
    bench.submitted("main.rs", b"fn main() {}")
    bench.submitted("dep.rmeta", ELF)
    bench.reads(bench.run(RUSTC), f"{TREE}/libold.a", f"{TREE}/main.rs", f"{TREE}/dep.rmeta")
    facts = bench.facts()
    assert origins(facts) == {"libold.a": "tree"}
    assert facts.taken == (f"{TREE}/dep.rmeta", f"{TREE}/libold.a", f"{TREE}/main.rs")


def test_text_that_the_linker_reads_is_a_script_unless_rustc_wrote_it_or_it_spells_code(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), bench.left("list", b"{ global: tool; };\n"))
    bench.submitted("tool.ld", b"SECTIONS { .text : { *(.text) BYTE(0xc3) } }\n")
    bench.submitted("code.hex", b":10010000214601360121470136007EFE09D2190140\n")
    bench.submitted("code.ld", b"SECTIONS { .text : { " + b"QUAD(0xc3) " * 40 + b"} }\n")
    link(bench, f"{TREE}/list", f"{TREE}/tool.ld", f"{TREE}/code.hex", f"{TREE}/code.ld")
    facts = bench.facts()
    assert [s.path for s in facts.scripts] == [f"{TREE}/tool.ld"]
    assert origins(facts) == {"code.hex": "tree", "code.ld": "tree"}


def test_what_vanished_after_linking_is_foreign_unless_the_compiler_made_it(bench: Bench) -> None:
    bench.writes(bench.run(RUSTC), "/tmp/rustc1/symbols.o")
    bench.writes(bench.run(CAT), "/tmp/x.res")
    link(bench, "/tmp/rustc1/symbols.o", "/tmp/x.res")
    assert origins(bench.facts()) == {"symbols.o": "target", "x.res": "other"}


def test_notes_of_the_compiler_driver_are_no_objects_unless_foreign_code_sits_in_it(bench: Bench) -> None:
    (bench.folder / "usr/bin/gcc").write_bytes(ELF)
    for name, preloaded in (("a.res", False), ("b.res", True)):
        driver = bench.run("/usr/bin/gcc")
        if preloaded:
            bench.loads(driver, bench.submitted("preload.so", ELF))
        bench.writes(driver, f"/tmp/{name}")
    link(bench, "/tmp/a.res", "/tmp/b.res")
    assert origins(bench.facts()) == {"b.res": "other"}


def test_files_without_a_name_are_followed(bench: Bench) -> None:
    bench.say('1 memfd_create("x", 0) = 5</memfd:x>(deleted)')
    pid = bench.run(LD)
    bench.say(f'{pid} openat(AT_FDCWD<{TREE}>, "/proc/9/fd/5", O_RDONLY) = 3</memfd:x>(deleted)')
    bench.say('1 execveat(5</memfd:x>(deleted), "", ["x"], 0x1 /* 0 vars */, AT_EMPTY_PATH) = 0')
    facts = bench.facts()
    assert [i.origin for i in facts.link_inputs] == ["other"]
    assert [i.path for i in facts.images] == ["/memfd:x (deleted)"]


def test_a_child_that_runs_before_its_parents_call_returns_has_its_parents_image(bench: Bench) -> None:
    bench.say("1 clone3({flags=CLONE_VM|CLONE_VFORK}, 88 <unfinished ...>")
    bench.say(f'9 execve("{RUSTC}", ["rustc"], 0x1) = 0')
    bench.writes(9, bench.left("a.o", ELF))
    bench.say("1 <... clone3 resumed>) = 4 /* 9 in strace's PID NS */")
    link(bench, f"{TREE}/a.o")
    assert origins(bench.facts()) == {"a.o": "target"}


def test_a_compilers_thread_is_the_compilers_though_its_clone_lacks_a_pid(bench: Bench) -> None:
    rustc = bench.run(RUSTC)
    bench.say(f"{rustc} clone3({{flags=CLONE_VM|CLONE_FS|CLONE_THREAD}} => {{parent_tid=[0]}}, 88) = {rustc + 6}")
    bench.pid += 1
    bench.writes(bench.pid, bench.left("a.o", ELF))
    link(bench, f"{TREE}/a.o")
    assert origins(bench.facts()) == {"a.o": "target"}


def test_what_may_be_a_build_scripts_thread_as_well_is_foreign(bench: Bench) -> None:
    rustc, script = bench.run(RUSTC), bench.run(f"{TREE}/script")
    for pid, number in ((rustc, script + 6), (script, script + 7)):
        bench.say(f"{pid} clone3({{flags=CLONE_VM|CLONE_FS|CLONE_THREAD}} => {{parent_tid=[0]}}, 88) = {number}")
    bench.pid += 1  # one of the two does nothing that is traced
    bench.writes(bench.pid, bench.left("a.o", ELF))
    bench.pid += 1
    link(bench, f"{TREE}/a.o")
    assert origins(bench.facts()) == {"a.o": "other"}


def test_images_are_resolved_through_links_and_tripwires_are_known(bench: Bench) -> None:
    (bench.folder / "usr/bin/cc1").symlink_to("rustc")
    bench.say('1 execve("/bin/cc1", ["cc1"], 0x1) = 0')
    assert bench.facts().execs[-1].path == RUSTC
    assert bench.facts(guarded=[RUSTC]).execs[-1].tripwire
    assert not bench.facts().execs[-1].tripwire


@pytest.mark.parametrize(
    ("line", "evades"),
    [
        ('1 openat(AT_FDCWD</w>, "/proc/77/mem", O_RDWR) = 3</proc/77/mem>', True),
        ('1 openat(AT_FDCWD</w>, "/proc/77/maps", O_RDONLY) = 3</proc/77/maps>', False),
        ("1 process_vm_writev(5, [], 1, [], 1, 0) = 8", True),
        ("1 pidfd_getfd(3, 4, 0) = 5", True),
        ("1 ptrace(PTRACE_ATTACH, 5) = 0", True),
        ("1 ptrace(PTRACE_TRACEME) = 0", False),
        ("1 unshare(CLONE_NEWUSER|CLONE_NEWNS) = 0", True),
        ("1 unshare(CLONE_FILES) = 0", False),
        ("1 io_uring_setup(8, {flags=0}) = 3<anon_inode:[io_uring]>", True),
    ],
)
def test_ways_around_a_trace_are_seen(bench: Bench, line: str, evades: bool) -> None:
    bench.say(line)
    facts = bench.facts()
    assert facts.malformed == 0
    assert bool(facts.evasions) == evades


def test_network_attempts_are_those_beyond_local_sockets(bench: Bench) -> None:
    bench.say('1 connect(3<socket:[1]>, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = -1 ENOENT (No such file or directory)')
    bench.say('1 connect(3<socket:[1]>, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("1.2.3.4")}, 16) = -1 '
              "ENETUNREACH (Network is unreachable)")  # fmt: skip
    assert [line for line, _ in bench.facts().network] == [3]


def test_a_trace_is_complete_only_with_the_harnesss_last_command(bench: Bench) -> None:
    (bench.folder / "harness" / "end").write_bytes(ELF)
    assert not bench.facts().complete
    bench.say(f'1 execve("{HARNESS}/end", ["{HARNESS}/end", "0"], 0x1) = 0')
    assert bench.facts().complete


def test_a_compiler_run_that_keeps_no_bitcode_is_uncovered(bench: Bench) -> None:
    kept, silent = bench.run(RUSTC), bench.run(RUSTC)
    bench.writes(kept, bench.left("a.rcgu.o", ELF), bench.left("a.no-opt.bc", b"BC\xc0\xde"))
    bench.writes(silent, bench.left("b.rcgu.o", ELF))
    link(bench, f"{TREE}/a.rcgu.o", f"{TREE}/b.rcgu.o")
    facts = bench.facts(keeps_bitcode=True)
    assert [bench.lines[line - 1].split()[0] for line, _ in facts.uncovered] == [str(silent)]
    assert [path for _, path in facts.bitcode] == [f"{TREE}/a.no-opt.bc"]
    assert bench.facts().uncovered == ()


def test_files_of_the_machine_that_no_toolchain_needs_are_told_with_their_reader(bench: Bench) -> None:
    script, compiler = bench.run(bench.left("build-script", ELF)), bench.run(RUSTC)
    bench.reads(script, "/usr/lib/libbz2.a", "/usr/share/locale/de/x.mo", "/usr/lib/rustlib/src/x.rs", f"{TREE}/in.txt")
    bench.loads(compiler, "/usr/lib/libLLVM.so")
    bench.reads(compiler, "/usr/lib/libLLVM.so", "/usr/lib/libbz2.a", "/usr/share/data.bin")
    link(bench, "/usr/lib/crt1.o")
    told = [(path, reader) for _, path, reader in bench.facts().outside]
    assert told == [("/usr/lib/libbz2.a", f"{TREE}/build-script"), ("/usr/share/data.bin", RUSTC)]


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ('1 openat(AT_FDCWD</>, "/proc/self/status", O_RDONLY) = 3</proc/7/status>', True),
        ('1 openat(AT_FDCWD</>, "/proc/self/task/7/stat", O_RDONLY) = 3</proc/7/task/7/stat>', True),
        ('1 openat(AT_FDCWD</>, "/proc/self/maps", O_RDONLY) = 3</proc/7/maps>', False),
        ("1 ptrace(PTRACE_TRACEME) = -1 EPERM (Operation not permitted)", True),
        ("1 ptrace(PTRACE_PEEKDATA, 7) = 0", False),
    ],
)
def test_who_asks_for_a_tracer_is_told(bench: Bench, line: str, asks: bool) -> None:
    bench.say(line)
    assert bool(bench.facts().watched) == asks
