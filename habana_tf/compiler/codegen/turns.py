"""Counted loops with the test at the end (do-while), and blocked summation in such loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.product_costs import SUM_STEPS


@dataclass
class Turns:
    """A counted loop being emitted: the carried values at the start of an iteration, and (set by the body) at its
    end."""

    carried: list[Value]
    next: list[Value] = field(default_factory=list)


@contextmanager
def repeat(fn: Function, trip: int | Value, carry: Sequence[tuple[str, Value]]) -> Iterator[Turns]:
    """A loop of `trip` iterations, at least one; afterwards `next` holds the final values."""
    body, done = fn.new_block("turn"), fn.new_block("done")
    before = fn.block
    fn.branch(body)
    fn.start(body)
    count = fn.op("phi")
    first = len(fn.lines) - 1
    turns = Turns([fn.op("phi") for _ in carry])
    phis = list(turns.carried)
    yield turns
    left = fn.op(f"add nsw i64 {count}, -1")
    more = fn.op(f"icmp sgt i64 {left}, 0")
    end = fn.block
    fn.lines[first] = f"  {count} = phi i64 [ {trip}, %{before} ], [ {left}, %{end} ]"
    for i, ((type_, start), phi, following) in enumerate(zip(carry, phis, turns.next, strict=True)):
        fn.lines[first + 1 + i] = f"  {phi} = phi {type_} [ {start}, %{before} ], [ {following}, %{end} ]"
    fn.do(f"br i1 {more}, label %{body}, label %{done}")
    fn.start(done)


def block_turns(most: int, steps: int) -> int:
    """The iterations of a loop in a block of SUM_STEPS. steps: per iteration; most: iterations of the loop. 0 for no
    blocks: the loop is short, or its inner loops have them."""
    return SUM_STEPS // steps if steps <= SUM_STEPS and most * steps > SUM_STEPS else 0


def in_blocks(
    fn: Function, trip: int | Value, size: int, carry: Sequence[tuple[str, Value]],
    block: Callable[[int | Value, list[Value]], list[Value]],
) -> list[Value]:  # fmt: skip
    """A loop of `trip` iterations, at least one, in blocks of `size`. block: emits a block, given its iterations and
    the carried values."""
    blocks = fn.div(fn.add(trip, size - 1), size)
    with repeat(fn, blocks, [("i64", str(trip)), *carry]) as turns:
        left, *carried = turns.carried
        count = size if isinstance(trip, int) and trip % size == 0 else fn.minimum(left, str(size))
        made = block(count, carried)
        turns.next = [fn.sub(left, size), *made]
    return turns.next[1:]


def summing_turns(
    fn: Function, trip: int | Value, size: int, state: Sequence[tuple[str, Value]], sums: Sequence[tuple[str, Value]],
    turn: Callable[[list[Value], list[Value]], list[Value]],
) -> list[Value]:  # fmt: skip
    """The state and sums after `trip` iterations of `turn`, at least one; in blocks of `size` iterations with partial
    sums, unless size is 0."""

    def run(count: int | Value, carry: Sequence[tuple[str, Value]]) -> list[Value]:
        with repeat(fn, count, carry) as turns:
            turns.next = turn(turns.carried[: len(state)], turns.carried[len(state) :])
        return turns.next

    if not size:
        return run(trip, [*state, *sums])

    def block(count: int | Value, carried: list[Value]) -> list[Value]:
        now = [(type_, x) for (type_, _), x in zip(state, carried, strict=False)]
        made = run(count, [*now, *((type_, "zeroinitializer") for type_, _ in sums)])
        totals = zip(sums, carried[len(state) :], made[len(state) :], strict=True)
        added = [fn.op(f"fadd {type_} {total}, {part}") for (type_, _), total, part in totals]
        return [*made[: len(state)], *added]

    return in_blocks(fn, trip, size, [*state, *sums], block)
