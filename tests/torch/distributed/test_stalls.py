"""Ranks that wait for each other: who is missing, and whose collectives do not go together."""

from __future__ import annotations

import re
import sys

import pytest

from tests.distribute.job import free_ports, job
from tests.torch.child import needs_torch
from tests.torch.ranks import PROLOGUE, run, variables

pytestmark = needs_torch

LATE = """
import time
start()
x = on_card(1.0)
dist.all_reduce(x)
if rank == 1:
    time.sleep(4)  # at this line
dist.barrier()
if rank == 0:
    time.sleep(4)  # there is no group yet
dist.new_group([0, 1])
dist.all_reduce(x, dist.ReduceOp.MAX)
report(rank, x.item())
"""

WRONG = """
start(600)
x = torch.ones(64).to(hpu)
dist.all_reduce(x)
try:
    if rank == 1:
        dist.broadcast(x, 0)  # the wrong line
    else:
        dist.{call}  # of the others
    report(rank, "none")
except dist.DistBackendError as why:
    report(rank, str(why))
    raise
"""


def line(script: str, words: str) -> int:
    """The last with these words of a job's script, from 1."""
    from tests.distribute import job as jobs

    text = (jobs._PROLOGUE + script).splitlines()
    return max(k for k, each in enumerate(text, 1) if words in each)


def started(script: str) -> tuple[list[str], list[str]]:
    """What two ranks report, and what they print. They end by themselves."""
    (port,) = free_ports(1)
    with job(script) as running:
        for rank in range(2):
            running.start([sys.executable, "script.py"], HABANA_SIM_STALL_SECONDS="2", **variables(rank, 2, port))
        for process in running.processes:
            process.wait(120)
        return running.reports(), [running.output(rank) for rank in range(2)]


def test_who_is_late_is_named_with_the_line_that_it_is_at() -> None:
    script = PROLOGUE + LATE
    reports, said = started(script)
    assert reports == [2.0, 2.0]
    waiting = (
        rf"rank 0 has waited \d s in collective 2, barrier of .* at .*script.py:{line(script, 'dist.barrier()')}: "
    )
    there = (
        rf"rank 1 is missing: its last was collective 1, .*; it is at .*script.py:{line(script, '# at this line')}\b"
    )
    assert re.search(waiting + there, said[0]), said[0]
    making = rf"rank 1 has waited \d s in new_group of .* at .*script.py:{line(script, 'new_group')}: "
    apart = rf"rank 0 has not made this group; it is at .*script.py:{line(script, '# there is no group')}\b"
    assert re.search(making + apart, said[1]), said[1]
    assert all(text.count("has waited") == 1 for text in said)


def test_a_collective_may_be_done_just_when_a_turn_of_waiting_ends() -> None:
    from habana_tf.torch.distributed.work import Work

    class Under:
        done, error = False, None

        def wait(self, timeout: object = None) -> bool:
            if not self.done:
                self.done = True
                raise RuntimeError("Operation timed out!")
            if self.error is not None:
                raise self.error
            return True

        def is_completed(self) -> bool:
            return self.done

        def get_future(self) -> object:
            raise RuntimeError("none")

    class Watched:
        in_turns = True

        def begins(self) -> None:
            pass

        def diagnosed(self) -> str:
            return ""

    good, bad = Under(), Under()
    bad.error = RuntimeError("connection closed")
    assert Work(good, [], [], "barrier failed", Watched()).wait()
    with pytest.raises(RuntimeError, match="barrier failed: connection closed"):
        Work(bad, [], [], "barrier failed", Watched()).wait()


@pytest.mark.parametrize(
    ("call", "kind", "size"),
    [
        ("all_reduce(x)", "all_reduce", 256),
        ("broadcast(torch.ones(128).to(hpu), 0)", "broadcast", 512),
    ],
)
def test_one_wrong_line_is_an_error_in_both_ranks(call: str, kind: str, size: int) -> None:
    script = PROLOGUE + WRONG.format(call=call)
    reports, said = started(script)
    for text in (*reports, *said):
        assert f"collective 2 of group 0 (0, 1) differs: rank 0 calls {kind} of {size} bytes at" in text
        assert f"script.py:{line(script, '# of the others')}, rank 1 calls broadcast of 256 bytes at" in text
        assert f"script.py:{line(script, '# the wrong line')}. On cards both would wait for ever" in text


def test_sums_of_other_sizes_name_their_lines() -> None:
    reports = run(
        """
        start()
        try:
            dist.all_reduce(torch.ones(4 + rank).to(hpu))
            report(rank, "none")
        except dist.DistBackendError as why:
            report(rank, str(why))
        """
    )
    for text in reports:
        assert re.search(r"rank 0 calls all_reduce of 16 bytes at .*, rank 1 calls all_reduce of 20 bytes at ", text), (
            text
        )
