"""Index arithmetic of reshapes: the source index of an element. `primitive_classes.py` has the other views."""

from __future__ import annotations

from dataclasses import dataclass

from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node

Index = tuple[Extent, ...]


class Unfit(Exception):
    """A node that the code generator does not support; the cluster is interpreted. The message says which and why."""


@dataclass(frozen=True)
class Range:
    """The condition 0 <= value < stop and value % step == 0 (for a pad's interior)."""

    value: Extent
    stop: Extent
    step: int = 1

    @property
    def always_holds(self) -> bool:
        """Whether it holds for all values of the loop variables."""
        low, high = ext.bounds(self.value)
        return self.step == 1 and low >= 0 and isinstance(self.stop, int) and high is not None and high < self.stop


def reshape_index(index: Index, shape: tuple[Extent, ...], source: tuple[Extent, ...]) -> Index:
    """The index in `source` of element `index` of its reshape to `shape`.

    Works on the smallest groups of axes with equal element counts, so that unchanged axes keep simple indices.
    """
    if 0 in shape:
        return (0,) * len(source)
    out: list[Extent] = []
    i = j = 0
    while i < len(shape) or j < len(source):
        new, old = [i], [j]
        left: Extent = shape[i] if i < len(shape) else 1
        right: Extent = source[j] if j < len(source) else 1
        i, j = i + 1, j + 1
        while left != right:
            if isinstance(left, int) and isinstance(right, int):
                grow_left = left < right
            elif ext.divide(left, right) is not None:
                grow_left = False
            elif ext.divide(right, left) is not None:
                grow_left = True
            else:
                grow_left = i < len(shape) and (j >= len(source) or len(new) <= len(old))
            if grow_left and i < len(shape):
                left, i = ext.mul(left, shape[i]), i + 1
                new.append(i - 1)
            elif j < len(source):
                right, j = ext.mul(right, source[j]), j + 1
                old.append(j - 1)
            else:
                raise Unfit(f"reshape of {source} to {shape} over run-time extents")
        new = [k for k in new if k < len(shape) and shape[k] != 1]
        old = [k for k in old if k < len(source)]
        offset = ext.ravel([index[k] for k in new], [shape[k] for k in new])
        wide = [k for k in old if source[k] != 1]
        if len(wide) <= 1:
            parts: tuple[Extent, ...] = (offset,)
        else:
            sizes = [source[k] for k in wide]
            if len(new) == len(wide) and [shape[k] for k in new] == sizes:
                parts = tuple(index[k] for k in new)
            elif all(isinstance(n, int) for n in sizes[1:]):
                parts = ext.unravel(offset, sizes)
            else:
                raise Unfit(f"reshape of {source} to {shape} over run-time extents")
        found = dict(zip(wide, parts, strict=False))
        out.extend(found.get(k, 0) for k in old)
    return tuple(out)


def in_memory_order(reshape: Node) -> bool:
    """Whether a reshape's index arithmetic is unknown, so that its source must be in memory and is addressed by
    offset."""
    source = reshape.src[0].shape
    if all(isinstance(n, int) for n in (*reshape.shape, *source)):
        return False
    try:
        reshape_index(tuple(ext.var(f"x{k}", n) for k, n in enumerate(reshape.shape)), reshape.shape, source)
    except Unfit:
        return True
    return False


def strides(shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Row-major strides in elements."""
    out: list[Extent] = []
    step: Extent = 1
    for n in reversed(shape):
        out.append(step)
        step = ext.mul(step, n)
    return tuple(reversed(out))
