"""The agent's bash in a real sandbox: what is kept, what is ended, what is told."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agents.conftest import MakeShell
from refactorbench.agents.confined import Refused
from refactorbench.agents.shell import end_leftover, shorten
from refactorbench.sandbox.limits import tree


def test_directory_variables_functions_and_aliases_are_kept(make_shell: MakeShell) -> None:
    shell = make_shell()
    shell.run("mkdir d; cd d; export A='x\ny'; B=4; f() { echo f$1; }; alias q='echo quux'; umask 027", 10)
    ran = shell.run('f 2; q; echo "$A" $B; pwd; umask', 10)
    assert ran.output == "f2\nquux\nx\ny 4\n/build/tree/d\n0027\n"
    assert shell.state.cwd == "/build/tree/d"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("true", 0),
        ("false", 1),
        ("(exit 42)", 42),
        ("kill -9 $BASHPID & wait $!", 137),
        ("nosuchprogram", 127),
        ("(", 2),
    ],
)
def test_the_status_is_exact(make_shell: MakeShell, command: str, status: int) -> None:
    assert make_shell().run(command, 10).status == status


@pytest.mark.parametrize(
    "command",
    [
        "sleep 100", "while :; do :; done", "while true; do sleep 9; done", "sleep 50 | cat", "cat /dev/zero > /dev/null",
        "trap '' INT TERM; sleep 60; sleep 60", "bash -c 'trap \"\" INT; while :; do :; done'",
    ],
)  # fmt: skip
def test_a_hanging_command_is_ended_without_the_shell(make_shell: MakeShell, command: str) -> None:
    shell = make_shell()
    shell.run("kept=yes; sleep 77 &", 10)
    ran = shell.run(command, 0.3)
    assert ran.ended == "time"
    after = shell.run("echo $kept", 10)
    assert (after.output, after.ended) == ("yes\n", "exit")
    assert shell.state.background == ("sleep 77",)  # jobs from before go on, and nothing of the command is left


def test_a_shell_that_does_not_let_go_is_replaced(make_shell: MakeShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("refactorbench.agents.shell.INTERRUPT_S", 0.3)
    shell = make_shell()
    shell.run("cd /usr; export A=1; sleep 66 &", 10)
    assert shell.run("trap '' INT; while :; do :; done", 0.2).ended == "time"
    assert shell.run("pwd; echo $A", 10).output == "/usr\n1\n"
    assert shell.state.background == ("sleep 66",)


def test_names_that_are_no_text_do_no_harm(make_shell: MakeShell) -> None:
    shell = make_shell()
    shell.run("mkdir $'a\\xff'; cd $'a\\xff'; mkdir /build/output/2.txt", 10)
    assert shell.run("ls", 10).output == ""
    assert shell.run("echo on", 10).output == "on\n" and shell.state.cwd == "/build/tree/a?"


def test_a_command_below_its_limit_is_not_ended(make_shell: MakeShell) -> None:
    assert make_shell().run("sleep 0.2; echo through", 10).output == "through\n"


def test_background_jobs_do_not_hold_a_command_up_and_their_output_can_be_read(make_shell: MakeShell) -> None:
    shell = make_shell()
    start = time.monotonic()
    ran = shell.run("(sleep 0.3; echo late) & echo now", 20)
    assert "now" in ran.output and "late" not in ran.output and time.monotonic() - start < 5
    assert shell.run(f"wait; cat {ran.path}", 20).output.splitlines()[-1] == "late"


def test_nothing_is_waiting_on_standard_input(make_shell: MakeShell) -> None:
    assert make_shell().run("cat; read x; echo $?", 10).output == "1\n"


@pytest.mark.parametrize(("command", "status"), [("exit 3", 3), ("set -e; false", 1), ("exec true", 0)])
def test_a_shell_that_ends_is_replaced_where_the_last_command_left_it(
    make_shell: MakeShell, command: str, status: int
) -> None:
    shell = make_shell()
    shell.run("cd /usr; export A=1; sleep 66 &", 10)
    ran = shell.run(command, 10)
    assert (ran.ended, ran.status) == ("shell", status)
    assert shell.run("pwd; echo $A", 10).output == "/usr\n1\n"
    assert shell.state.background == ("sleep 66",)


def test_a_sandbox_that_ends_is_replaced_too(make_shell: MakeShell) -> None:
    shell = make_shell()
    shell.run("cd /usr; export A=1; sleep 66 &", 10)
    assert shell.run("kill -9 -1", 10).ended == "sandbox"
    assert shell.run("pwd; echo $A", 10).output == "/usr\n1\n"
    assert shell.state.background == ()


def test_another_shell_goes_on_from_the_state(make_shell: MakeShell) -> None:
    first = make_shell()
    first.run("cd /usr; export A='a b'; unset LC_ALL; g() { echo g; }; unexported=7; sleep 55 &", 10)
    first.close()
    second = make_shell(first.state)
    assert second.run('pwd; echo "$A" ${LC_ALL-gone} $unexported; g', 10).output == "/usr\na b gone 7\ng\n"
    assert first.state.background == ("sleep 55",) and second.state.background == ()
    assert second.run("true", 10).path.endswith("/3.txt")


def test_long_output_is_cut_in_the_middle_and_the_sentence_leads_to_the_rest(make_shell: MakeShell) -> None:
    shell = make_shell(cut=300)
    ran = shell.run("seq 1000", 10)
    assert ran.output.startswith("1\n2\n") and ran.output.endswith("999\n1000\n")
    hint = ran.output.split("see them with: ")[1].split("]")[0]
    first = int(ran.output.split("[lines ")[1].split(" ")[0])
    assert shell.run(hint, 10).output.startswith(f"{first}\n")


def test_output_within_the_bound_is_whole() -> None:
    assert shorten("a\n" * 10, 20, "/x") == "a\n" * 10
    assert shorten("a\n" * 11, 20, "/x").startswith("a\n" * 5 + "[lines 6 to 6 (2 of 22 characters)")


def test_one_long_line_is_cut_too() -> None:
    text = shorten("x" * 1000, 100, "/o")
    assert "900 of 1000 characters" in text and text.count("x") == 100


def test_too_much_output_and_too_much_disk_end_a_command(
    make_shell: MakeShell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("refactorbench.agents.shell.LARGEST_OUTPUT", 1 << 20)
    shell = make_shell(disk_mb=16)
    assert shell.run("yes", 30).ended == "output"
    assert shell.run("for i in 1 2 3 4; do head -c 8000000 /dev/zero > f$i; done; sleep 60", 30).ended == "disk"


def test_no_network_no_privilege_and_nothing_of_the_host(make_shell: MakeShell, tmp_path: Path) -> None:
    shell = make_shell()
    assert shell.run("id -u", 10).output == "65534\n"
    assert shell.run(f"ls {tmp_path}", 10).status == 2
    ran = shell.run("(exec 3<>/dev/tcp/192.0.2.1/80) 2>&1", 10)
    assert "unreachable" in ran.output
    assert shell.run("touch /build/session/x || touch /usr/x", 10).status == 1


def test_a_command_with_a_nul_is_refused(make_shell: MakeShell) -> None:
    with pytest.raises(Refused, match="NUL"):
        make_shell().run("echo a\0b", 10)


def test_nothing_is_left_when_the_harness_dies(tmp_path: Path) -> None:
    program = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from pathlib import Path
from refactorbench.sandbox import *
from refactorbench.agents.shell import *
from refactorbench.build.toolchain import find
import os, signal
base, system = Path({str(tmp_path)!r}), find(())
for name in ("tree", "output", "session"): (base / name).mkdir()
mounts = (*system.mounts, Mount(base/"tree", "/build/tree", True), Mount(base/"output", OUTPUT, True), Mount(base/"session", SESSION))
command = Command((), mounts, "/build/tree", {{"PATH": system.path}}, Limits(60, 60, 1024, 64, 64, 64), base/"log", symlinks=system.symlinks)
box = BubblewrapSandbox()
shell = Shell(lambda: box.open_session(session_command(command)), base/"session", base/"output", ShellState())
shell.run("sleep 4242 & setsid sleep 4243 &", 5)
print(*shell._session.processes(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    pids = [int(p) for p in done.stdout.split()]
    assert done.returncode == -9 and len(pids) >= 4, done.stderr
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and any(_runs(p) for p in pids):
        time.sleep(0.02)
    assert not [p for p in pids if _runs(p)]


def _runs(pid: int) -> bool:
    try:
        return b"Z" not in Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False


def test_what_a_killed_harness_left_is_ended_and_nothing_that_took_its_number(tmp_path: Path) -> None:
    end_leftover(tmp_path)  # nothing was noted
    for same in (False, True):
        with subprocess.Popen(["sleep", "60"]) as other:
            started = dict(tree(other.pid))[other.pid][19]
            (tmp_path / "process").write_text(f"{other.pid} {int(started) + (not same)}")
            reaper = threading.Thread(target=other.wait)
            reaper.start()
            end_leftover(tmp_path)
            assert (other.poll() is not None) is same
            other.kill()
            reaper.join()


def test_a_sandbox_full_of_processes_can_still_be_emptied(make_shell: MakeShell) -> None:
    shell = make_shell(processes=16)
    shell.run("cd /usr; export A=1", 10)
    assert shell.run("for i in {1..60}; do (sleep 66 &); done", 4).ended in ("time", "exit")
    shell.run("ls", 2)
    assert shell.run("kill -9 -1", 10).ended == "sandbox"
    assert shell.run("pwd; echo $A", 10).output == "/usr\n1\n" and shell.state.background == ()
