"""Blocked summation: loops that add up many numbers in blocks, so that rounding errors grow logarithmically.

Adding small terms to a large float32 sum rounds each of them, in the same direction if they are alike: a sequential sum
of n equal terms is wrong by n / 6 units in the last place. So a loop of more than BLOCK additions to a register becomes
nested loops with their own partial sums:

    for i < n: sum += x[i]      becomes     for b < n, step BLOCK:   part = 0
                                               for i from b, BLOCK turns:   part += x[i]
                                               sum += part

Blocks depend on sizes only, never on the number of threads. Sums of integers, products and extremes keep one loop:
their errors do not depend on the order.
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
    """The sizes (in iterations) of a loop's nested blocks, outermost first. adds: terms that an iteration adds to a
    register. Loops of symbolic length have at least LEVELS."""
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
    """for index = start; index < stop; index += step, in blocks. The body, emitted once, adds to `sums`.

    turns: number of iterations; adds: terms that an iteration adds to each sum.
    """
    sizes = cut(turns, adds) if any(a.rounds for a in sums) else []
    with _blocks(fn, start, stop, step, sums, sizes) as index:
        yield index


def add_up(
    fn: Function, start: Value, stop: Value, step: int, sums: Sequence[Accumulator], turns: Extent,
    body: Callable[[Value], None],
) -> None:  # fmt: skip
    """As `summing_loop`, but a loop of symbolic length has a separate version without blocks for short lengths, where
    the blocks' overhead matters. The body, given the index, is then emitted twice."""
    if not isinstance(turns, int) and any(a.rounds for a in sums):
        after = few(fn, start, stop, step * SUM_BLOCK)
        with _blocks(fn, start, after, step, sums, ()) as index:
            body(index)
        start = after
    with summing_loop(fn, start, stop, step, sums, turns) as index:
        body(index)


def few(fn: Function, start: Value, stop: Value, width: int) -> Value:
    """`stop` if stop - start <= width, else `start`."""
    short = fn.op(f"icmp sle i64 {fn.sub(stop, start)}, {width}")
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
    """The end of the block that starts at `index`; the last block may be shorter."""
    end = fn.add(index, width)
    whole = start.isdigit() and stop.isdigit() and (int(stop) - int(start)) % width == 0
    return end if whole else fn.minimum(end, stop)
