"""Whose a process is whose clone lacks its pid: the compiler's where only the compiler can have made it."""

from __future__ import annotations

from pathlib import Path

from refactorbench.build.family import FORKS, Family
from refactorbench.build.trace import Call, read_trace


def parents(folder: Path, *lines: str) -> dict[int, list[int]]:
    """Stray process -> pids of those that may have made it, over a trace given line by line."""
    path = folder / "trace.txt"
    path.write_text("".join(line + "\n" for line in lines))
    calls = read_trace(path).calls
    family: Family[int] = Family(calls)
    named, found = {calls[0].pid}, {}
    for call in calls:
        if call.pid not in named | found.keys():
            found[call.pid] = family.parents(call.pid)
        if call.name in FORKS and (pid := family.cloned(call, call.pid)):
            named.add(pid)
    return found


def told(pid: int, number: int, host: int) -> str:
    here = f"{number} /* {host} in strace's PID NS */"
    return f"{pid} clone3({{flags=CLONE_VM}} => {{parent_tid=[{here}]}}, 88) = {here}"


def untold(pid: int, number: int) -> str:
    """As strace says it when the new thread has ended before its pid could be looked up."""
    return f"{pid} clone3({{flags=CLONE_VM}} => {{parent_tid=[0]}}, 88) = {number}"


def does(pid: int) -> str:
    return f"{pid} mprotect(0x7f00, 4096, PROT_NONE) = 0"


def test_every_process_is_known_where_every_pid_is_translated(tmp_path: Path) -> None:
    assert parents(tmp_path, told(10, 2, 20), does(20), told(20, 3, 21), does(21)) == {}


def test_without_any_translation_both_numberings_are_one(tmp_path: Path) -> None:
    assert parents(tmp_path, "10 fork() = 20", does(20), "20 fork() = 21", does(21)) == {}


def test_one_clone_without_a_pid_made_the_one_process_without_a_clone(tmp_path: Path) -> None:
    assert parents(tmp_path, told(10, 2, 20), untold(20, 3), does(21)) == {21: [20]}
    cut = "20 clone3({flags=CLONE_VM} <unfinished ...>", does(21), "20 <... clone3 resumed> => {parent_tid=[0]}, 88) = 3"
    assert parents(tmp_path, told(10, 2, 20), *cut) == {21: [20]}


def test_a_sandboxs_number_is_never_taken_for_another_process(tmp_path: Path) -> None:
    lines = told(10, 2, 5), told(10, 3, 6), untold(5, 6), does(7), does(6)
    assert parents(tmp_path, *lines) == {7: [5]}


def test_the_order_of_both_numberings_tells_apart_whose_each_is(tmp_path: Path) -> None:
    two = told(10, 2, 20), told(10, 3, 30), untold(20, 4), untold(30, 5)
    assert parents(tmp_path, *two, does(32), does(31)) == {32: [30], 31: [20]}
    between = told(10, 2, 20), told(10, 3, 30), untold(20, 4), told(10, 5, 40), untold(30, 6)
    assert parents(tmp_path, *between, does(41), does(31)) == {41: [30], 31: [20]}


def test_where_it_could_be_either_it_counts_for_both(tmp_path: Path) -> None:
    silent = told(10, 2, 20), told(10, 3, 30), untold(20, 4), untold(30, 5), does(31)
    assert parents(tmp_path, *silent) == {31: [20, 30]}


def test_a_clone_that_never_returned_may_have_made_it(tmp_path: Path) -> None:
    lines = told(10, 2, 20), told(10, 3, 30), "30 clone(flags=SIGCHLD <unfinished ...>", untold(20, 4), does(31)
    assert parents(tmp_path, *lines) == {31: [30, 20]}
    again = told(10, 2, 20), "10 clone(flags=SIGCHLD) = ? ERESTARTNOINTR (To be restarted)", untold(20, 3), does(21)
    assert parents(tmp_path, *again) == {21: [20]}


def test_a_host_that_began_to_count_anew_tells_no_order(tmp_path: Path) -> None:
    lines = told(10, 2, 900), told(10, 3, 20), untold(900, 4), untold(20, 5), does(21), does(22)
    assert parents(tmp_path, *lines) == {21: [900, 20], 22: [900, 20]}


def test_calls_that_failed_made_nobody(tmp_path: Path) -> None:
    refused = "30 clone3({flags=CLONE_VM}, 88) = -1 EAGAIN (Resource temporarily unavailable)"
    calls: list[Call] = []
    assert Family[int](calls).parents(1) == []
    assert parents(tmp_path, told(10, 2, 20), told(10, 3, 30), refused, untold(20, 4), does(31)) == {31: [20]}
