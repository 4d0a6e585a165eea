"""The transformer engine under the names of a package of Habana's."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from habana_tf.torch.loader import load
from habana_tf.torch.transformer_engine import cpp_extensions, distributed, fp8, recipe, utils
from habana_tf.torch.transformer_engine.attention import FusedAttention
from habana_tf.torch.transformer_engine.fp8 import fp8_autocast
from habana_tf.torch.transformer_engine.linear import GroupedLinear, Linear

__all__ = ["publish"]

_MODULES = {
    "cpp_extensions": cpp_extensions, "distributed": distributed, "fp8": fp8, "recipe": recipe, "utils": utils,
}  # fmt: skip
_NAMES = {
    "FusedAttention": FusedAttention, "GroupedLinear": GroupedLinear, "Linear": Linear, "fp8_autocast": fp8_autocast,
}  # fmt: skip

_MISSING = {
    "MixtureOfExperts": "its arguments are not published. torch.ops.hpu.mixture_of_experts mixes experts, "
    "te.GroupedLinear multiplies by their weights in 8 bits",
    "pytorch": "that is NVIDIA's. te.Linear, te.FusedAttention and torch.nn.LayerNorm do what its modules do",
}


def publish(package: dict[str, Any]) -> None:
    """Loads the device, and gives a package, by its global names, all names and submodules: one object each under all
    names, so that what is set by one is set by all."""
    load()
    package.update(_MODULES, **_NAMES)
    package["__all__"] = sorted([*_MODULES, *_NAMES])
    package["__getattr__"] = partial(_missing, package["__name__"])
    for name, module in _MODULES.items():
        sys.modules[f"{package['__name__']}.{name}"] = module


def _missing(package: str, name: str) -> Any:
    """Of a package's name that is not there."""
    why = f": {_MISSING[name]}" if name in _MISSING else ""
    raise AttributeError(f"module {package!r} has no attribute {name!r}{why}")
