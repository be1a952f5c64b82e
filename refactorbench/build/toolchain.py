"""Toolchains are pinned by minimum version and found where they are: the newest one that works, with what must be
mounted for it to run in a sandbox.

/usr is mounted whole (compilers find their parts by absolute path); a Rust sysroot outside /usr appears at /opt/rust,
so that nothing a build can see depends on whose machine it is.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from refactorbench.catalog.models import Task
from refactorbench.errors import ToolMissing, UsageError, did_you_mean
from refactorbench.hashing import sha256_file
from refactorbench.sandbox.protocol import Mount

RUST_TARGET = "/opt/rust"
SYSTEM_PATH = "/usr/bin:/bin"


class Wanted(msgspec.Struct, frozen=True):
    """What a toolchain name means. `disk_mb` is what its Debian packages take when nothing is installed yet."""

    minimum: tuple[int, ...]
    packages: tuple[str, ...]
    disk_mb: int

    @property
    def version(self) -> str:
        return ".".join(map(str, self.minimum))

    @property
    def remedy(self) -> str:
        return f"apt-get install {' '.join(self.packages)}"


WANTED: Mapping[str, Wanted] = {
    "gcc": Wanted((12,), ("gcc", "libc6-dev"), 180),
    "clang": Wanted((14,), ("clang", "libc6-dev"), 650),
    "make": Wanted((4,), ("make",), 2),
    "tclsh": Wanted((8, 6), ("tcl",), 8),
    "rust": Wanted((1, 63), ("rustc", "cargo", "gcc", "libc6-dev"), 620),
}


class Tool(msgspec.Struct, frozen=True):
    """One executable: `path` is the real file on the host, `inside` where a sandbox with the mounts finds it."""

    name: str
    version: str
    path: str
    inside: str
    sha256: str


class Toolchain(msgspec.Struct, frozen=True):
    """What a build sandbox needs. `mounts` are read-only, `symlinks` are (target, path), `path` is its PATH;
    `fingerprint` is over every tool's name, version and content."""

    tools: tuple[Tool, ...]
    mounts: tuple[Mount, ...]
    symlinks: tuple[tuple[str, str], ...]
    path: str
    fingerprint: str

    @property
    def versions(self) -> dict[str, str]:
        """Facts for the lock: tool -> version and where it was found."""
        return {t.name: f"{t.version} ({t.path}, sha256 {t.sha256[:12]})" for t in self.tools}


class Host(msgspec.Struct, frozen=True):
    """Where to look: the folder of the system's tools, the user's PATH folders, home and environment."""

    bin: Path
    path: tuple[Path, ...]
    home: Path
    env: Mapping[str, str]

    @classmethod
    def this(cls) -> Host:
        path = tuple(Path(p) for p in os.environ.get("PATH", "").split(":") if p.startswith("/"))
        return cls(Path("/usr/bin"), path, Path.home(), dict(os.environ))


def find(names: Iterable[str], host: Host | None = None) -> Toolchain:
    """Return the tools that `names` (keys of WANTED) stand for: the system's own, and the newest Rust that works.

    No names give a sandbox with the system's programs. ToolMissing names the tool, the version wanted, what was found
    instead and the Debian packages; UsageError an unknown name, or a REFACTORBENCH_RUST that doesn't work.
    """
    host = host or Host.this()
    tools: list[Tool] = []
    mounts, symlinks = _base_mounts()
    path = SYSTEM_PATH
    for name in dict.fromkeys(names):
        if name == "rust":
            sysroot, found = _rust(host)
            tools += found
            if not sysroot.is_relative_to("/usr"):
                mounts.append(Mount(sysroot, RUST_TARGET))
                mounts += _foreign_libraries(sysroot)
                path = f"{RUST_TARGET}/bin:{path}"
            elif sysroot != Path("/usr"):
                path = f"{sysroot}/bin:{path}"
        elif name in WANTED:
            tools += _system(name, host)
        else:
            raise UsageError(
                f"toolchain '{name}' is unknown{did_you_mean(name, WANTED)}: known are {', '.join(WANTED)}"
            )
    digest = hashlib.sha256(msgspec.json.encode(sorted((t.name, t.version, t.sha256) for t in tools))).hexdigest()
    return Toolchain(tuple(tools), tuple(mounts), tuple(symlinks), path, digest)


def _base_mounts() -> tuple[list[Mount], list[tuple[str, str]]]:
    """/usr, the alternatives it points through, and the top-level folders, which are links on a merged system."""
    mounts, symlinks = [Mount(Path("/usr"), "/usr")], []
    if Path("/etc/alternatives").is_dir():
        mounts.append(Mount(Path("/etc/alternatives"), "/etc/alternatives"))
    for top in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
        path = Path(top)
        if path.is_symlink():
            symlinks.append((str(path.readlink()), top))
        elif path.is_dir():
            mounts.append(Mount(path, top))
    return mounts, symlinks


def _output(argv: list[str], env: Mapping[str, str] | None = None, stdin: str = "") -> str:
    """stdout of a short command, "" when it can't be run, fails or hangs."""
    try:
        done = subprocess.run(
            argv, cwd="/", env={**(env or os.environ), "LC_ALL": "C"}, input=stdin.encode(),
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=30, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else ""


def numbers(text: str) -> tuple[int, ...]:
    """The first version number in a text, () where there is none."""
    match = re.search(r"\d+(?:\.\d+)*", text)
    return tuple(int(n) for n in match[0].split(".")) if match else ()


def _version(path: Path) -> str:
    """The first version number that `path --version` prints on its first line, "" when it doesn't run."""
    if path.name == "tclsh":  # has no --version
        return _output([str(path)], stdin="puts [info patchlevel]")
    first = _output([str(path), "--version"]).split("\n", 1)[0]
    return ".".join(map(str, numbers(re.sub(r"\([^)]*\)", "", first))))


def _missing(name: str, found: str) -> ToolMissing:
    wanted = WANTED[name]
    return ToolMissing(
        f"{name} {wanted.version} or newer is needed and {found or 'none'} was found: install it with `{wanted.remedy}`"
        + (", or name a Rust sysroot in REFACTORBENCH_RUST" if name == "rust" else "")
    )


def _tool(name: str, version: str, path: Path, inside: str) -> Tool:
    real = path.resolve()
    return Tool(name, version, str(real), inside, sha256_file(real))


def _system(name: str, host: Host) -> list[Tool]:
    """A tool that the sandbox finds by its plain name in /usr/bin, and for compilers the parts that they need."""
    path = host.bin / name
    version = _version(path) if path.exists() else ""
    if not version or numbers(version) < WANTED[name].minimum:
        raise _missing(name, f"only {version or 'one that does not run'} ({path})" if path.exists() else "")
    tools = [_tool(name, version, path, f"/usr/bin/{name}")]
    if name in ("gcc", "clang"):
        if not Path(_output([str(path), "-print-file-name=crt1.o"])).is_absolute():
            raise ToolMissing(f"{path} has no C library to link with: install it with `apt-get install libc6-dev`")
        tools += _parts(path, version, host, ("cc1", "as", "ld") if name == "gcc" else ("ld",))
    return tools


def _parts(compiler: Path, version: str, host: Host, names: Iterable[str]) -> list[Tool]:
    """The programs that the compiler runs; those it names by a bare word come from the system's folder."""
    tools = []
    for name in names:
        said = _output([str(compiler), f"-print-prog-name={name}"]) or name
        path = Path(said) if said.startswith("/") else host.bin / said
        if not path.exists():
            raise ToolMissing(f"{compiler} has no {name}: install it with `apt-get install {compiler.name} binutils`")
        tools.append(_tool(name, version if name == "cc1" else _version(path), path, str(path)))
    return tools


def _rust(host: Host) -> tuple[Path, list[Tool]]:
    """Return (sysroot, [rustc, cargo]). rustup's shims are asked for the real sysroot and never used themselves."""
    named = host.env.get("REFACTORBENCH_RUST")
    sysroots = [Path(named)] if named else _sysroots(host)
    versions = {root: _rust_version(root) for root in dict.fromkeys(sysroots)}
    if named and not versions[Path(named)]:
        raise UsageError(
            f"REFACTORBENCH_RUST is {named}, which is no working Rust sysroot (bin/rustc, bin/cargo and a standard "
            "library below lib/rustlib): correct it, or unset it to search"
        )
    # Pre-releases serve only where no release does.
    able = [(p, v) for p, v in versions.items() if numbers(v) >= WANTED["rust"].minimum]
    if not able:
        raise _missing("rust", ", ".join(f"only {v or 'one that does not run'} ({p})" for p, v in versions.items()))
    sysroot, version = max(able, key=lambda pv: ("-" not in pv[1].split()[0], numbers(pv[1]), str(pv[0])))
    if not (host.bin / "cc").exists():
        raise ToolMissing("rustc links through `cc` and there is none: install it with `apt-get install gcc libc6-dev`")
    inside = sysroot if sysroot.is_relative_to("/usr") else Path(RUST_TARGET)
    cargo = _output([str(sysroot / "bin" / "cargo"), "--version"]).removeprefix("cargo ")
    return sysroot, [
        _tool("rustc", version, sysroot / "bin" / "rustc", f"{inside}/bin/rustc"),
        _tool("cargo", cargo, sysroot / "bin" / "cargo", f"{inside}/bin/cargo"),
    ]


def _sysroots(host: Host) -> list[Path]:
    asked = [folder / "rustc" for folder in (*host.path, host.bin, host.home / ".cargo" / "bin")]
    found = [_output([str(r), "--print", "sysroot"], host.env) for r in asked if os.access(r, os.X_OK)]
    rustup = Path(host.env.get("RUSTUP_HOME") or host.home / ".rustup") / "toolchains"
    below = sorted(rustup.iterdir()) if rustup.is_dir() else []
    return [root for root in (*map(Path, filter(None, found)), *below) if (root / "bin" / "rustc").exists()]


def _rust_version(sysroot: Path) -> str:
    """rustc's version line, "" unless rustc and cargo run and a standard library is there."""
    said = _output([str(sysroot / "bin" / "rustc"), "-vV"])
    host = re.search(r"^host: (\S+)$", said, re.MULTILINE)
    if not host or not _output([str(sysroot / "bin" / "cargo"), "--version"]):
        return ""
    library = sysroot / "lib" / "rustlib" / host[1] / "lib"
    return said.splitlines()[0].removeprefix("rustc ") if any(library.glob("libstd-*.rlib")) else ""


def _foreign_libraries(sysroot: Path) -> list[Mount]:
    """Folders outside /usr and the sysroot from which rustc's own libraries come (none for usual installations)."""
    linked = re.findall(r"=> (/\S+)", _output(["ldd", str(sysroot / "bin" / "rustc")]))
    folders = {Path(os.path.normpath(lib)).parent.resolve() for lib in linked}
    known = (Path("/usr"), sysroot.resolve(), Path("/lib"), Path("/lib64"))
    return [Mount(f, str(f)) for f in sorted(folders) if not any(f.is_relative_to(k) for k in known)]


class Needs(msgspec.Struct, frozen=True):
    """What a task asks of the machine, before anything is fetched. `missing` are ToolMissing's sentences; `packages`
    the Debian packages that mend them; `install_mb` their size; `limit_s` the sum of the builds' own time limits."""

    missing: tuple[str, ...]
    packages: tuple[str, ...]
    install_mb: int
    limit_s: float


def required_packages(task: Task, host: Host | None = None) -> Needs:
    """Look for every toolchain that the task's builds name; an optional variant needs none."""
    recipes = (task.reference, task.target)
    wanted = [r.toolchain for r in recipes] + [v.toolchain for v in task.variants if not v.optional]
    names = dict.fromkeys(name for toolchain in wanted for name in toolchain)
    missing: list[str] = []
    packages: dict[str, None] = {}
    size = 0
    for name in names:
        try:
            find((name,), host)
        except ToolMissing as e:
            missing.append(str(e))
            packages |= dict.fromkeys(WANTED[name].packages)
            size += WANTED[name].disk_mb
    return Needs(tuple(missing), tuple(packages), size, sum(r.wall_s for r in recipes))
