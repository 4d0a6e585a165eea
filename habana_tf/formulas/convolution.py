"""Convolutions and their gradients: each is one CONTRACT with the right labels.

A convolution contracts `windows(x)` with the filter over kernel offsets and channels, its filter gradient contracts the
same windows with dy over positions, its input gradient contracts `spread(dy)` with the reversed filter (see `spatial`):

    y [N,O..,F] = windows(x)[N,O..,C,K..] * w[K..,C,F]      dw[K..,C,F] = windows(x)[N,O..,C,K..] * dy[N,O..,F]
    dx[N,S..,C] = spread(dy)[N,S..,F,K..] * reversed w[K..,C,F]

An input gradient with a stride is done phase by phase, so that nothing is multiplied by the zeros between dy's
elements; where windows do not overlap, it is one plain product.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from habana_tf.formulas import spatial
from habana_tf.formulas.products import product
from habana_tf.formulas.spatial import WindowAxis
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node


class _Labels:
    """Labels of a convolution: batch, group, channels in, channels out; positions and kernel offsets per axis."""

    N, G, C, F = range(4)

    def __init__(self, axes: Sequence[WindowAxis]) -> None:
        self.positions = tuple(range(4, 4 + len(axes)))
        self.kernel = tuple(4 + len(axes) + i for i in spatial.kept(axes))


class Convolution:
    """A convolution x[N,S..,C] * w[K..,C/groups,F] -> y[N,O..,F], to be asked for its value or a gradient."""

    def __init__(self, b: Builder, axes: Sequence[WindowAxis], inner: int, outer: int, groups: int) -> None:
        self.b, self.rank, self.axes = b, len(axes), axes
        self.inner, self.outer, self.groups = inner, outer, groups
        self.channels = inner * groups
        self.labels = _Labels(axes)
        self.empty = any(a.out == 0 or a.size == 0 or a.kernel == 0 for a in axes)
        self.grouped = groups > 1

    def grouping(self, x: Node, axis: int) -> Node:
        """The channel axis split into (group, channel of the group)."""
        if not self.grouped:
            return x
        n = x.shape[axis]
        assert isinstance(n, int)
        return self.b.reshape(x, [*x.shape[:axis], self.groups, n // self.groups, *x.shape[axis + 1 :]])

    def filter(self, w: Node) -> tuple[Node, tuple[int, ...]]:
        """w without kernel axes of size 1, and its labels."""
        w = self.b.reshape(w, [*(a.kernel for a in self.axes if a.kernel > 1), self.inner, self.outer])
        lab = self.labels
        last = (lab.G, lab.F) if self.grouped else (lab.F,)
        return self.grouping(w, w.rank - 1), (*lab.kernel, lab.C, *last)

    def channel(self, label: int) -> tuple[int, ...]:
        return (self.labels.G, label) if self.grouped else (label,)

    def seen(self, x: Node) -> tuple[Node, tuple[int, ...]]:
        lab = self.labels
        view = self.grouping(spatial.windows(self.b, x, self.axes), self.rank + 1)
        return view, (lab.N, *lab.positions, *self.channel(lab.C), *lab.kernel)

    def result(self, dy: Node) -> tuple[Node, tuple[int, ...]]:
        lab = self.labels
        return self.grouping(dy, self.rank + 1), (lab.N, *lab.positions, *self.channel(lab.F))

    def forward(self, x: Node, w: Node) -> Node:
        shape = [x.shape[0], *(a.out for a in self.axes), self.outer]
        if self.empty:
            return self.b.const(0, x.dtype, shape)
        (view, la), (w, lb) = self.seen(x), self.filter(w)
        out = (self.labels.N, *self.labels.positions, *self.channel(self.labels.F))
        return self.b.reshape(product(self.b, view, w, la, lb, out), shape)

    def filter_gradient(self, x: Node, dy: Node) -> Node:
        shape = [*(a.kernel for a in self.axes), self.inner, self.outer]
        if self.empty:
            return self.b.const(0, x.dtype, shape)
        (view, la), (dy, lb) = self.seen(x), self.result(dy)
        out = (*self.labels.kernel, self.labels.C, *self.channel(self.labels.F))
        return self.b.reshape(product(self.b, view, dy, la, lb, out), shape)

    def input_gradient(self, w: Node, dy: Node) -> Node:
        shape = [dy.shape[0], *(a.size for a in self.axes), self.channels]
        if self.empty:
            return self.b.const(0, dy.dtype, shape)
        if any(a.stride > 1 for a in self.axes):
            if spatial.disjoint(self.axes):
                return self._disjoint_gradient(w, dy)
            if all(a.dilation == 1 for a in self.axes):
                return self._phase_gradient(w, dy)
        lab = self.labels
        view = self.grouping(spatial.spread(self.b, dy, self.axes), self.rank + 1)
        w, lb = self.filter(w)
        w = self.b.reverse(w, range(len(lab.kernel)))
        la = (lab.N, *lab.positions, *self.channel(lab.F), *lab.kernel)
        out = (lab.N, *lab.positions, *self.channel(lab.C))
        return self.b.reshape(product(self.b, view, w, la, lb, out), shape)

    def _disjoint_gradient(self, w: Node, dy: Node) -> Node:
        """Every input element belongs to one window at most: one product over F alone, then into place."""
        lab = self.labels
        (dy, la), (w, lb) = self.result(dy), self.filter(w)
        pairs = zip(lab.positions, range(4 + self.rank, 4 + 2 * self.rank), strict=True)
        out = (lab.N, *(i for i in chain(*pairs) if i in (*lab.positions, *lab.kernel)), *self.channel(lab.C))
        if all(isinstance(a.out, int) for a in self.axes[1:]):
            dx = product(self.b, dy, w, la, lb, out)
        else:  # positions next to each other are walked as one axis
            made = (lab.N, *lab.positions, *lab.kernel, *self.channel(lab.C))
            dx = self.b.permute(product(self.b, dy, w, la, lb, made), [made.index(i) for i in out])
        blocks = [n for a in self.axes for n in (a.out, a.kernel)]
        return spatial.unfold(self.b, self.b.reshape(dx, [dy.shape[0], *blocks, self.channels]), self.axes)

    def _phase_gradient(self, w: Node, dy: Node) -> Node:
        """A stride without products by zero: input positions of one remainder by the stride see the same part of
        the filter, and each such phase is the input gradient of a convolution with stride 1.

            position i + low = q * stride + r       dx[q, r] = sum over j of dy[q - j] * w[r + j * stride]
        """
        b, batch = self.b, dy.shape[0]
        counts = [_steps(a) for a in self.axes]

        def phases(found: tuple[int, ...]) -> Node:
            """[N, Q1, S1, .., C] with the phases of the axes before `axis` given, those after joined."""
            axis = len(found)
            if axis < self.rank:
                return b.concat([phases((*found, r)) for r in range(self.axes[axis].stride)], 2 + 2 * axis)
            begin = [*found, 0, 0]
            sizes = [max(-(-(a.kernel - r) // a.stride), 0) for a, r in zip(self.axes, found, strict=True)]
            part = b.slice(w, begin, [*sizes, *w.shape[-2:]], [*(a.stride for a in self.axes), 1, 1])
            axes = [WindowAxis(q, k, 1, 1, 0, 0, a.out) for q, k, a in zip(counts, sizes, self.axes, strict=True)]
            dx = Convolution(self.b, axes, self.inner, self.outer, self.groups).input_gradient(part, dy)
            return b.reshape(dx, [batch, *(n for q in counts for n in (q, 1)), self.channels])

        whole = [ext.mul(q, a.stride) for q, a in zip(counts, self.axes, strict=True)]
        dx = b.reshape(phases(()), [batch, *whole, self.channels])
        return b.slice(dx, [0, *(a.low for a in self.axes), 0], [batch, *(a.size for a in self.axes), self.channels])


def _steps(a: WindowAxis) -> Extent:
    """Strides that take in all elements of an axis; of a size that is a symbol as many as it may be at most."""
    if isinstance(a.size, int) and isinstance(a.low, int):
        return -(-(a.size + a.low) // a.stride)
    return ext.add(a.out, -(-(a.reach + a.stride) // a.stride) - 1)
