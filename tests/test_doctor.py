"""doctor tries things out: with sandboxes that fail in one way each, and with the real one."""

from __future__ import annotations

import shutil
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest

from refactorbench import doctor
from refactorbench.doctor import Finding, examine
from refactorbench.errors import HarnessError, ToolMissing
from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Command, Completed, Worker, WorkerSpec

Usage = namedtuple("Usage", "total used free")


class Fake:
    """A sandbox without walls: it runs the command on the host, unless told to misbehave."""

    name = "fake"

    def __init__(self, closed: bool = True, limits: str = "cgroup v2", fault: str = "") -> None:
        self.closed, self.limits, self.fault = closed, limits, fault

    def describe(self) -> dict[str, str]:
        return {"implementation": "fake", "version": "1", "user": "nobody", "limits": self.limits}

    def run(self, command: Command) -> Completed:
        if self.fault == "missing":
            raise ToolMissing("bwrap is not installed: apt-get install bubblewrap")
        if self.fault == "broken":
            command.log.write_text("no permissions for a namespace")
            return Completed("exit", 1, "", 0.0)
        if command.argv[0] == "/bin/sleep":
            return Completed("exit", 0, "", 60.0) if self.fault == "limits" else Completed("limit", 0, "wall", 0.5)
        if command.trace is not None:
            shown = "" if self.fault == "trace" else '1 execve("/usr/bin/true", ["/usr/bin/true"], 0x0) = 0\n'
            command.trace.write_text(shown)
        if command.argv[:1] == ("/bin/bash",) and self.fault == "no probe":
            command.log.write_text("bash: not found")
            return Completed("launch", 2, "", 0.0)
        if command.argv[:1] == ("/bin/bash",) and self.closed:
            command.log.write_text("tried\nconnect: Network is unreachable\n")
            return Completed("exit", 1, "", 0.0)
        done = subprocess.run(command.argv, capture_output=True, check=False)
        command.log.write_bytes(b"" if self.fault == "mute" else done.stdout + done.stderr)
        if self.fault == "mute":
            command.log.write_text("tried\n")
        return Completed("exit", done.returncode, "", 0.0)

    def open_worker(self, spec: WorkerSpec) -> Worker:
        raise HarnessError("not used here")


def named(found: tuple[Finding, ...], name: str) -> Finding:
    return next(f for f in found if f.name == name)


def status(sandbox: Fake, name: str, tmp_path: Path) -> tuple[str, str]:
    finding = named(examine(sandbox, (), tmp_path / "cache"), name)
    assert bool(finding.remedy) == (finding.status != "ok")
    return finding.status, finding.text


def test_a_machine_where_all_is_well(tmp_path: Path) -> None:
    found = examine(Fake(), (), tmp_path / "cache")
    assert {f.name for f in found} >= {
        "python",
        "sandbox",
        "limits",
        "trace",
        "network",
        "static libc",
        "cache",
        "disk",
    }
    assert [f for f in found if f.status == "bad" and f.name in ("sandbox", "limits", "trace", "network")] == []


def test_an_open_network_is_bad(tmp_path: Path) -> None:
    assert status(Fake(closed=True), "network", tmp_path)[0] == "ok"
    state, text = status(Fake(closed=False), "network", tmp_path)
    assert state == "bad" and "reached the host's socket on 127.0.0.1" in text


def test_a_connection_counts_even_if_the_program_is_silent_about_it(tmp_path: Path) -> None:
    state, text = status(Fake(closed=False, fault="mute"), "network", tmp_path)
    assert state == "bad" and "reached the host's socket" in text


def test_a_probe_that_did_not_run_proves_nothing(tmp_path: Path) -> None:
    state, text = status(Fake(fault="no probe"), "network", tmp_path)
    assert state == "bad" and "the probe did not run" in text


def test_without_a_working_control_nothing_is_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "CONNECT", ("/bin/bash", "-c", "echo tried; exit 1", "connect"))
    state, text = status(Fake(), "network", tmp_path)
    assert state == "bad" and text.startswith("not proved: even the host can't reach")


def test_only_an_open_routable_address_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class LoopbackClosed(Fake):
        def run(self, command: Command) -> Completed:
            self.closed = "127.0.0.1" in command.argv
            return super().run(command)

    monkeypatch.setattr(doctor, "_own_address", lambda: "127.0.0.2")  # stands in for a second address of the machine
    state, text = status(LoopbackClosed(), "network", tmp_path)
    assert state == "bad" and "127.0.0.2" in text


@pytest.mark.parametrize("fault", ["missing", "broken"])
def test_no_sandbox(tmp_path: Path, fault: str) -> None:
    found = examine(Fake(fault=fault), (), tmp_path / "cache")
    assert {named(found, n).status for n in ("sandbox", "limits", "trace", "network")} == {"bad"}
    assert "bubblewrap" in named(found, "sandbox").remedy
    assert named(found, "network").text.startswith("not examined")


def test_a_limit_that_does_not_stop_is_bad_and_one_without_cgroups_a_warning(tmp_path: Path) -> None:
    assert status(Fake(), "limits", tmp_path)[0] == "ok"
    assert status(Fake(fault="limits"), "limits", tmp_path)[0] == "bad"
    assert status(Fake(limits="rlimits"), "limits", tmp_path)[0] == "warn"


def test_an_empty_trace_is_bad(tmp_path: Path) -> None:
    assert status(Fake(), "trace", tmp_path)[0] == "ok"
    assert status(Fake(fault="trace"), "trace", tmp_path)[0] == "bad"


@pytest.mark.parametrize(("free", "wanted"), [(1, "bad"), (2047, "bad"), (2048, "warn"), (4095, "warn"), (4096, "ok")])
def test_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, wanted: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: Usage(0, 0, free << 20))
    assert status(Fake(), "disk", tmp_path)[0] == wanted


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    found = examine(Fake(), (), tmp_path / "cache")
    assert named(found, "cache").status == "bad" and "REFACTORBENCH_CACHE" in named(found, "cache").remedy


@pytest.mark.parametrize(
    ("version", "wanted"), [("3.10.9", "bad"), ("3.11.2", "ok"), ("3.13.0rc1", "ok"), ("4.0.0", "ok")]
)
def test_python(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, wanted: str) -> None:
    monkeypatch.setattr(doctor.platform, "python_version", lambda: version)
    assert status(Fake(), "python", tmp_path)[0] == wanted


def test_without_git_and_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert status(Fake(), "git", tmp_path)[0] == "warn"
    assert status(Fake(), "static libc", tmp_path)[0] == "bad"


def test_a_missing_toolchain_is_a_line_not_an_exception(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor.find

    def find(names: tuple[str, ...]) -> object:
        if names == ("gcc",):
            raise ToolMissing("gcc 12 or newer is needed and none was found")
        return real(names)

    monkeypatch.setattr(doctor, "find", find)
    assert status(Fake(), "gcc", tmp_path) == ("bad", "gcc 12 or newer is needed and none was found")


@pytest.mark.skipif(shutil.which("bwrap") is None or shutil.which("strace") is None, reason="bubblewrap and strace")
def test_the_real_sandbox_is_closed_limited_and_traceable(tmp_path: Path) -> None:
    found = examine(BubblewrapSandbox(), (), tmp_path / "cache")
    assert {n: named(found, n).status for n in ("sandbox", "trace", "network")} == {
        "sandbox": "ok", "trace": "ok", "network": "ok",
    }  # fmt: skip
    assert named(found, "limits").status in ("ok", "warn")
    assert "127.0.0.1" in named(found, "network").text
