"""Six networks train as on PyTorch's CPU, to what PyTorch differs from itself; only known ops are left to the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.torch.child import HAS_TORCH, needs_torch, on_device
from tests.torch.networks import cards

if HAS_TORCH:
    import torch

    from tests.torch.networks import comparing
    from tests.torch.networks.comparing import Compared

QUICK, LONG = 5, 50
ON_THE_CPU = {"aten.convolution_backward.default"}
"""Ops of these networks that no program has yet: of ViT, whose gradient is a view that is no part of a grid."""
NETWORKS = "resnet18", "vit", "bert", "gpt2", "lstm", "unet"
NORMALIZED = "resnet18", "vit"
"""One with statistics over a batch, which each card has of its own part, and one without."""


def _check(found: Sequence[Compared]) -> None:
    for each in found:
        assert set(each.left) <= ON_THE_CPU
        assert each.near, each
        assert each.learned or each.steps < LONG, each


@on_device(*NETWORKS, modes=("lazy",))
def test_a_network_trains_as_on_the_cpu(name: str) -> None:
    _check(comparing.compare(name, "lazy", QUICK))


@pytest.mark.rest
@on_device(*NETWORKS, modes=("eager",))
def test_a_network_trains_op_by_op_as_on_the_cpu(name: str) -> None:
    _check(comparing.compare(name, "eager", QUICK))


@on_device(*NETWORKS, modes=("eager",))
def test_a_compiled_network_trains_as_on_the_cpu(name: str) -> None:
    _check(comparing.compare(name, "compiled", QUICK))


@pytest.mark.rest
@on_device(*NETWORKS, modes=("lazy",))
def test_a_network_trains_long_as_on_the_cpu(name: str) -> None:
    _check(comparing.compare(name, "lazy", LONG))


@pytest.mark.rest
@on_device(*NETWORKS, modes=("eager",))
def test_a_compiled_network_trains_long_as_on_the_cpu(name: str) -> None:
    _check(comparing.compare(name, "compiled", LONG))


@on_device(*NETWORKS, modes=("lazy",))
def test_a_network_trains_in_bf16_as_near_to_fp32_as_on_the_cpu(name: str) -> None:
    _check(comparing.compare(name, "lazy", QUICK, torch.bfloat16))


@pytest.mark.rest
@on_device(*NETWORKS, modes=("eager",))
def test_a_compiled_network_trains_in_bf16_as_near_to_fp32_as_on_the_cpu(name: str) -> None:
    _check(comparing.compare(name, "compiled", QUICK, torch.bfloat16))


@needs_torch
def test_two_cards_train_as_two_cpus() -> None:
    _check(cards.compared(NORMALIZED, ["lazy"], [QUICK]))


@needs_torch
@pytest.mark.rest
@pytest.mark.parametrize("way", ["lazy", "compiled"])
@pytest.mark.parametrize("name", NETWORKS)
def test_two_cards_train_long_as_two_cpus_and_as_one_with_all_of_the_batch(name: str, way: str) -> None:
    _check(cards.compared([name], [way], [QUICK, LONG]))
