"""The gradient of max pooling takes the indices that it is given."""

from __future__ import annotations

from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

WINDOWS: dict[str, tuple[int, int, int, int]] = {
    "apart": (2, 2, 0, 1), "gaps": (2, 3, 0, 1), "padded": (2, 2, 1, 1), "overlapping": (3, 2, 1, 1),
    "dilated": (2, 1, 1, 2), "dense": (3, 1, 1, 1),
}  # fmt: skip
"""Kernel, stride, padding, dilation of both axes."""


def _gradient(device: str, dtype: Any, dy: Any, x: Any, window: tuple[int, ...], indices: Any) -> Any:
    k, s, p, d = ([n, n] for n in window)
    given = (t.to(device, dtype) for t in (dy, x))
    overload = torch.ops.aten.max_pool2d_with_indices_backward
    return overload(*given, k, s, p, d, False, indices.to(device)).cpu().double()


@on_device(*WINDOWS)
def test_any_place_of_a_window_may_be_its_maximum(case: str) -> None:
    """Equal elements: the forward pass says the first of each window, a program may say the last."""
    torch.manual_seed(0)
    window = WINDOWS[case]
    k, s, p, d = ([n, n] for n in window)
    x = torch.zeros(2, 3, 8, 9)
    reversed_places = torch.nn.functional.max_pool2d(
        torch.arange(72.0).reshape(1, 1, 8, 9).expand(2, 3, 8, 9), k, s, p, d, return_indices=True
    )[1]
    first = torch.nn.functional.max_pool2d(x, k, s, p, d, return_indices=True)[1]
    assert not torch.equal(first, reversed_places)
    dy = torch.randn(first.shape)
    for indices in (first, reversed_places):
        want = _gradient("cpu", torch.float64, dy, x, window, indices)
        assert torch.allclose(_gradient("hpu", torch.float32, dy, x, window, indices), want, atol=1e-5)
        narrow = _gradient("hpu", torch.bfloat16, dy, x, window, indices)
        assert (narrow - want).abs().max() <= 2.0**-6 * want.abs().max()


@on_device(*WINDOWS)
def test_those_of_the_forward_pass_and_others_give_one_gradient(case: str) -> None:
    """In one program, and in two."""
    torch.manual_seed(0)
    k, s, p, d = WINDOWS[case]
    x = torch.randn(2, 3, 8, 9).round()  # with many equal elements
    found = []
    for device, dtype in (("hpu", torch.float32), ("cpu", torch.float64)):
        leaf = x.to(device, dtype).requires_grad_()
        made, indices = torch.nn.functional.max_pool2d(leaf, k, s, p, d, return_indices=True)
        made.cos().sum().backward()
        found.append(leaf.grad.cpu().double())
        again = _gradient(device, dtype, -made.detach().sin().cpu(), x, (k, s, p, d), indices.cpu())
        found.append(again)
    assert all(torch.allclose(each, found[-1], atol=1e-5) for each in found)
