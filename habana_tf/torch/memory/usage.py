"""Finds out what the memory of this process is used for: parameters, states of optimizers, other tensors."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from habana_tf.torch.memory.storage import Block, Memory


def source(memory: Memory) -> tuple[int, int, dict[str, int]]:
    """For the memory report; see `resolver.memory_report.Source`."""
    gc_known = gc.get_objects()
    optimizers = [each for each in gc_known if issubclass(type(each), torch.optim.Optimizer)]
    weights = [each for each in gc_known if issubclass(type(each), torch.nn.Parameter)]
    counted: set[int] = set()
    found = {
        "optimizer": _bytes(memory, _state(optimizers), counted),
        "weights": _bytes(memory, weights, counted),
    }
    statistics = memory.statistics
    found["tensors"] = statistics.allocated - sum(found.values())
    return statistics.allocated, statistics.peak, found


def weights(memory: Memory, blocks: Sequence[Block]) -> set[int]:
    """The numbers of those of these blocks that hold parameters of modules."""
    kinds = _with_subclasses(torch.nn.Parameter)
    parameters = [each for each in gc.get_referrers(*kinds) if type(each) in kinds]  # an object refers to its class
    addresses = {t.untyped_storage().data_ptr() for t in parameters if t.device.type == "hpu"}
    return {k for k, block in enumerate(blocks) if block.address in addresses}


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))


def _state(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[Any]:
    for optimizer in optimizers:
        for state in list(optimizer.state.values()):
            if isinstance(state, dict):
                yield from list(state.values())


def _bytes(memory: Memory, tensors: Iterable[Any], counted: set[int]) -> int:
    """Bytes of the blocks of tensors of the device, each block once. counted: the addresses of those that were
    counted."""
    total = 0
    for t in tensors:
        if isinstance(t, torch.Tensor) and t.device.type == "hpu":
            block = memory.blocks.get(t.untyped_storage().data_ptr())
            if block is not None and block.counted and block.address not in counted:
                counted.add(block.address)
                total += block.room
    return total
