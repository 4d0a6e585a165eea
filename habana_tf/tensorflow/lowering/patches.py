"""Windows of images as values: `tf.image.extract_patches` and its kin in three dimensions."""

from __future__ import annotations

import dataclasses
import math

from habana_tf.formulas import spatial
from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import ALL, NUMERIC, op
from habana_tf.tensorflow.lowering.window_axes import axes_of


@op("ExtractImagePatches", T=ALL)
@op("ExtractVolumePatches", T=NUMERIC)
def extract_patches(c: Lowering) -> Node:
    """[N, S.., C] -> [N, O.., product of K.. and C]: the elements of each window as channels."""
    b, (x,) = c.b, c.inputs
    sizes, strides = c.attr("ksizes"), c.attr("strides")
    rates = c.attr("rates") or [1] * len(sizes)
    if x.rank != len(sizes) or any(attr[k] != 1 for attr in (sizes, strides, rates) for k in (0, -1)):
        raise c.error(f"images of rank {len(sizes)} are needed, and windows over neither images nor channels")
    axes = axes_of(dataclasses.replace(c, attrs={**c.attrs, "dilations": rates}), x.shape[1:-1], sizes[1:-1])
    shape = (x.shape[0], *(a.out for a in axes), ext.mul(x.shape[-1], math.prod(a.kernel for a in axes)))
    if any(a.out == 0 for a in axes):
        return b.const(0, x.dtype, shape)
    view = spatial.windows(b, x, axes)
    first = len(axes) + 1
    return b.reshape(b.permute(view, [*range(first), *range(first + 1, view.rank), first]), shape)
