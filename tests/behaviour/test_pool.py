import threading

import pytest
from scripted import Opened, broken, echo, make_check

from refactorbench.behaviour.pool import Pool, in_order
from refactorbench.errors import HarnessError
from refactorbench.observe.model import Check, Observation


def test_a_worker_is_opened_late_reused_and_closed() -> None:
    opened = Opened(echo)
    with Pool(opened) as pool:
        assert opened.opened == 0
        for i in range(5):
            pool.observe(make_check(f"m/{i}"))
    assert (opened.opened, opened.closed) == (1, 1)


def test_a_failing_worker_is_replaced_once() -> None:
    opened = Opened(broken, echo)
    with Pool(opened) as pool:
        assert pool.observe(make_check("m/1")) == echo(make_check("m/1"))
    assert (opened.opened, opened.closed) == (2, 2)


def test_a_second_failure_is_the_harness_and_leaks_no_worker() -> None:
    opened = Opened(broken)
    with Pool(opened) as pool:
        with pytest.raises(HarnessError):
            pool.observe(make_check("m/1"))
        assert isinstance(pool.answer(make_check("m/1")), HarnessError)
    assert opened.opened == opened.closed == 4


def test_bugs_are_not_taken_for_the_harness() -> None:
    def bug(_: object) -> None:
        raise ZeroDivisionError

    opened = Opened(bug)
    with Pool(opened) as pool, pytest.raises(ZeroDivisionError):
        pool.answer(make_check("m/1"))
    assert opened.opened == opened.closed == 1


@pytest.mark.parametrize("jobs", [1, 2, 5])
def test_answers_come_in_the_order_of_the_items(jobs: int) -> None:
    assert list(in_order(lambda x: x * x, range(200), jobs)) == [(x, x * x) for x in range(200)]


def test_jobs_run_side_by_side_and_few_items_are_held() -> None:
    meet = threading.Barrier(2, timeout=10)
    drawn = 0

    def items():
        nonlocal drawn
        while True:
            drawn += 1
            yield drawn

    answers = in_order(lambda x: meet.wait() if x <= 2 else x, items(), 2)  # one job alone would wait in vain
    next(answers)
    assert drawn <= 17
    answers.close()


def test_an_exception_of_the_function_passes_through() -> None:
    def bad(x: int) -> int:
        raise ValueError(x)

    for jobs in (1, 3):
        with pytest.raises(ValueError, match="0"):
            list(in_order(bad, range(10), jobs))


def test_an_interrupt_ends_what_runs_closes_all_and_starts_nothing() -> None:
    class Hanging:
        def __init__(self) -> None:
            self.ended, self.closed = threading.Event(), False

        def observe(self, check: Check) -> Observation:
            if check.id == "m/0":
                return echo(check)
            assert self.ended.wait(20), "nobody interrupted"
            raise HarnessError("interrupted")

        def interrupt(self) -> None:
            self.ended.set()

        def close(self) -> None:
            self.closed = True

    workers: list[Hanging] = []

    def opener() -> Hanging:
        workers.append(Hanging())
        return workers[-1]

    checks = [make_check(f"m/{i}") for i in range(9)]
    with pytest.raises(KeyboardInterrupt), Pool(opener, 2) as pool:
        for _ in in_order(pool.answer, checks, 2, pool.stop):
            raise KeyboardInterrupt
    assert workers and all(w.closed for w in workers)
    assert len(workers) <= 4
    with pytest.raises(HarnessError, match="resume the run"):
        pool.observe(checks[0])
