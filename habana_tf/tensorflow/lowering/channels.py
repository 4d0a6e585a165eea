"""Channels-first data: lowered as channels-last behind permutations, which are views and cost nothing by themselves.

    @op("Conv2D", T=FLOATS)
    @channels_last("input")
    def convolution(c): ...

A lowering under `channels_last` only ever sees NHWC or NDHWC: its images come permuted, its attributes per axis and
the value of its `sizes` reordered, and its image results go back as they were asked for.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import Lower

_PER_AXIS = ("strides", "dilations", "ksize")


def channels_last(*images: str, results: Sequence[int] = (0,), sizes: str | None = None) -> Callable[[Lower], Lower]:
    """images: arguments of the op that are images. results: outputs that are. sizes: an argument with an image's shape
    as its value."""

    def decorate(lower: Lower) -> Lower:
        @functools.wraps(lower)
        def wrapped(c: Lowering) -> Node | Sequence[Node]:
            layout = c.attr("data_format", "NHWC")
            if not layout.startswith("NC"):
                return lower(c)
            rank = len(layout)
            last = [0, *range(2, rank), 1]
            first = [0, rank - 1, *range(1, rank - 1)]
            out = lower(_turned(c, layout, last, images, sizes))
            made = [out] if isinstance(out, Node) else list(out)
            for k in results:
                made[k] = c.b.permute(made[k], first)
            return made

        return wrapped

    return decorate


def _turned(c: Lowering, layout: str, last: list[int], images: Sequence[str], sizes: str | None) -> Lowering:
    """The same op over channels-last images."""
    import numpy as np

    inputs = list(c.inputs)
    for name in images:
        at = c.arg_slices[name].start
        c.require(inputs[at].rank == len(last), f"{name} must have rank {len(last)} for data_format {layout}")
        inputs[at] = c.b.permute(inputs[at], last)
    if sizes is not None and len(c.value(sizes)) == len(last):
        order = c.b.literal(np.array(last, np.int32))
        inputs[c.arg_slices[sizes].start] = c.b.gather(c.input(sizes), [order], [0])
    attrs = dict(c.attrs, data_format="N" + layout[2:] + "C")
    for name in _PER_AXIS:
        if attrs.get(name):
            attrs[name] = [attrs[name][k] for k in last]
    if attrs.get("explicit_paddings"):
        attrs["explicit_paddings"] = [attrs["explicit_paddings"][2 * k + side] for k in last for side in (0, 1)]
    return dataclasses.replace(c, inputs=inputs, attrs=attrs)
