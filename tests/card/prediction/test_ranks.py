"""Ranks that work together: times by hand, and jobs that would never end."""

from __future__ import annotations

import pytest

from habana_tf.card.prediction.ranks import Collective, Disagreement, Event, Launch, Span, simulated

PAIR = (0, 1)


def launch(seconds: float, *reads: int, makes: int = -1) -> Launch:
    return Launch("program", seconds, frozenset(reads), frozenset([makes]))


def call(
    kind: str, *writes: int, sends: int = -1, ranks: tuple[int, ...] = PAIR, group: str = "", line: str = "",
    nbytes: int = 4,
) -> Collective:  # fmt: skip
    """By default of what the last launch made."""
    return Collective(kind, nbytes, ranks, group, frozenset([sends]), frozenset(writes), line)


def run(ranks: dict[int, list[Event]], seconds: float = 1.0) -> dict[int, list[Span]]:
    spans = simulated(ranks, lambda _: seconds)
    return {rank: [s for s in spans if s.rank == rank] for rank in ranks}


def test_communication_runs_beside_what_does_not_read_it() -> None:
    found = run({0: [launch(2), call("all_reduce", 7), launch(3), launch(1, 7)]}, seconds=4)[0]
    assert [(s.begin, s.end) for s in found] == [(0, 2), (2, 5), (2, 6), (6, 7)]
    assert found[-1].waited == 1


def test_collectives_of_a_rank_follow_each_other() -> None:
    found = run({0: [call("all_gather", 1), call("all_gather", 2), launch(1, 1), launch(1, 2)]}, seconds=3)[0]
    assert [(s.begin, s.end) for s in found] == [(0, 3), (3, 4), (3, 6), (6, 7)]


def test_who_comes_first_waits_for_who_comes_last() -> None:
    found = run(
        {0: [launch(1), call("all_reduce", 1), launch(1, 1)], 1: [launch(5), call("all_reduce", 1), launch(1, 1)]}
    )
    first, second = found[0][1], found[1][1]
    assert first.begin == second.begin == 5 and first.waited == 4 and first.blamed == 1
    assert second.waited == 0 and second.blamed is None
    assert found[0][-1].end == found[1][-1].end == 7


def test_a_pipeline_has_bubbles() -> None:
    """Two stages, three micro-batches, forward only: the second begins a message later than the first."""
    first: list[Event] = []
    second: list[Event] = []
    for k in range(3):
        first += [launch(2), call("send")]
        second += [call("recv", k, sends=-2), launch(2, k)]
    found = run({0: first, 1: second})
    assert [s.begin for s in found[1] if isinstance(s.event, Launch)] == [3, 5, 7]
    assert max(s.end for s in found[1]) == 9


def test_messages_may_be_posted_in_any_order() -> None:
    there, back = call("send", ranks=(0, 1)), call("send", ranks=(1, 0))
    got, other = call("recv", 1, sends=-2, ranks=(1, 0)), call("recv", 1, sends=-2, ranks=(0, 1))
    found = run({0: [there, got, launch(1, 1)], 1: [back, other, launch(1, 1)]})
    assert found[0][-1].end == found[1][-1].end == 2


def test_ranks_that_are_not_simulated_keep_step() -> None:
    found = run({3: [call("all_reduce", 1, ranks=tuple(range(8))), call("recv", 2, ranks=(2, 3)), launch(1, 1, 2)]})
    assert found[3][-1].begin == 2


@pytest.mark.parametrize(
    "other, words",
    [
        ([call("broadcast", line="b.py:2")], "all_reduce of 4 bytes at a.py:1, rank 1 calls broadcast of 4 bytes at b"),
        ([call("all_reduce", nbytes=8, line="b.py:2")], "of 8 bytes at b.py:2"),
        ([], "rank 1 makes no more"),
        ([call("all_reduce"), call("all_reduce", line="b.py:9")], "makes no more, rank 1 calls all_reduce of 4 bytes"),
    ],
)  # fmt: skip
def test_collectives_that_differ_name_both_lines(other: list[Event], words: str) -> None:
    with pytest.raises(Disagreement, match=words):
        run({0: [call("all_reduce", line="a.py:1")], 1: other})


def test_two_groups_in_opposite_order_wait_for_ever() -> None:
    a, b = (call("all_reduce", group=name, line=f"{name}.py:1") for name in "ab")
    with pytest.raises(Disagreement, match=r"for ever: rank 0 in all_reduce .* a.py:1; rank 1 in all_reduce .* b.py:1"):
        run({0: [a, b], 1: [b, a]})


def test_a_message_that_nobody_sends() -> None:
    with pytest.raises(Disagreement, match=r"rank 1 in recv of 4 bytes .* c\.py:3"):
        run({0: [launch(1)], 1: [call("recv", 1, line="c.py:3"), launch(1, 1)]})
    with pytest.raises(Disagreement, match="rank 0 in send"):
        run({0: [call("send")], 1: [launch(1)]})
