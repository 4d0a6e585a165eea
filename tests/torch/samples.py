"""Calls of overloads of the table: functions of tensors, in the words of a program, and those of `rows`.

A sample is (shapes of its tensors, function). Each is tried in float32 and bfloat16, with gradients of all its tensors,
and in place where there is such a form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from tests.torch import rows

Sample = tuple[tuple[tuple[int, ...], ...], Callable[..., Any]]

_A, _B, _ROW, _ONE = (4, 6), (4, 6), (6,), ()


def _labels(*shape: int, classes: int = 6) -> torch.Tensor:
    return torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape) * 5 % classes


def _on(t: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return t.to(like.device)


def _hidden(like: torch.Tensor) -> torch.Tensor:
    """A mask that lets the first of five rows see nothing."""
    return torch.ones(5, 5, dtype=torch.bool, device=like.device).tril(-1)


def _lstm(x: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
    """Two steps of a cell."""
    h = c = torch.zeros(3, 6, dtype=x.dtype, device=x.device)
    for _ in range(2):
        h, c = torch.lstm_cell(x, (h, c), *weights)
    return [h, c]


def _whole_lstm(x: torch.Tensor, *weights: torch.Tensor, last: bool = False, **options: bool) -> list[torch.Tensor]:
    """Two layers at once, of one direction or of both; with the last states or without."""
    count = 2 * (2 if options["bidirectional"] else 1)
    h, c = (torch.full((count, 3, 6), value, dtype=x.dtype, device=x.device) for value in (0.5, -0.25))
    made = torch.lstm(
        x, (h, c), weights, options["has_biases"], 2, 0.0, True, options["bidirectional"], options["first"]
    )
    return list(made) if last else [made[0]]


def _whole_gru(x: torch.Tensor, *weights: torch.Tensor, both: bool) -> list[torch.Tensor]:
    """Two layers at once, of one direction or of both."""
    h = torch.full((4 if both else 2, 3, 6), 0.5, dtype=x.dtype, device=x.device)
    return list(torch.gru(x, h, weights, not both, 2, 0.0, True, both, both))


_BINARY: dict[str, Sample] = {
    f"{name} {kind}": ((_A, second), lambda x, y, name=name: getattr(torch, name)(x, y))
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "rsub")
    for kind, second in (("same", _B), ("row", _ROW), ("scalar tensor", _ONE))
}
_UNARY: dict[str, Sample] = {
    name: ((_A,), lambda x, name=name: getattr(torch, name)(x.abs() + 0.1 if "log" in name or "sqrt" in name else x))
    for name in "sqrt rsqrt exp expm1 log log1p sin cos tanh sigmoid erf abs neg reciprocal relu".split()
}
_COMPARE: dict[str, Sample] = {
    name: ((_A, _B), lambda x, y, name=name: [getattr(torch, name)(x, y), getattr(torch, name)(x, 0.5)])
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
SAMPLES: dict[str, Sample] = {
    **rows.SAMPLES,
    **_BINARY,
    **_UNARY,
    **_COMPARE,
    "numbers": ((_A,), lambda x: 3 - (x * 2.5 + 1) / 7),
    "alpha": ((_A, _B), lambda x, y: torch.add(x, y, alpha=0.3) - torch.sub(x, y, alpha=2)),
    "gelu": ((_A,), F.gelu),
    "gelu tanh": ((_A,), lambda x: F.gelu(x, approximate="tanh")),
    "clamp": ((_A,), lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0)),
    "pow": ((_A,), lambda x: x.pow(2) + x.abs().pow(1.5) + x.abs().pow(0.5)),
    "where": ((_A, _B), lambda x, y: torch.where(x > y, x, y * 2)),
    "masked_fill": ((_A,), lambda x: x.masked_fill(x > 0, -1.0)),
    "logical_not": ((_A,), lambda x: torch.logical_not(x > 0)),
    "lerp": ((_A, _B), lambda x, y: torch.lerp(x, y, 0.3) + torch.lerp(x, y, 0.7)),
    "addcmul": ((_A, _B, _A), lambda x, y, z: torch.addcmul(x, y, z, value=0.5)),
    "addcdiv": ((_A, _B, _A), lambda x, y, z: torch.addcdiv(x, y, z.abs() + 1, value=0.5)),
    "in place": ((_A, _B), lambda x, y: x.clone().add_(y, alpha=2).mul_(y).sub_(1.5).addcmul_(y, y).lerp_(y, 0.1)),
    "fill": ((_A,), lambda x: x.clone().fill_(2.5) + torch.zeros_like(x) + torch.full_like(x, 3)),
    "sum": ((_A,), lambda x: [x.sum(), x.sum(0), x.sum(-1, keepdim=True)]),
    "mean": ((_A,), lambda x: [x.mean(), x.mean((0, 1)), x.mean(-1, keepdim=True)]),
    "extremes": ((_A,), lambda x: [x.amax(1), x.amin(0), x.argmax(1), x.argmax()]),
    "norms": ((_A,), lambda x: [torch.linalg.vector_norm(x, n, 1) for n in (0, 1, 2, 3, float("inf"), -float("inf"))]),
    "mm": (((4, 6), (6, 3)), torch.mm),
    "mm transposed": (((6, 4), (3, 6)), lambda x, y: x.t() @ y.t()),
    "bmm": (((2, 4, 6), (2, 6, 3)), torch.bmm),
    "addmm": (((3,), (4, 6), (6, 3)), lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2)),
    "baddbmm": (((2, 4, 3), (2, 4, 6), (2, 6, 3)), torch.baddbmm),
    "linear": (((2, 5, 6), (3, 6), (3,)), F.linear),
    "convolution": (((2, 3, 8, 8), (4, 3, 3, 3), (4,)), lambda x, w, b: F.conv2d(x, w, b, 1, 1)),
    "convolution strides": (((2, 3, 9, 8), (4, 3, 3, 2)), lambda x, w: F.conv2d(x, w, None, 2, (1, 0))),
    "convolution groups": (((2, 4, 6, 6), (4, 2, 3, 3)), lambda x, w: F.conv2d(x, w, groups=2, dilation=2)),
    "batch norm": (((4, 3, 5, 5), (3,), (3,)), lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True)),
    "layer norm": (((4, 5, 6), (6,), (6,)), lambda x, w, b: F.layer_norm(x, (6,), w, b)),
    "softmax": ((_A,), lambda x: [x.softmax(-1), x.softmax(0)]),
    "log_softmax": ((_A,), lambda x: [x.log_softmax(-1), x.log_softmax(0)]),
    "cross entropy": (((5, 6),), lambda x: F.cross_entropy(x, _on(_labels(5), x))),
    "nll weights": (((5, 6), (6,)), lambda x, w: F.nll_loss(x, _on(_labels(5), x), w.detach().abs(), ignore_index=4)),
    "nll sum": (((5, 6),), lambda x: F.nll_loss(x, _on(_labels(5), x), reduction="sum")),
    "nll none": (((5, 6),), lambda x: F.nll_loss(x, _on(_labels(5), x), reduction="none")),
    "mse": ((_A, _B), lambda x, y: [F.mse_loss(x, y), F.mse_loss(x, y, reduction="sum")]),
    "max pool": (((2, 3, 7, 8),), lambda x: F.max_pool2d(x, 2)),
    "max pool overlapping": (((2, 3, 7, 8),), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "cat": ((_A, (2, 6)), lambda x, y: [torch.cat([x, y]), torch.stack([x, x * 2], 1)]),
    "embedding": (((10, 6),), lambda w: F.embedding(_on(_labels(3, 4, classes=10), w), w, padding_idx=5)),
    "brackets": ((_A,), lambda x: [x[_on(_labels(3, 2, classes=4), x)], x[:, _on(_labels(3), x)]]),
    "brackets of two": ((_A,), lambda x: x[_on(_labels(5, classes=4), x), _on(_labels(5), x) - 6]),
    "weight norm of columns": (((5, 4, 6), (1, 1, 6)), lambda v, g: torch._weight_norm(v, g, 2)),
    "index_select": ((_A,), lambda x: x.index_select(1, _on(_labels(3), x))),
    "views": (((4, 6),), lambda x: [x.t()[1:3], x.view(2, 12)[:, ::5], x[:, None].expand(4, 3, 6), *x.chunk(2, 1)]),
    "attention": (((2, 2, 5, 4),) * 3, F.scaled_dot_product_attention),
    "masked attention": (((2, 2, 5, 4),) * 3, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, _hidden(q))),
    "lstm": (((3, 5), (24, 5), (24, 6), (24,), (24,)), _lstm),
    "gru layers": (
        ((4, 3, 5), (18, 5), (18, 6), (18,), (18,), (18, 6), (18, 6), (18,), (18,)),
        functools.partial(_whole_gru, both=False),
    ),
    "gru both ways": (
        ((3, 4, 5), (18, 5), (18, 6), (18, 5), (18, 6), (18, 12), (18, 6), (18, 12), (18, 6)),
        functools.partial(_whole_gru, both=True),
    ),
    "lstm layers": (
        ((4, 3, 5), (24, 5), (24, 6), (24,), (24,), (24, 6), (24, 6), (24,), (24,)),
        functools.partial(_whole_lstm, has_biases=True, bidirectional=False, first=False),
    ),
    "lstm both ways": (
        ((3, 4, 5), (24, 5), (24, 6), (24, 5), (24, 6), (24, 12), (24, 6), (24, 12), (24, 6)),
        functools.partial(_whole_lstm, has_biases=False, bidirectional=True, first=True, last=True),
    ),
}  # fmt: skip
