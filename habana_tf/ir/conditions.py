"""What is taken for granted about the sizes of a range: the comparisons that lowering had to decide.

`x[:, :3]` takes three elements where there are as many, and else all there are: two programs. Over a symbolic length a
lowering asks `at_least(length, 3)`. The answer is what holds for the sizes at hand, and it becomes a condition of the
recipe, `length - 3 >= 0`: sizes for which it does not hold are no members of the range and get a recipe, or a range,
of their own.

    met lengths 9 and 14       x[:, :3] has 3 elements      for s0 - 3 >= 0
    then length 2              another program              for s0 <= 2

What follows from an expression alone (a length is at least 1) is no condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Expr, Extent


class NeedsNumber(Exception):
    """A size that is needed as a number: what is compiled here cannot be compiled for a range of it.

    The message says which, in words for the user whose graph it is. Lowering over numbers comes next. Nothing else
    that goes wrong over symbols is taken for this.
    """

    tf_code = 3
    """TensorFlow's INVALID_ARGUMENT."""


class Premises:
    """Conditions on the symbols of a range. dims: the symbols' values at hand, by which questions are decided."""

    def __init__(self, dims: Sequence[int] = ()) -> None:
        self.dims = list(dims)
        self._found: dict[Expr, None] = {}

    @property
    def conditions(self) -> tuple[Expr, ...]:
        """Expressions that are at least 0 for every size of the range, in the order they were asked for."""
        return tuple(self._found)

    def at_least(self, e: Extent, least: Extent = 0) -> bool:
        """Whether e >= least. Raises NeedsNumber where that depends on the sizes and none are at hand."""
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
        """Whether that is so for all sizes: then it is no condition, even where both are equal at hand."""
        dims, self.dims = self.dims, []
        try:
            return wins(a, b)
        except NeedsNumber:
            return False
        finally:
            self.dims = dims


def hold(conditions: Sequence[Expr], dims: Sequence[int]) -> bool:
    """Whether sizes are members of a range with these conditions."""
    return all(ext.evaluate(e, list(dims)) >= 0 for e in conditions)
