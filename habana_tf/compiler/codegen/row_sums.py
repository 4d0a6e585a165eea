"""Row reductions: vectorized along the reduced axis, with a horizontal reduction of the lanes at the end.

out[i] = sum over j of x[i, j]       lanes along j, four accumulators, then a horizontal sum
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from habana_tf.compiler.codegen.axes import LoopAxis
from habana_tf.compiler.codegen.blocked_sums import add_up, summing_loop
from habana_tf.compiler.codegen.domain_walk import DomainWalk
from habana_tf.compiler.codegen.emit import Value
from habana_tf.compiler.codegen.evaluator import Evaluator
from habana_tf.compiler.codegen.reduction import Accumulator
from habana_tf.compiler.codegen.vector_access import Mask, Val
from habana_tf.compiler.costs import LONG_OPERATIONS, SUMMED_VECTORS
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent, nominal


class RowSums:
    """Emits a row reduction; without a vectorized axis, element by element."""

    def __init__(self, walk: DomainWalk) -> None:
        self.walk, self.vector = walk, walk.vector
        self.fn, self.ev, self.body = walk.fn, walk.ev, walk.body
        self.lanes, self.compact = walk.lanes, walk.compact

    def emit(self, outer: list[LoopAxis], inner: list[LoopAxis]) -> tuple[Extent, int]:
        """Emits the function; gives its grid and grain."""
        n: Extent = self.vector.extent if self.vector else 1
        work = ext.mul(ext.product(a.extent for a in inner), n)
        grid, loops, items, grain = self.walk.grid(outer, work, 1)
        with self.fn.loop("%begin", "%end") as each, self.ev.scope():
            self.walk.decode(each.index, grid)
            with ExitStack() as stack:
                self.walk.nest(stack, loops)
                sums = [Accumulator(self.ev.many, r) for r in self.body.reductions]
                self._rows(inner, n, sums)
                for acc, r in zip(sums, self.body.reductions, strict=True):
                    one = Evaluator(self.fn, self.walk.loads, 1, None)
                    one.vars, one.pointers, one.written = self.ev.vars, self.ev.pointers, self.ev.written
                    self.walk.store_result(one, r.node, Val(acc.across(), True))
        return items, grain

    def _rows(self, inner: Sequence[LoopAxis], n: Extent, sums: list[Accumulator]) -> None:
        if inner:
            size = inner[0].extent
            adds = nominal(ext.mul(ext.product(a.extent for a in inner[1:]), self._turns(n)))
            stop = self.ev.number(size)
            with summing_loop(self.fn, "0", stop, 1, sums, size, adds) as index, self.ev.scope():
                self.ev.vars[inner[0].var] = index
                self._rows(inner[1:], n, sums)
        elif self.vector is None:
            with self.ev.scope():
                self.walk.add(sums, None)
                self.walk.store_all()
        else:
            self._one_row(n, sums)

    def _one_row(self, n: Extent, sums: list[Accumulator]) -> None:
        """The vectorized axis from 0 to n: by four vectors if the body is small, then single ones, then a masked
        rest."""
        assert self.vector is not None
        done: Value = "0"
        stop = self.ev.number(n)
        if self.compact and not isinstance(n, int):
            self._some_of_row(stop, sums)
            return
        step = self._step(n)
        turns = self._turns(n)
        if step > self.lanes:
            side = [[a.fresh() for a in sums] for _ in range(SUMMED_VECTORS - 1)]
            every = [*sums, *(a for s in side for a in s)]
            done = self.fn.sub(stop, self.fn.rem(stop, step))
            with summing_loop(self.fn, "0", done, step, every, turns) as index:
                for k, accumulators in enumerate([sums, *side]):
                    with self.ev.scope():
                        self.ev.vars[self.vector.var] = self.fn.add(index, k * self.lanes)
                        self.walk.add(accumulators, None)
                        self.walk.store_all()
            turns = SUMMED_VECTORS
            for a, b, c, d in zip(sums, *side, strict=True):
                b.combine(c)
                a.combine(d)
                a.combine(b)
        whole = self.fn.sub(stop, self.fn.rem(stop, self.lanes))
        if whole != done:
            with summing_loop(self.fn, done, whole, self.lanes, sums, turns) as index, self.ev.scope():
                self.ev.vars[self.vector.var] = index
                self.walk.add(sums, None)
                self.walk.store_all()
        if isinstance(n, int) and n % self.lanes == 0:
            return
        mask = self.walk.tail_mask(whole, stop, n % self.lanes if isinstance(n, int) else None)
        with self.ev.scope(), self.ev.guarded(Mask(None, mask)):
            self.ev.vars[self.vector.var] = whole
            self.walk.add(sums, mask)
            self.walk.store_all()

    def _some_of_row(self, stop: Value, sums: list[Accumulator]) -> None:
        """The same with all vectors masked."""
        assert self.vector is not None
        variable, turns = self.vector.var, self._turns(self.vector.extent)

        def add(index: Value) -> None:
            mask = self.fn.leading(self.lanes, self.fn.sub(stop, index))
            with self.ev.scope(), self.ev.guarded(Mask(None, mask)):
                self.ev.vars[variable] = index
                self.walk.add(sums, mask)
                self.walk.store_all()

        if self.body.work < LONG_OPERATIONS:
            add_up(self.fn, "0", stop, self.lanes, sums, turns, add)
        else:
            with summing_loop(self.fn, "0", stop, self.lanes, sums, turns) as index:
                add(index)

    def _step(self, n: Extent) -> int:
        """Elements of a row per iteration of its loop."""
        long = not isinstance(n, int) or n >= SUMMED_VECTORS * self.lanes
        plain = self.compact and not isinstance(n, int)
        return self.lanes * (SUMMED_VECTORS if long and not plain and self.body.work < LONG_OPERATIONS else 1)

    def _turns(self, n: Extent) -> Extent:
        """The most iterations of a row's loop: terms that it adds to a register."""
        return ext.div(ext.add(n, self.lanes - 1), self._step(n))
