"""A real sandbox with a shell in it, as the agents get it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from refactorbench.agents.shell import OUTPUT, SESSION, Shell, ShellState, session_command
from refactorbench.build.toolchain import Toolchain, find
from refactorbench.sandbox import BubblewrapSandbox, Command, Limits, Mount

MakeShell = Callable[..., Shell]


@pytest.fixture(scope="session")
def sandbox() -> BubblewrapSandbox:
    return BubblewrapSandbox()


@pytest.fixture(scope="session")
def system() -> Toolchain:
    return find(())


@pytest.fixture
def make_shell(tmp_path: Path, sandbox: BubblewrapSandbox, system: Toolchain) -> Iterator[MakeShell]:
    """Call it to start a shell over tmp_path/tree; a second call with its state is what a restart does."""
    opened: list[Shell] = []
    for name in ("tree", "output", "session"):
        (tmp_path / name).mkdir(exist_ok=True)

    def make(state: ShellState = ShellState(), cut: int = 2000, **limits: int) -> Shell:  # noqa: B008
        bounds = {"memory_mb": 1024, "processes": 64, "file_mb": 128, "disk_mb": 128} | limits
        mounts = (
            *system.mounts, Mount(tmp_path / "tree", "/build/tree", True),
            Mount(tmp_path / "output", OUTPUT, True), Mount(tmp_path / "session", SESSION),
        )  # fmt: skip
        env = {"PATH": system.path, "HOME": "/tmp", "LC_ALL": "C.UTF-8"}
        command = Command(
            (), mounts, "/build/tree", env, Limits(3600, 3600, **bounds), tmp_path / "log", symlinks=system.symlinks
        )
        shell = Shell(
            lambda: sandbox.open_session(session_command(command)),
            tmp_path / "session",
            tmp_path / "output",
            state,
            cut,
        )
        opened.append(shell)
        return shell

    yield make
    for shell in opened:
        shell.close()
