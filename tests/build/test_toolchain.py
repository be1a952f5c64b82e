"""Toolchains: scripted ones decide every case, this machine's own prove that the mounts suffice."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from refactorbench.build.toolchain import WANTED, Host, Toolchain, Wanted, find, required_packages
from refactorbench.catalog.models import Task
from refactorbench.errors import RefactorBenchError, ToolMissing, UsageError
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Command, Limits, Mount

needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def program(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def gcc(folder: Path, version: str = "12.2.0") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("cc1", "as", "ld"):
        program(folder / name, f"echo 'GNU {name} (GNU Binutils for Debian) 2.40'")
    (folder / "crt1.o").touch()
    program(
        folder / "gcc",
        f"case $1 in --version) echo 'gcc (Debian {version}-14) {version}';;"
        f" -print-file-name=*) echo {folder}/${{1#*=}};; -print-prog-name=cc1) echo {folder}/cc1;;"
        " -print-prog-name=*) echo ${1#*=};; esac",
    )
    (folder / "cc").unlink(missing_ok=True)
    (folder / "cc").symlink_to("gcc")


def rust(sysroot: Path, version: str, std: bool = True) -> Path:
    said = f"case $1 in -vV) echo 'rustc {version}'; echo 'host: toy';; --print) echo {sysroot};; esac"
    program(sysroot / "bin" / "rustc", said)
    program(sysroot / "bin" / "cargo", f"echo 'cargo {version}'")
    library = sysroot / "lib" / "rustlib" / "toy" / "lib"
    library.mkdir(parents=True, exist_ok=True)
    if std:
        (library / "libstd-0.rlib").touch()
    return sysroot


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A machine with gcc and make, and nothing on PATH or in its home."""
    gcc(tmp_path / "usr-bin")
    program(tmp_path / "usr-bin" / "make", "echo 'GNU Make 4.3'")
    return Host(tmp_path / "usr-bin", (tmp_path / "path",), tmp_path / "home", {})


def versions(toolchain: Toolchain) -> dict[str, str]:
    return {t.name: t.version for t in toolchain.tools}


def test_gcc_with_its_parts_and_make(host: Host) -> None:
    found = find(("gcc", "make", "gcc"), host)
    assert versions(found) == {"gcc": "12.2.0", "cc1": "12.2.0", "as": "2.40", "ld": "2.40", "make": "4.3"}
    assert found.tools[0].inside == "/usr/bin/gcc" and found.path == "/usr/bin:/bin"
    assert found.versions["make"].startswith(f"4.3 ({host.bin}/make, sha256 ")


def test_no_names_give_the_system_alone(host: Host) -> None:
    found = find((), host)
    assert found.tools == () and Mount(Path("/usr"), "/usr") in found.mounts
    assert not any(m.writable for m in found.mounts)


@pytest.mark.parametrize("name", WANTED)
def test_what_is_missing_is_named_with_version_and_package(tmp_path: Path, name: str) -> None:
    bare = Host(tmp_path / "none", (), tmp_path, {})
    with pytest.raises(ToolMissing) as e:
        find((name,), bare)
    for part in (name, WANTED[name].version, "none was found", f"apt-get install {' '.join(WANTED[name].packages)}"):
        assert part in str(e.value)


@pytest.mark.parametrize(
    ("version", "enough"), [("11.4.0", False), ("9.10.0", False), ("12", True), ("12.2.0", True), ("14.1.0", True)]
)
def test_versions_are_compared_as_numbers(host: Host, version: str, enough: bool) -> None:
    gcc(host.bin, version)
    if enough:
        assert versions(find(("gcc",), host))["gcc"] == version
        return
    with pytest.raises(ToolMissing, match=f"gcc 12 or newer is needed and only {version} "):
        find(("gcc",), host)


@pytest.mark.parametrize(
    ("lost", "package"), [("cc1", "binutils"), ("ld", "binutils"), ("as", "binutils"), ("gcc", "gcc libc6-dev")]
)
def test_a_compiler_without_a_part_does_not_count(host: Host, lost: str, package: str) -> None:
    (host.bin / lost).unlink()
    with pytest.raises(ToolMissing, match=package):
        find(("gcc",), host)


def test_a_compiler_without_a_c_library_does_not_count(host: Host) -> None:
    program(host.bin / "gcc", "case $1 in --version) echo 'gcc 12.2.0';; -print-file-name=*) echo ${1#*=};; esac")
    with pytest.raises(ToolMissing, match=r"no C library to link with: .*libc6-dev"):
        find(("gcc",), host)


def test_a_tool_that_does_not_run_is_none(host: Host) -> None:
    program(host.bin / "make", "exit 1")
    with pytest.raises(ToolMissing, match="make 4 or newer is needed and only one that does not run"):
        find(("make",), host)


def test_an_unknown_name_gets_a_suggestion(host: Host) -> None:
    with pytest.raises(UsageError, match=r"'rusty' is unknown .*did you mean 'rust'"):
        find(("rusty",), host)


def test_the_newest_rust_wins_wherever_it_is(host: Host, tmp_path: Path) -> None:
    old = rust(tmp_path / "debian", "1.63.0 (4b91a6ea7 2022-08-08)")
    (host.bin / "rustc").symlink_to(old / "bin" / "rustc")
    assert versions(find(("rust",), host))["rustc"] == "1.63.0 (4b91a6ea7 2022-08-08)"
    new = rust(tmp_path / "home" / ".rustup" / "toolchains" / "stable", "1.100.0 (abc 2026-01-01)")
    found = find(("rust",), host)
    assert versions(found) == {"rustc": "1.100.0 (abc 2026-01-01)", "cargo": "1.100.0 (abc 2026-01-01)"}
    assert Mount(new, "/opt/rust") in found.mounts and found.path == "/opt/rust/bin:/usr/bin:/bin"
    assert found.tools[0].inside == "/opt/rust/bin/rustc"


def test_a_shim_on_the_path_is_asked_for_its_sysroot(host: Host, tmp_path: Path) -> None:
    real = rust(tmp_path / "far" / "away", "1.90.0 (x 2026-01-01)")
    program(tmp_path / "path" / "rustc", f'exec {real}/bin/rustc "$@"')
    found = find(("rust",), host)
    assert found.tools[0].path == str(real / "bin" / "rustc")
    assert not any("path" in Path(m.source).parts[-1:] for m in found.mounts)


def test_a_prerelease_serves_only_where_no_release_does(host: Host, tmp_path: Path) -> None:
    toolchains = tmp_path / "home" / ".rustup" / "toolchains"
    rust(toolchains / "nightly", "1.97.0-nightly (x 2026-05-19)")
    assert versions(find(("rust",), host))["rustc"].startswith("1.97.0-nightly")
    rust(toolchains / "stable", "1.95.0 (x 2026-04-14)")
    assert versions(find(("rust",), host))["rustc"].startswith("1.95.0 ")


def test_rustup_home_is_heeded(host: Host, tmp_path: Path) -> None:
    rust(tmp_path / "elsewhere" / "toolchains" / "a", "1.80.0 (x)")
    with pytest.raises(ToolMissing, match=r"rust 1\.63 or newer"):
        find(("rust",), host)
    moved = msgspec.structs.replace(host, env={"RUSTUP_HOME": str(tmp_path / "elsewhere")})
    assert versions(find(("rust",), moved))["rustc"] == "1.80.0 (x)"


@pytest.mark.parametrize("fault", ["std", "cargo", "rustc", "old"])
def test_a_rust_that_cannot_build_does_not_count(host: Host, tmp_path: Path, fault: str) -> None:
    version = "1.62.1 (x)" if fault == "old" else "1.95.0 (x)"
    root = rust(tmp_path / "home" / ".rustup" / "toolchains" / "a", version, std=fault != "std")
    if fault in ("cargo", "rustc"):
        program(root / "bin" / fault, "exit 1")
    with pytest.raises(ToolMissing, match=r"rust 1\.63 or newer is needed and .*REFACTORBENCH_RUST"):
        find(("rust",), host)


def test_rust_without_a_linker(host: Host, tmp_path: Path) -> None:
    rust(tmp_path / "home" / ".rustup" / "toolchains" / "a", "1.95.0 (x)")
    assert find(("rust",), host).tools
    (host.bin / "cc").unlink()
    with pytest.raises(ToolMissing, match="links through `cc`"):
        find(("rust",), host)


def test_a_named_sysroot_is_the_only_candidate(host: Host, tmp_path: Path) -> None:
    rust(tmp_path / "home" / ".rustup" / "toolchains" / "a", "1.95.0 (x)")
    named = rust(tmp_path / "named", "1.70.0 (x)")
    chosen = msgspec.structs.replace(host, env={"REFACTORBENCH_RUST": str(named)})
    assert versions(find(("rust",), chosen))["rustc"] == "1.70.0 (x)"
    wrong = msgspec.structs.replace(host, env={"REFACTORBENCH_RUST": str(tmp_path / "none")})
    with pytest.raises(UsageError, match=r"REFACTORBENCH_RUST is .*none, which is no working Rust sysroot"):
        find(("rust",), wrong)


def test_the_fingerprint_tells_a_changed_tool_and_nothing_else(host: Host, tmp_path: Path) -> None:
    before = find(("gcc", "make"), host).fingerprint
    assert find(("make", "gcc"), host).fingerprint == before
    shutil.copytree(host.bin, tmp_path / "moved", symlinks=True)
    assert find(("make",), msgspec.structs.replace(host, bin=tmp_path / "moved")).fingerprint == (
        find(("make",), host).fingerprint
    )
    program(host.bin / "ld", "echo 'GNU ld 2.40'; : another")
    assert find(("gcc", "make"), host).fingerprint != before


def toy_task() -> Task:
    recipe = {"script": "s", "outputs": {}, "wall_s": 60.0}
    return msgspec.convert(
        {
            "schema": "refactorbench.task/1", "id": "toy", "title": "", "debt": "language", "from_stack": "",
            "to_stack": "", "budget_hours": 1.0, "status": "provisional", "generator": "g", "limits": {},
            "state_a": {"kind": "debian-source", "package": "", "version": "", "suite": "", "archive": "",
                        "sha256": "", "tree_sha256": ""},
            "reference": {**recipe, "toolchain": ["gcc", "make"]}, "target": {**recipe, "toolchain": ["rust"]},
            "variants": [{"id": "c", "env": {}, "toolchain": ["clang"]}],
            "runtime": {"libraries": []}, "old_stack": {"compilers": [], "source_suffixes": []},
        },
        Task,
    )  # fmt: skip


def test_needs_of_a_task_name_all_that_is_missing(host: Host, tmp_path: Path) -> None:
    needs = required_packages(toy_task(), host)
    assert len(needs.missing) == 2
    assert needs.packages == ("rustc", "cargo", "gcc", "libc6-dev", "clang")
    assert needs.install_mb == WANTED["rust"].disk_mb + WANTED["clang"].disk_mb
    assert needs.limit_s == 120.0


def test_an_optional_variant_needs_nothing(host: Host) -> None:
    task = toy_task()
    optional = tuple(msgspec.structs.replace(v, optional=True) for v in task.variants)
    needs = required_packages(msgspec.structs.replace(task, variants=optional), host)
    assert "clang" not in needs.packages and len(needs.missing) == 1


def test_needs_of_a_task_on_a_machine_that_has_all(host: Host, tmp_path: Path) -> None:
    rust(tmp_path / "home" / ".rustup" / "toolchains" / "a", "1.95.0 (x)")
    shutil.copy(host.bin / "gcc", host.bin / "clang")
    program(host.bin / "clang", (host.bin / "gcc").read_text().replace("12.2.0", "14.0.6").removeprefix("#!/bin/sh\n"))
    needs = required_packages(toy_task(), host)
    assert (needs.missing, needs.packages, needs.install_mb) == ((), (), 0)


def test_every_wanted_tool_says_what_to_install() -> None:
    for wanted in WANTED.values():
        assert isinstance(wanted, Wanted) and wanted.packages and wanted.disk_mb > 0


def available(name: str) -> bool:
    try:
        find((name,))
    except RefactorBenchError:
        return False
    return True


BUILDS = {
    "gcc": ('printf "int main(void) { return 7; }" > a.c && gcc -O1 -o a a.c && ./a', 7),
    "make": ("printf 'all:\\n\\t@exit 0\\n' > Makefile && make && exit 3", 3),
    "rust": (
        "cargo init -q --vcs none --name toy . && printf 'fn main() { std::process::exit(9) }' > src/main.rs"
        " && cargo build -q --release --offline && target/release/toy",
        9,
    ),
    "tclsh": ("echo 'exit 5' | tclsh", 5),
    "clang": ('printf "int main(void) { return 8; }" > a.c && clang -o a a.c && ./a', 8),
}


@needs_sandbox
@pytest.mark.parametrize("name", WANTED)
def test_the_mounts_suffice_to_build_and_run(tmp_path: Path, name: str) -> None:
    if not available(name):
        pytest.skip(f"{name} is not installed")
    toolchain = find((name,))
    script, code = BUILDS[name]
    (tmp_path / "tree").mkdir()
    done = BubblewrapSandbox().run(
        Command(
            argv=("/bin/sh", "-c", script),
            mounts=(*toolchain.mounts, Mount(tmp_path / "tree", "/build/tree", writable=True)),
            cwd="/build/tree",
            env={"PATH": toolchain.path, "HOME": "/tmp", "LC_ALL": "C"},
            limits=Limits(wall_s=60, cpu_s=60, memory_mb=2048),
            log=tmp_path / "log",
            symlinks=toolchain.symlinks,
        )
    )
    assert (done.ended, done.code) == ("exit", code), (tmp_path / "log").read_text()
