"""Six networks train as on PyTorch's CPU, to what PyTorch differs from itself; only known ops are left to the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

    from tests.torch.networks import training

QUICK, LONG = 5, 50
FACTOR = 4
"""By how much the distance may be above PyTorch's from itself, which is the largest of a few draws."""
LEAST = 1e-6
"""A distance that says nothing: eight roundings of a number near 1."""
ON_THE_CPU = {"aten.convolution_backward.default"}
"""Ops of these networks that no program has yet: of ViT, whose gradient is a view that is no part of a grid."""
NETWORKS = "resnet18", "vit", "bert", "gpt2", "lstm", "unet"

_wanted: dict[tuple[str, int], Any] = {}


def _compare(name: str, steps: int, compiled: bool = False) -> None:
    from habana_tf.resolver import placements

    if (name, steps) not in _wanted:
        _wanted[name, steps] = training.spread(name, steps)
    want, (losses, weights) = _wanted[name, steps]
    placements.reset()
    got = training.trained(name, "hpu", steps, compiled=compiled)
    assert {each.op for each in placements.placements().cpu} <= ON_THE_CPU
    assert torch.isfinite(got.losses).all()
    distance = want.distance(got)
    assert distance[0] <= max(FACTOR * losses, LEAST), f"losses: {distance[0]:.1e}, PyTorch itself {losses:.1e}"
    assert distance[1] <= max(FACTOR * weights, LEAST), f"weights: {distance[1]:.1e}, PyTorch itself {weights:.1e}"
    if steps == LONG:
        assert got.losses[-4:].mean() < got.losses[:4].mean()


@on_device(*NETWORKS, modes=("lazy",))
def test_a_network_trains_as_on_the_cpu(name: str) -> None:
    _compare(name, QUICK)


@pytest.mark.rest
@on_device(*NETWORKS, modes=("eager",))
def test_a_network_trains_op_by_op_as_on_the_cpu(name: str) -> None:
    _compare(name, QUICK)


@on_device(*NETWORKS, modes=("eager",))
def test_a_compiled_network_trains_as_on_the_cpu(name: str) -> None:
    _compare(name, QUICK, compiled=True)


@pytest.mark.rest
@on_device(*NETWORKS, modes=("lazy",))
def test_a_network_trains_long_as_on_the_cpu(name: str) -> None:
    _compare(name, LONG)


@pytest.mark.rest
@on_device(*NETWORKS, modes=("eager",))
def test_a_compiled_network_trains_long_as_on_the_cpu(name: str) -> None:
    _compare(name, LONG, compiled=True)
