"""The spatial axes of convolutions and poolings, from an op's attributes, with the errors that TensorFlow has."""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.formulas.spatial import WindowAxis, padded_axis
from habana_tf.ir import extent as ext
from habana_tf.ir.extent import Extent
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering


def axes_of(c: Lowering, sizes: Sequence[Extent], kernels: Sequence[int]) -> list[WindowAxis]:
    """The axes for spatial `sizes` of the input and `kernels`, from the op's strides, dilations and padding.

    Raises the op's error for what TensorFlow itself refuses. Of a size that is a symbol the padding is one too:
    SAME with strides pads by what the size leaves.
    """
    rank = len(sizes)
    strides = c.attr("strides")
    dilations = c.attr("dilations") or [1] * (rank + 2)
    explicit = c.attr("explicit_paddings") or [0] * (2 * rank + 4)
    padding = c.attr("padding")
    if strides[0] != 1 or strides[-1] != 1 or dilations[0] != 1 or dilations[-1] != 1:
        raise c.error("strides and dilations over the batch and channel axes must be 1")
    out = []
    for i, (n, k) in enumerate(zip(sizes, kernels, strict=True)):
        s, d = strides[i + 1], dilations[i + 1]
        span = (k - 1) * d + 1
        if padding == "SAME":
            count = ext.div(ext.add(n, s - 1), s)
            total = ext.add(ext.mod(ext.mul(n, -1), s), span - s)  # what the last window needs beyond the elements
            total = 0 if span == 1 or n == 0 else c.premises.largest(total, 0)
            low = ext.div(total, 2)
            out.append(WindowAxis(n, k, s, d, low, ext.add(total, ext.mul(low, -1)), count))
        else:
            before, after = (explicit[2 * i + 2], explicit[2 * i + 3]) if padding == "EXPLICIT" else (0, 0)
            if not c.at_least(ext.add(n, before + after - span), -s):
                raise c.error(f"a window of {span} does not fit in {n} elements padded by {before} and {after}")
            out.append(padded_axis(c.premises, n, k, s, d, before, after))
    return out


def check_result(c: Lowering, dy: Node, batch: Extent, axes: Sequence[WindowAxis], channels: Extent) -> None:
    """Raises the op's error unless dy has the shape of the result, of which it is the gradient."""
    wanted = (batch, *(a.out for a in axes), channels)
    c.require(dy.shape == wanted, f"the gradient of the result must have shape [{', '.join(map(str, wanted))}]")
