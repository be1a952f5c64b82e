"""What this machine has and what it lacks, each fact tried out rather than looked up."""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from refactorbench.build.toolchain import find
from refactorbench.catalog.models import LoadedTask
from refactorbench.catalog.sources import archive_path, tree_path
from refactorbench.errors import RefactorBenchError, ToolMissing
from refactorbench.paths import cache_dir
from refactorbench.sandbox.protocol import Command, Completed, Limits, Sandbox

FREE_MB = 2048  # of disk below which a run can't be counted on
# bash, because every Debian has it: it says "tried" before and "open" after it connects.
CONNECT = ("/bin/bash", "-c", 'echo tried; exec 3<>"/dev/tcp/$1/$2" && echo open', "connect")
SANDBOX_REMEDY = "apt-get install bubblewrap, and allow user namespaces (sysctl kernel.unprivileged_userns_clone=1)"
TRACE_REMEDY = "apt-get install strace, and allow ptrace (sysctl kernel.yama.ptrace_scope below 3)"
ROUTED = ("192.0.2.1", 9)  # a documentation address: asking for the route to it sends nothing


class Finding(msgspec.Struct, frozen=True):
    """`remedy` is empty when the status is ok."""

    name: str
    status: Literal["ok", "warn", "bad"]
    text: str
    remedy: str = ""


def examine(sandbox: Sandbox, tasks: Iterable[LoadedTask], cache: Path | None = None) -> tuple[Finding, ...]:
    """Try out what the tasks need of this machine; never raises for something that is missing.

    `cache` defaults to the user's. Takes a few seconds and starts a few sandboxes.
    """
    loaded = tuple(tasks)
    found = [_python(), *_sandbox(sandbox)]
    names = {"gcc", *(n for t in loaded for n in (*t.task.reference.toolchain, *t.task.target.toolchain))}
    found += [_tool(name) for name in sorted(names)]
    found += [_static_libc(), _git()]
    folder = _guard("cache", lambda: _cache_folder(cache), "set REFACTORBENCH_CACHE to a folder that can be written")
    found.append(folder)
    if folder.status != "bad":
        place = cache or cache_dir()
        found += [_disk(place), *(_state_a(task, place) for task in loaded)]
    return tuple(found)


def _guard(name: str, check: Callable[[], Finding], remedy: str) -> Finding:
    try:
        return check()
    except (RefactorBenchError, OSError, subprocess.SubprocessError) as e:
        return Finding(name, "bad", str(e), remedy)


def _python() -> Finding:
    version = platform.python_version()
    if tuple(map(int, version.split(".")[:2])) < (3, 11):
        return Finding("python", "bad", f"Python {version}; 3.11 is the oldest that works", "apt-get install python3")
    return Finding("python", "ok", f"Python {version}")


def _sandbox(sandbox: Sandbox) -> list[Finding]:
    starts = _guard("sandbox", lambda: _starts(sandbox), SANDBOX_REMEDY)
    if starts.status == "bad":
        rest = ("limits", "trace", "network")
        return [starts, *(Finding(n, "bad", "not examined: no sandbox can be started", starts.remedy) for n in rest)]
    return [
        starts,
        _guard("limits", lambda: _limits(sandbox), "mend the sandbox first"),
        _guard("trace", lambda: _trace(sandbox), TRACE_REMEDY),
        _guard("network", lambda: _network(sandbox), "mend the sandbox first"),
    ]


def _run(sandbox: Sandbox, argv: tuple[str, ...], folder: Path, wall_s: float = 20.0, trace: bool = False) -> Completed:
    """Run a program of the host's /usr in a sandbox that holds /usr and nothing else; its output is in folder/log."""
    system = find(())
    return sandbox.run(
        Command(
            argv=argv,
            mounts=system.mounts,
            cwd="/",
            env={"PATH": system.path, "LC_ALL": "C"},
            limits=Limits(wall_s=wall_s),
            log=folder / "log",
            trace=folder / "trace" if trace else None,
            symlinks=system.symlinks,
        )
    )


@contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="refactorbench-doctor-") as folder:
        yield Path(folder)


def _starts(sandbox: Sandbox) -> Finding:
    facts = sandbox.describe()
    with _scratch() as folder:
        done = _run(sandbox, ("/usr/bin/true",), folder)
        if (done.ended, done.code) != ("exit", 0):
            said = (folder / "log").read_text(errors="replace").strip()
            return Finding(
                "sandbox", "bad", f"`true` ended with {done.ended} {done.code} in a sandbox: {said}",
                SANDBOX_REMEDY,
            )  # fmt: skip
    shown = ", ".join(facts.get(key, "?") for key in ("implementation", "version", "user"))
    return Finding("sandbox", "ok", f"starts ({shown})")


def _limits(sandbox: Sandbox) -> Finding:
    mechanism = sandbox.describe().get("limits", "")
    with _scratch() as folder:
        done = _run(sandbox, ("/bin/sleep", "60"), folder, wall_s=0.5)
    if (done.ended, done.limit) != ("limit", "wall"):
        text = f"a program with half a second to live ended with {done.ended} {done.code} after {done.wall_s:.1f} s"
        return Finding("limits", "bad", text, "report this with the output of `refactorbench doctor --json`")
    if "cgroup" not in mechanism:
        return Finding(
            "limits", "warn", f"{mechanism or 'unknown'}: a process tree's memory is watched, not bounded by a cgroup",
            "run as root, or in a session with delegated cgroups (systemd-run --user --scope -p Delegate=yes ...)",
        )  # fmt: skip
    return Finding("limits", "ok", f"{mechanism}; a runaway program was stopped after {done.wall_s:.1f} s")


def _trace(sandbox: Sandbox) -> Finding:
    with _scratch() as folder:
        _run(sandbox, ("/bin/sh", "-c", "/usr/bin/true"), folder, trace=True)
        trace = folder / "trace"
        text = trace.read_text(errors="replace") if trace.exists() else ""
    if 'execve("/usr/bin/true"' not in text:
        return Finding(
            "trace", "bad", "strace ran with the sandbox, but the trace doesn't show the program that was started",
            TRACE_REMEDY,
        )  # fmt: skip
    return Finding("trace", "ok", "strace sees what is started in a sandbox")


def _network(sandbox: Sandbox) -> Finding:
    """Listening sockets of the host's that the host can reach, and that the sandbox must not."""
    addresses = ["127.0.0.1", *filter(None, (_own_address(),))]
    for address in addresses:
        fault = _reached(sandbox, address)
        if fault is not None:
            return fault
    shown = " and ".join(addresses)
    return Finding("network", "ok", f"closed: the host reaches its sockets on {shown}, a sandbox reaches none of them")


def _reached(sandbox: Sandbox, address: str) -> Finding | None:
    """What is wrong with a sandbox's isolation from the host's `address`; None when it is proved closed."""
    with socket.socket() as server, _scratch() as folder:
        server.bind((address, 0))
        server.listen()
        argv = (*CONNECT, address, str(server.getsockname()[1]))
        control = subprocess.run(argv, capture_output=True, timeout=20, check=False)
        if b"open" not in control.stdout or not _accepted(server):
            return Finding(
                "network", "bad", f"not proved: even the host can't reach its own socket on {address}",
                "allow local connections (firewall) and run doctor again",
            )  # fmt: skip
        _run(sandbox, argv, folder)
        said = (folder / "log").read_text(errors="replace")
        if "tried" not in said:
            return Finding(
                "network", "bad", f"not proved: the probe did not run in the sandbox: {said.strip()}",
                "apt-get install bash",
            )  # fmt: skip
        if "open" in said or _accepted(server):
            return Finding(
                "network", "bad", f"a program in a sandbox reached the host's socket on {address}",
                "grade nothing on this machine until bubblewrap can make network namespaces",
            )  # fmt: skip
    return None


def _own_address() -> str:
    """This machine's address on the way out, "" when it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(ROUTED)
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def _accepted(server: socket.socket) -> bool:
    server.settimeout(0)
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _tool(name: str) -> Finding:
    try:
        toolchain = find((name,))
    except ToolMissing as e:
        return Finding(name, "bad", str(e), "install what the line names")
    except RefactorBenchError as e:
        return Finding(name, "bad", str(e), "correct what the line names")
    return Finding(name, "ok", ", ".join(f"{t.name} {t.version}" for t in toolchain.tools))


def _static_libc() -> Finding:
    remedy = "apt-get install gcc libc6-dev"
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return Finding("static libc", "bad", "there is no cc, so the sandbox's own programs can't be built", remedy)
    said = subprocess.run([compiler, "-print-file-name=libc.a"], capture_output=True, text=True, check=False).stdout
    library = Path(said.strip())
    if not library.is_absolute():
        return Finding("static libc", "bad", "cc has no libc.a, so the sandbox's own programs can't be linked", remedy)
    return Finding("static libc", "ok", str(library.resolve()))


def _git() -> Finding:
    if shutil.which("git"):
        return Finding("git", "ok", "baseline commits can be made")
    return Finding("git", "warn", "not installed: `task checkout` makes no baseline commit", "apt-get install git")


def _cache_folder(cache: Path | None) -> Finding:
    place = cache or cache_dir()
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=place):
        return Finding("cache", "ok", str(place))


def _disk(place: Path) -> Finding:
    free = shutil.disk_usage(place).free >> 20
    remedy = "free some space, or set REFACTORBENCH_CACHE and --out to a larger disk"
    if free < FREE_MB:
        return Finding("disk", "bad", f"{free} MiB free at {place}; a run may take {FREE_MB}", remedy)
    if free < 2 * FREE_MB:
        return Finding("disk", "warn", f"{free} MiB free at {place}, enough for one run at a time", remedy)
    return Finding("disk", "ok", f"{free} MiB free at {place}")


def _state_a(task: LoadedTask, place: Path) -> Finding:
    name, source = f"State A of {task.task.id}", task.task.state_a
    if tree_path(source, place).is_dir() or archive_path(source, place).is_file():
        return Finding(name, "ok", f"{source.archive} is in the cache: no network is needed")
    return Finding(
        name, "warn", f"{source.archive} is not in the cache: the first run fetches it",
        f"refactorbench task fetch {task.task.id}, while there is a network",
    )  # fmt: skip
