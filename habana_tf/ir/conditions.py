"""Conditions on symbolic sizes (XLA and PyTorch call them guards): comparisons that lowering decided.

`x[:, :3]` has min(length, 3) columns. Where the length is a symbol, a lowering asks `at_least(length, 3)`: the answer
for the sizes at hand becomes a condition of the recipe, `length - 3 >= 0`. Sizes that do not fulfil it get another
recipe, or another range of sizes.

    lengths 9 and 14       x[:, :3] has 3 columns      recipe for s0 - 3 >= 0
    then length 2          another program             recipe for s0 <= 2

What holds for every size (a length is at least 1) makes no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Expr, Extent


class NeedsNumber(Exception):
    """A size must be known as a number: this cluster cannot be compiled for a range of it, only for each size.

    The message names the size, for the user. Other errors while lowering over symbols are raised as they are.
    """

    status_code = 3
    """The status INVALID_ARGUMENT."""


class Premises:
    """Collects the conditions on the symbols of a range. dims: the symbols' present values, which decide."""

    def __init__(self, dims: Sequence[int] = ()) -> None:
        self.dims = list(dims)
        self._found: dict[Expr, None] = {}

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """Expressions that are at least 0 for all sizes of the range, in the order of the questions."""
        return tuple(self._found)

    def at_least(self, e: Extent, least: Extent = 0) -> bool:
        """Whether e >= least. Raises NeedsNumber where that depends on sizes and no values are given."""
        rest = ext.add(e, ext.mul(least, -1))
        if isinstance(rest, int):
            return rest >= 0
        low, high = ext.bounds(rest)
        if low >= 0:
            return True
        if high is not None and high < 0:
            return False
        if not self.dims:
            raise NeedsNumber(f"whether {e} is at least {least} decides what is computed")
        holds = ext.evaluate(rest, self.dims) >= 0
        condition = rest if holds else ext.add(ext.mul(rest, -1), -1)
        assert isinstance(condition, Expr)
        self._found[condition] = None
        return holds

    def equal(self, a: Extent, b: Extent) -> bool:
        """Whether a == b, decided as `at_least` is."""
        return a == b or (self.at_least(a, b) and self.at_least(b, a))

    def largest(self, *sizes: Extent) -> Extent:
        """The largest of sizes; a number, where it is as large as another."""
        return self._extreme(sizes, self.at_least)

    def smallest(self, *sizes: Extent) -> Extent:
        """The smallest of sizes; a number, where it is as small as another."""
        return self._extreme(sizes, lambda a, b: self.at_least(b, a))

    def _extreme(self, sizes: Sequence[Extent], wins: Callable[[Extent, Extent], bool]) -> Extent:
        first, *rest = sorted(sizes, key=lambda e: not isinstance(e, int))
        for e in rest:
            if not self._for_all(wins, first, e) and (self._for_all(wins, e, first) or not wins(first, e)):
                first = e
        return first

    def _for_all(self, wins: Callable[[Extent, Extent], bool], a: Extent, b: Extent) -> bool:
        """Whether the comparison holds for all sizes, so that it needs no condition."""
        dims, self.dims = self.dims, []
        try:
            return wins(a, b)
        except NeedsNumber:
            return False
        finally:
            self.dims = dims


def hold(conditions: Sequence[Expr], dims: Sequence[int]) -> bool:
    """Whether sizes fulfil the conditions of a range."""
    return all(ext.evaluate(e, list(dims)) >= 0 for e in conditions)
