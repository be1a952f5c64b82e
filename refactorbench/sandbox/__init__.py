"""Where untrusted code runs: one protocol, bubblewrap namespaces, and a scripted implementation for tests."""

from refactorbench.sandbox.bubblewrap import BubblewrapSandbox
from refactorbench.sandbox.protocol import Command, Completed, Limits, Mount, Sandbox, Session, Worker, WorkerSpec
from refactorbench.sandbox.scripted import ScriptedSandbox, ScriptedWorker

__all__ = [
    "BubblewrapSandbox",
    "Command",
    "Completed",
    "Limits",
    "Mount",
    "Sandbox",
    "ScriptedSandbox",
    "ScriptedWorker",
    "Session",
    "Worker",
    "WorkerSpec",
]
