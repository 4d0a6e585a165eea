"""NaN and infinities in pictures and in their gradients reach the windows that they are in, and no other element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

LINE, IMAGE, VOLUME = (2, 3, 9), (2, 3, 9, 8), (1, 2, 5, 6, 4)
CASES: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "average 1d": (lambda x: F.avg_pool1d(x, 2), LINE),
    "average 2d": (lambda x: F.avg_pool2d(x, 2), IMAGE),
    "average, overlapping": (lambda x: F.avg_pool2d(x, 3, 2, 1), IMAGE),
    "average, each place": (lambda x: F.avg_pool2d(x, 3, 1, 1, count_include_pad=False), IMAGE),
    "average, with gaps": (lambda x: F.avg_pool2d(x, 2, 3), IMAGE),
    "average, a part at the end": (lambda x: F.avg_pool2d(x, (2, 3), ceil_mode=True, divisor_override=2), IMAGE),
    "average 3d": (lambda x: F.avg_pool3d(x, 2, 1), VOLUME),
    "power average": (lambda x: F.lp_pool2d(x, 1.5, 2), IMAGE),
    "adaptive 1d": (lambda x: F.adaptive_avg_pool1d(x, 4), LINE),
    "adaptive 2d": (lambda x: F.adaptive_avg_pool2d(x, (4, 5)), IMAGE),
    "adaptive, alike": (lambda x: F.adaptive_avg_pool2d(x, (3, 4)), IMAGE),
    "adaptive, more": (lambda x: F.adaptive_avg_pool2d(x, (20, 11)), IMAGE),
    "adaptive, all": (lambda x: F.adaptive_avg_pool2d(x, 1), IMAGE),
    "adaptive 3d": (lambda x: F.adaptive_avg_pool3d(x, (2, 4, 3)), VOLUME),
    "linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), LINE),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "bilinear, one axis": (lambda x: F.interpolate(x, size=(9, 16), mode="bilinear"), IMAGE),
    "bilinear, as it is": (lambda x: F.interpolate(x, size=(9, 8), mode="bilinear"), IMAGE),
    "bilinear, corners": (lambda x: F.interpolate(x, size=(17, 11), mode="bilinear", align_corners=True), IMAGE),
    "bilinear, smaller": (lambda x: F.interpolate(x, size=(4, 3), mode="bilinear"), IMAGE),
    "bilinear, one element": (lambda x: F.interpolate(x, size=(1, 1), mode="bilinear"), IMAGE),
    "bilinear, by a part": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), IMAGE),
    "bilinear, far larger": (lambda x: F.interpolate(x, size=(9 * 40, 8 * 3), mode="bilinear"), IMAGE),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), IMAGE),
    "bicubic, as it is": (lambda x: F.interpolate(x, size=(9, 8), mode="bicubic"), IMAGE),
    "bicubic, smaller": (lambda x: F.interpolate(x, size=(5, 3), mode="bicubic"), IMAGE),
    "bicubic, corners": (lambda x: F.interpolate(x, size=(11, 16), mode="bicubic", align_corners=True), IMAGE),
    "trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), VOLUME),
    "area": (lambda x: F.interpolate(x, size=(4, 5), mode="area"), IMAGE),
    "nearest": (lambda x: F.interpolate(x, size=(11, 5)), IMAGE),
    "nearest, copies": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest-exact": (lambda x: F.interpolate(x, size=(11, 5), mode="nearest-exact"), IMAGE),
    "smoothed": (lambda x: F.interpolate(x, size=(4, 3), mode="bilinear", antialias=True), IMAGE),
    "max": (lambda x: F.max_pool2d(x, 3, 2, 1), IMAGE),
    "grid": (lambda x: F.grid_sample(x, F.affine_grid(torch.eye(2, 3).expand(2, 2, 3), (2, 3, 5, 4)).to(x)), IMAGE),
    "pieces": (lambda x: F.unfold(x, 3), IMAGE),
    "from pieces": (lambda x: F.fold(x.flatten(2), (9, 9), 2), (2, 4, 8, 8)),
    "shuffled": (lambda x: F.pixel_shuffle(x, 2), (1, 4, 3, 5)),
    "running sum": (lambda x: x.cumsum(1), (3, 7)),
    "rows of a table": (lambda x: F.embedding(torch.tensor([[1, 4], [4, 0]], device=x.device), x), (6, 3)),
    "places": (lambda x: x.gather(1, torch.tensor([[1, 4], [4, 0]], device=x.device)), (2, 6)),
}


def _made(function: Callable[[Any], Any], x: Any, number: float) -> list[Any]:
    """A result, and the gradient of what has one such number in it, in the middle and in a corner."""
    x = x.detach().requires_grad_()
    y = function(x)
    made = [y.detach().cpu()]
    for place in (tuple(n // 2 for n in y.shape), (0,) * y.dim()):
        g = torch.ones(y.shape)
        g[place] = number
        made += torch.autograd.grad(y, x, g.to(x.device), retain_graph=True)
    return made


def _compare(function: Callable[[Any], Any], shape: tuple[int, ...], number: float) -> None:
    torch.manual_seed(0)
    for place in (None, tuple(n // 2 for n in shape), (0,) * len(shape)):
        x = torch.rand(shape) + 1
        if place is not None:
            x[place] = number
        want, got = _made(function, x, number), _made(function, x.to("hpu"), number)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-4, equal_nan=True)


@on_device(*CASES)
def test_one_number_that_is_none_reaches_the_windows_it_is_in(name: str) -> None:
    function, shape = CASES[name]
    for number in (float("nan"), float("inf")):
        _compare(function, shape, number)


RANGED = ("bilinear", "bilinear, corners", "bicubic", "nearest", "nearest-exact", "linear", "trilinear",
          "adaptive 1d", "adaptive 2d", "adaptive, all", "area", "average 2d", "adaptive 3d")  # fmt: skip


@pytest.mark.rest
@on_device(*RANGED)
def test_the_same_in_programs_for_many_sizes(name: str) -> None:
    function, shape = CASES[name]
    for more in (0, 1, 2, 3, 5):
        _compare(function, (*shape[:2], *(n + more for n in shape[2:])), float("nan"))
