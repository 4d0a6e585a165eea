"""Switches of Habana's graph compiler that `torch.hpu` has, most of which choose between ways that give the same.

What one chooses where it makes a difference here: numbers, memory or what is compiled anew. The others do nothing, so
that a script which sets them runs, and say why there is nothing to do.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from habana_tf.settings import TF_ENABLE_DYNAMIC_SHAPES

__all__ = [
    "disable_const_section_serialization", "disable_dynamic_shape", "disable_inference_mode",
    "disable_matmul3d_2d_reshape", "disable_optim_output_sif", "disable_quantization",
    "enable_const_section_serialization", "enable_dynamic_shape", "enable_inference_mode", "enable_matmul3d_2d_reshape",
    "enable_optim_output_sif", "enable_quantization", "enable_recompute_sdp", "getDeterministic",
    "get_dynamic_shape_status", "get_sync_debug_mode", "recompute_sdp_enabled", "sdp_kernel", "setDeterministic",
    "set_sync_debug_mode",
]  # fmt: skip

_deterministic = False
_recompute = True
_synchronous = False


def enable_dynamic_shape() -> None:
    """Has sizes that change compiled as ranges, which is how it is unless TF_ENABLE_DYNAMIC_SHAPES says otherwise."""
    TF_ENABLE_DYNAMIC_SHAPES.set("1")


def disable_dynamic_shape() -> None:
    """Has each size compiled by itself."""
    TF_ENABLE_DYNAMIC_SHAPES.set("0")


def get_dynamic_shape_status() -> bool:
    """Whether sizes that change are compiled as ranges."""
    return TF_ENABLE_DYNAMIC_SHAPES.get()


def enable_const_section_serialization(
    path: str | os.PathLike[str], clear_path: bool = False, use_compression: bool = False
) -> None:
    """Nothing: Habana's keeps the constants of recipes in files instead of the host's memory. Recipes here hold no
    weights, so nothing is written to `path`, and what is there is left alone."""


def disable_const_section_serialization() -> None:
    """Nothing: see `enable_const_section_serialization`."""


def enable_optim_output_sif() -> None:
    """Nothing: Habana's infers the shapes of results that sizes decide at once for a whole program, as is always so."""


def enable_inference_mode() -> None:
    """Nothing: Habana's compiler may then take weights for constants. Programs here take them as inputs, so that other
    weights need no other program."""


def enable_quantization() -> None:
    """Nothing: Habana's compiler then chooses types by the ranges that a model was given. Types here are those that the
    model's ops have."""


def enable_matmul3d_2d_reshape() -> None:
    """Nothing: Habana's compiler then multiplies a batch by a matrix as one product. How a product is computed is
    chosen by its costs here."""


# Both of a pair do nothing, for the same reason.
disable_optim_output_sif, disable_inference_mode = enable_optim_output_sif, enable_inference_mode
disable_quantization, disable_matmul3d_2d_reshape = enable_quantization, enable_matmul3d_2d_reshape


def setDeterministic(val: bool) -> None:
    """Remembers the wish, for `getDeterministic`: sums have one order here for any number of threads, and numbers are
    the same in each run. Habana's name of before `torch.use_deterministic_algorithms`; warns so."""
    global _deterministic
    _warn("setDeterministic", "torch.use_deterministic_algorithms")
    _deterministic = bool(val)


def getDeterministic() -> bool:
    """What `setDeterministic` was told. Warns as it does."""
    _warn("getDeterministic", "torch.are_deterministic_algorithms_enabled")
    return _deterministic


def _warn(name: str, instead: str) -> None:
    warnings.warn(f"torch.hpu.{name} is deprecated: use {instead}", FutureWarning, stacklevel=3)


def set_sync_debug_mode(debug_mode: Any) -> None:
    """Remembers the wish: a launch returns when its program has run, so nothing is ever asynchronous."""
    global _synchronous
    _synchronous = bool(debug_mode)


def get_sync_debug_mode() -> int:
    """What `set_sync_debug_mode` was told, 0 or 1."""
    return int(_synchronous)


def enable_recompute_sdp(enabled: bool) -> None:
    """Chooses for calls of FusedSDPA that do not say whether their gradients compute the attention's weights again."""
    global _recompute
    _recompute = bool(enabled)


def recompute_sdp_enabled() -> bool:
    """What `enable_recompute_sdp` chose, by default True."""
    return _recompute


@contextmanager
def sdp_kernel(enable_recompute: bool = True) -> Iterator[dict[str, Any]]:
    """Chooses as `enable_recompute_sdp` within."""
    before = _recompute
    enable_recompute_sdp(enable_recompute)
    try:
        yield {}
    finally:
        enable_recompute_sdp(before)
