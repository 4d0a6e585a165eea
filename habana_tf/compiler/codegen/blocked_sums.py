"""Loops that add up many numbers in blocks, so that rounding errors grow with the logarithm of their count.

A float32 sum that is far larger than its terms rounds each of them off, in the same direction if they are alike: of n
equal terms added one after the other n / 6 units of the last place are lost. So a loop of more than BLOCK additions to
one register becomes loops in loops, each of which begins with empty sums and adds them to those around it:

    for i < n: sum += x[i]      becomes     for b < n, step BLOCK:   part = 0
                                               for i from b, BLOCK turns:   part += x[i]
                                               sum += part

What is in a block depends on sizes only, never on the number of threads. Sums of integers, products and extremes keep
one loop: they lose nothing, or as much in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from habana_tf.compiler.codegen.domain_walk import restore
from habana_tf.compiler.codegen.emit import Function, Value
from habana_tf.compiler.codegen.reduction import Accumulator
from habana_tf.compiler.costs import SUM_BLOCK, SUM_LEVELS
from habana_tf.ir.extent import Extent, nominal


def cut(turns: Extent, adds: int = 1) -> list[int]:
    """Turns of the blocks that a loop has, outermost first; each turn adds so many terms to a register. Of a size known
    at run time only there are LEVELS at least."""
    sizes: list[int] = []
    size = max(1, SUM_BLOCK // max(adds, 1))
    while nominal(turns) > size or (not isinstance(turns, int) and len(sizes) < SUM_LEVELS):
        sizes.insert(0, size)
        size *= SUM_BLOCK
    return sizes


@contextmanager
def summing_loop(
    fn: Function, start: Value, stop: Value, step: int, sums: Sequence[Accumulator], turns: Extent, adds: int = 1
) -> Iterator[Value]:
    """for index = start; index < stop; index += step. The body, which is emitted once, adds to `sums`.

    turns: of the loop, about; adds: terms that a turn adds to each of the sums.
    """
    sizes = cut(turns, adds) if any(a.rounds for a in sums) else []
    with _blocks(fn, start, stop, step, sums, sizes) as index:
        yield index


def add_up(
    fn: Function, start: Value, stop: Value, step: int, sums: Sequence[Accumulator], turns: Extent,
    body: Callable[[Value], None],
) -> None:  # fmt: skip
    """As `summing_loop`, with a loop of its own for what one block holds, if only the running kernel knows that: beside
    a few turns the blocks around them show. The body, given the index, is then emitted twice."""
    if not isinstance(turns, int) and any(a.rounds for a in sums):
        after = few(fn, start, stop, step * SUM_BLOCK)
        with _blocks(fn, start, after, step, sums, ()) as index:
            body(index)
        start = after
    with summing_loop(fn, start, stop, step, sums, turns) as index:
        body(index)


def few(fn: Function, start: Value, stop: Value, width: int) -> Value:
    """`stop` where that is no further than `width` from `start`, else `start`."""
    short = fn.op(f"icmp sle i64 {fn.integer('sub', stop, start)}, {width}")
    return fn.op(f"select i1 {short}, i64 {stop}, i64 {start}")


@contextmanager
def _blocks(
    fn: Function, start: Value, stop: Value, step: int, sums: Sequence[Accumulator], sizes: Sequence[int]
) -> Iterator[Value]:
    carry = [c for a in sums for c in a.carry()]
    width = step * sizes[0] if sizes else step
    with fn.loop(start, stop, width, carry) as loop:
        if not sizes:
            restore(sums, loop.carried)
            yield loop.index
            totals = sums
        else:
            totals = [a.fresh() for a in sums]
            restore(totals, loop.carried)
            restore(sums, [v for a in sums for v in a.fresh().values])
            if sizes[0] == 1:
                yield loop.index
            else:
                end = block_end(fn, loop.index, width, start, stop)
                with _blocks(fn, loop.index, end, step, sums, sizes[1:]) as index:
                    yield index
            for total, part in zip(totals, sums, strict=True):
                total.combine(part)
        loop.next = [v for a in totals for v in a.values]
    restore(sums, loop.results)


def block_end(fn: Function, index: Value, width: int, start: Value, stop: Value) -> Value:
    """Where the block that begins at `index` ends; the last one may be shorter."""
    end = fn.integer("add", index, width)
    whole = start.isdigit() and stop.isdigit() and (int(stop) - int(start)) % width == 0
    return end if whole else fn.minimum(end, stop)
