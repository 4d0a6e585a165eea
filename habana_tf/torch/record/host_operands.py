"""Copies operands in host memory to the card, for each call of an op that takes them.

    x + torch.ones(1)            x[torch.tensor([0, 2])] = 1            logits.index_select(0, kept)

PyTorch's own cards take indices and numbers of the host; Habana's bridge takes any operand that is read, and programs
for Gaudi rely on it. So do we. The placement report counts the bytes, because a program that keeps such a tensor on the
card saves a copy over PCIe in each step.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import torch

from habana_tf.resolver import placements
from habana_tf.torch.record import scopes
from habana_tf.torch.record.nested import mapped

log = logging.getLogger("habana_tf")


class HostOperand(Exception):
    """An op reads a tensor of the host, which has to be copied to the card first."""


def on_card(op: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """A call's arguments, with copies on the card in place of tensors of the host. Tensors without a dimension stay:
    they are read as numbers."""
    copied = 0

    def moved(value: Any) -> Any:
        nonlocal copied
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim():
            copied += value.nbytes
            return value.to("hpu")
        return value

    given, named = mapped(moved, args), mapped(moved, kwargs)
    if placements.note_call(op, placements.HOST_OPERAND, scopes.where, copied):
        log.info("%s reads a tensor of the host, which is copied to the card at each call", op)
    return given, named
