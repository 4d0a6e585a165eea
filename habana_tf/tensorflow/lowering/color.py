"""Colours of images, [..., 3] for those that know of hue: RGB and HSV, contrast, hue, saturation.

Hue is h in [0, 1) around the circle; 6 h counts its six sectors, in which one channel is the value, one is the value
less the range, and the third goes from the one to the other:

    red = value - range * (1 - clip(|6h - 3| - 1, 0, 1)), and the others a third of the circle further
"""

from __future__ import annotations

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import FLOATS, op


def _channels(c: Lowering, x: Node) -> tuple[Term, Term, Term]:
    """The three channels, each [..., 1]."""
    c.require(x.rank and x.shape[-1] == 3, "the last axis must be the 3 channels")
    red, green, blue = (wrap(c.b, c.b.along(x, x.rank - 1, k, 1)) for k in range(3))
    return red, green, blue


def _joined(c: Lowering, channels: tuple[Term, Term, Term], dtype: DType) -> Node:
    return c.b.concat([v.done(dtype) for v in channels], channels[0].node.rank - 1)


def _hue(red: Term, green: Term, blue: Term) -> tuple[Term, Term, Term]:
    """6 * hue in [0, 6), the value (the greatest channel), and the range (the greatest less the least)."""
    value = red.max(green).max(blue)
    spread = value - red.min(green).min(blue)
    per = 1 / spread
    sector = red.test("eq", value).where(
        per * (green - blue), green.test("eq", value).where(per * (blue - red) + 2, per * (red - green) + 4)
    )
    sector = spread.test("gt", 0).where(sector, 0)
    return sector.test("lt", 0).where(sector + 6, sector), value, spread


def _tints(sector: Term) -> tuple[Term, Term, Term]:
    """For 6 * hue in [0, 6], the share in [0, 1] of each channel."""
    red = (sector - 3).map("abs") - 1
    green = 2 - (sector - 2).map("abs")
    blue = 2 - (sector - 4).map("abs")
    return red.max(0).min(1), green.max(0).min(1), blue.max(0).min(1)


@op("RGBToHSV", T=FLOATS)
def rgb_to_hsv(c: Lowering) -> Node:
    (x,) = c.inputs
    sector, value, spread = _hue(*_channels(c, x))
    saturation = value.test("gt", 0).where(spread / value, 0)
    return _joined(c, (sector * (1 / 6), saturation, value), x.dtype)


@op("HSVToRGB", T=FLOATS)
def hsv_to_rgb(c: Lowering) -> Node:
    (x,) = c.inputs
    hue, saturation, value = _channels(c, x)
    red, green, blue = ((1 - saturation + saturation * tint) * value for tint in _tints(hue * 6))
    return _joined(c, (red, green, blue), x.dtype)


@op("AdjustHue", T=(DType.F32,))
def adjust_hue(c: Lowering) -> Node:
    """Turns the hue by `delta`, a part of the circle; value and range stay."""
    x, delta = c.inputs
    sector, value, spread = _hue(*_channels(c, x))
    turned = sector + wrap(c.b, c.b.reshape(delta, ())) * 6
    turned = turned - (turned * (1 / 6)).map("floor") * 6
    red, green, blue = (value - spread + spread * tint for tint in _tints(turned))
    return _joined(c, (red, green, blue), x.dtype)


@op("AdjustSaturation", T=(DType.F32,))
def adjust_saturation(c: Lowering) -> Node:
    x, scale = c.inputs
    sector, value, spread = _hue(*_channels(c, x))
    saturation = value.test("gt", 0).where(spread / value, 0)
    saturation = (saturation * wrap(c.b, c.b.reshape(scale, ()))).max(0).min(1)
    red, green, blue = ((1 - saturation + saturation * tint) * value for tint in _tints(sector))
    return _joined(c, (red, green, blue), x.dtype)


@op("AdjustContrastv2", T=(DType.F32,))
def adjust_contrast(c: Lowering) -> Node:
    """Distances from the mean of each channel of each image, scaled."""
    x, factor = c.inputs
    v, axes = wrap(c.b, x), (x.rank - 3, x.rank - 2)
    mean = v.sum(axes) / v.count(axes)
    return ((v - mean) * wrap(c.b, c.b.reshape(factor, ())) + mean).done(x.dtype)
