"""Defines the ops of the namespace `hpu` with PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from habana_tf.torch.hpu_ops import attention, blocks, caches, experts, float8, layers, packed4
from habana_tf.torch.hpu_ops.op import OPS, HpuOp, always

FAMILIES = (attention, blocks, caches, experts, float8, layers, packed4)
"""The modules that add ops."""


def register(recorded: Callable[[str], Callable[..., Any]]) -> torch.library.Library:
    """Defines all ops; they last as long as the result. recorded: what records calls of a row."""
    library = torch.library.Library("hpu", "DEF")
    for each in OPS:
        library.define(each.schema)
        if each.row is None:
            library.impl(each.name, each.formula, "CompositeImplicitAutograd")
        else:
            library.impl(each.name, each.formula, "CompositeExplicitAutograd")
            library.impl(each.name, _chosen(each, recorded(f"hpu::{each.name}")), "PrivateUse1")
    return library


def _chosen(each: HpuOp, recorded: Callable[..., Any]) -> Callable[..., Any]:
    """Records a call, or computes its formula."""
    if each.row is always:
        return recorded

    def call(*args: Any, **kwargs: Any) -> Any:
        assert each.row is not None
        return (recorded if each.row(*args, **kwargs) else each.formula)(*args, **kwargs)

    return call
