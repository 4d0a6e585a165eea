"""Ops that are programs by themselves: written places and sizes that change need a few recipes, whatever their number.

A recipe is for the first place or size, one for the last place, one or two for all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

    import habana_frameworks.torch.core as htcore
    from habana_tf.cache import stats

MOST = 4
Call = Callable[[Any, int], Any]


def _set(z: Any, where: Any, value: Any) -> Any:
    z[where] = value
    return z


PLACES: dict[str, tuple[tuple[int, ...], Call]] = {
    "row": ((12, 64), lambda z, i: _set(z, i, z[i].new_full((64,), i))),
    "row from the end": ((12, 61), lambda z, i: _set(z, -1 - i, z.new_ones(61))),
    "rows": ((24, 60), lambda z, i: _set(z, slice(2 * i, 2 * i + 2), z.new_ones(60))),
    "number into a row": ((12, 63), lambda z, i: _set(z, i, 3.0)),
    "arithmetic on a row": ((12, 62), lambda z, i: z[i].add_(1)),
    "column of a cache": ((4, 12, 16), lambda z, i: z[:, i].copy_(z.new_ones(4, 16))),
    "place of a cache with heads": ((2, 3, 12, 8), lambda z, i: z[:, :, i : i + 1].copy_(z.new_ones(2, 3, 1, 8))),
    "last axis": ((5, 6, 12), lambda z, i: z[..., i].mul_(2)),
    "element": ((12, 11), lambda z, i: _set(z, (i, i % 11), 1.0)),
    "diagonal step": ((12, 12), lambda z, i: z[i, : i + 1].add_(1)),
    "growing rows": ((12, 9), lambda z, i: z[: i + 1].mul_(0.5)),
    "read column": ((4, 12, 18), lambda z, i: z[:, i] * 2),
    "read range": ((4, 15, 19), lambda z, i: z[:, i : i + 3].sum(1)),
}


def _compiled(call: Call, given: list[Any]) -> int:
    """How many recipes calls with these first arguments and their numbers compile; results are the CPU's."""
    ours = [t.to("hpu") for t in given]
    htcore.mark_step()
    before = stats().counts().compiled
    for i, (x, mine) in enumerate(zip(given, ours, strict=True)):
        made, want = call(mine, i), call(x, i)
        htcore.mark_step()
        torch.testing.assert_close(made.cpu(), want, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(mine.cpu(), x)
    return stats().counts().compiled - before


@on_device(*PLACES)
def test_places(name: str) -> None:
    shape, call = PLACES[name]
    torch.manual_seed(0)
    x = torch.randn(shape)
    mine = x.to("hpu")
    call(mine, 0), call(x, 0)  # with what makes the value
    before = stats().counts().compiled
    for i in range(1, 12):
        made, want = call(mine, i), call(x, i)
        htcore.mark_step()
        torch.testing.assert_close(made.cpu(), want, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(mine.cpu(), x)
    assert stats().counts().compiled - before <= MOST


SIZES: dict[str, tuple[Callable[[int], tuple[int, ...]], Call]] = {
    "elementwise": (lambda n: (n, 15), lambda x, i: x.relu()),
    "in place": (lambda n: (n, 15), lambda x, i: x.mul_(2)),
    "softmax": (lambda n: (5, n), lambda x, i: x.softmax(1)),
    "sum": (lambda n: (n, 17), lambda x, i: x.sum(0)),
    "normalization": (lambda n: (n, 17), lambda x, i: F.layer_norm(x, (17,))),
    "joined": (lambda n: (n, 7), lambda x, i: torch.cat([x, x.new_zeros(3, 7)])),
    "product with itself": (lambda n: (n, 12), lambda x, i: x @ x.T),
    "batches of products": (lambda n: (3, n, 14), lambda x, i: torch.bmm(x, x.transpose(1, 2))),
    "convolution": (lambda n: (2, 3, n, 2 * n % 13 + 9), lambda x, i: F.conv2d(x, x.new_ones(4, 3, 3, 3), padding=1)),
    "convolution with strides": (
        lambda n: (2, 3, n, 2 * n % 13 + 9), lambda x, i: F.conv2d(x, x.new_ones(4, 3, 3, 3), stride=2, padding=1)
    ),
    "gathered": (lambda n: (n, 17), lambda x, i: x.gather(0, (x > 0).long())),
    "scattered": (lambda n: (n, 17), lambda x, i: x.scatter(0, (x > 0).long(), 2.0)),
    "reduced": (lambda n: (n, 17), lambda x, i: x.scatter_reduce(0, (x > 9).long(), x, "amax")),
}  # fmt: skip


def _grad(call: Call) -> Call:
    """The gradient of what a call gives."""

    def run(x: Any, i: int) -> Any:
        x = x.clone().requires_grad_()
        (made,) = torch.autograd.grad(call(x, i).square().sum(), x)
        return made

    return run


def _images(n: int) -> tuple[int, ...]:
    return 2, 3, n, 2 * n % 13 + 9


AMOUNTS: dict[str, tuple[Callable[[int], tuple[int, ...]], Call]] = {
    "padding": (lambda n: (5, 13), lambda x, i: F.pad(x, (i + 1, 2 * i % 5 + 1))),
    "padding to a size": (lambda n: (5, n), lambda x, i: F.pad(x, (0, 30 - x.shape[1]))),
    "reflection": (lambda n: (2, 3, 20, 20), lambda x, i: F.pad(x, (i + 1, i + 2, i + 1, i + 2), mode="reflect")),
    "replication": (lambda n: (2, 3, 20, 20), lambda x, i: F.pad(x, (i + 1, i + 2, i + 1, i + 2), mode="replicate")),
    "reflected sizes": (lambda n: (3, n), lambda x, i: F.pad(x, (2, 1), mode="reflect")),
    "top k": (lambda n: (6, 33), lambda x, i: x.topk(i + 2, 1)[0]),
    "triangles": (lambda n: (9, 12), lambda x, i: x.tril(i + 1)),
    "repeated": (lambda n: (3, 4), lambda x, i: x.repeat(i + 2, 1)),
    "copies of pixels": (_images, lambda x, i: F.interpolate(x, scale_factor=2)),
    "nearest": (lambda n: (2, 3, 8, 9), lambda x, i: F.interpolate(x, size=(11 + i, 13 + 2 * i % 7))),
    "nearest of sizes": (_images, lambda x, i: F.interpolate(x, size=(17, 19))),
    "bilinear": (lambda n: (2, 3, 8, 9), lambda x, i: F.interpolate(x, size=(11 + i, 13 + 2 * i % 7), mode="bilinear")),
    "aligned": (_images, lambda x, i: F.interpolate(x, size=(16, 17), mode="bilinear", align_corners=True)),
    "bicubic": (_images, lambda x, i: F.interpolate(x, size=(16, 17), mode="bicubic")),
    "means": (_images, lambda x, i: F.adaptive_avg_pool2d(x, (4, 5))),
}  # fmt: skip


@on_device(*AMOUNTS)
def test_amounts(name: str) -> None:
    """Numbers of a call that are sizes: of a padding, of images, k of top-k; with gradients."""
    shape, call = AMOUNTS[name]
    torch.manual_seed(0)
    given = [torch.randn(shape(n)) for n in (9, 14, 10, 17, 11, 24, 12, 13)]
    assert _compiled(call, given) <= MOST
    if name != "triangles":
        assert _compiled(_grad(call), given[:4]) <= 4 * 6


@on_device(*SIZES)
def test_sizes(name: str) -> None:
    """The ops of a case have recipes for their first sizes, and as many for all others."""
    shape, call = SIZES[name]
    torch.manual_seed(0)
    most = 6 if name in ("gathered", "scattered", "reduced", "joined") or "convolution" in name else 2
    assert _compiled(call, [torch.randn(shape(n)) for n in (9, 14, 10, 17, 11, 24, 12, 13)]) <= most


@on_device(modes=("eager",))
def test_layers_of_other_widths_have_recipes_of_their_own() -> None:
    """Parameters of other sizes are of other models, in which known sizes are faster."""
    from habana_tf.torch.record.ranges import Structures

    kinds = []
    known = Structures.cluster

    def cluster(self: Any, *given: Any) -> Any:
        made = known(self, *given)
        kinds.append(made[2] is not None)
        return made

    with patch.object(Structures, "cluster", cluster):
        for width in (6, 9, 14):
            weight = torch.nn.Parameter(torch.ones(width).to("hpu"))
            weight.sin().cpu()
            with torch.no_grad():
                weight.view(-1, 1).cos().cpu()
                weight.tan_().cpu()
    assert len(kinds) == 9 and not any(kinds)
