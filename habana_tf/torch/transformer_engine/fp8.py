"""Whether modules of the transformer engine compute in 8 bits now, and by which recipe."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from typing import Any

import torch

from habana_tf.torch.device.chip import device_type, synDeviceType
from habana_tf.torch.transformer_engine.recipe import DelayedScaling, Format
from habana_tf.torch.transformer_engine.scaling import power_of_two_scale, unreduced

__all__ = [
    "FP8GlobalStateManager", "fp8_autocast", "get_default_fp8_recipe", "get_fp8_group", "get_fp8_recipe",
    "get_fp8_te_sr", "get_manual_measurement_mode", "is_fp8_available", "is_fp8_enabled", "set_measurement_mode",
]  # fmt: skip


@dataclass
class Current:
    """What is set now. measured: None has each module decide by its recipe whether a run is measured."""

    enabled: bool = False
    recipe: DelayedScaling | None = None
    group: Any = None
    measured: bool | None = None


current = Current()


class fp8_autocast(contextlib.ContextDecorator):
    """Has modules of the transformer engine compute in 8 bits, or not, within a context or a function.

    fp8_recipe: by default `DelayedScaling()`. fp8_group: the ranks whose measures are reduced, by default all.
    force_measurement: whether runs are measured, whatever the recipe says. calibrating is NVIDIA's, and does nothing.
    Raises RuntimeError on a chip without 8-bit floats.
    """

    def __init__(
        self, enabled: bool = False, force_measurement: bool | None = None,
        fp8_recipe: DelayedScaling | None = None, fp8_group: Any = None, calibrating: bool = False,
    ) -> None:  # fmt: skip
        if enabled and not is_fp8_available()[0]:
            raise RuntimeError(
                "Gaudi has no 8-bit floats: the transformer engine needs Gaudi2 or Gaudi3 (HABANA_SIM_CHIP)"
            )
        self.wanted = Current(enabled, fp8_recipe or get_default_fp8_recipe(), fp8_group, force_measurement)
        self.before: list[Current] = []

    def __enter__(self) -> None:
        self.before.append(replace(current))
        force = self.wanted.measured
        _set(replace(self.wanted, measured=current.measured if force is None else force))

    def __exit__(self, *error: Any) -> None:
        measured, before = current.measured, self.before.pop()
        _set(before if self.wanted.measured is not None else replace(before, measured=measured))


def _set(wanted: Current) -> None:
    current.enabled, current.recipe = wanted.enabled, wanted.recipe
    current.group, current.measured = wanted.group, wanted.measured


def is_fp8_available() -> tuple[bool, str]:
    """Whether the chip has 8-bit floats, and what is wrong if not."""
    has = device_type() is not synDeviceType.synDeviceGaudi
    return has, "" if has else "Gaudi has no 8-bit floats"


def is_fp8_enabled() -> bool:
    """Whether modules compute in 8 bits now."""
    return current.enabled


def get_fp8_recipe() -> DelayedScaling:
    """The recipe of the context, or the default."""
    return current.recipe or get_default_fp8_recipe()


def get_fp8_group() -> Any:
    """The ranks whose measures are reduced, None for all."""
    return current.group


def get_default_fp8_recipe() -> DelayedScaling:
    """The recipe without arguments."""
    return DelayedScaling()


def set_measurement_mode(manual: bool, manual_value: bool = True) -> None:
    """manual: whether `manual_value` says if runs are measured; else the recipe of each module does."""
    current.measured = manual_value if manual else None


def get_manual_measurement_mode() -> bool | None:
    """Whether runs are measured; None where recipes decide."""
    return current.measured


def get_fp8_te_sr(fp8_recipe: DelayedScaling, fprop_tensor: bool = True) -> bool:
    """Whether the rounding of a tensor is left to chance: of gradients with the format HYBRID. PT_TE_FORCE_SR_FWD and
    PT_TE_FORCE_SR_BWD say otherwise with 0 or 1."""
    forced = os.environ.get("PT_TE_FORCE_SR_FWD" if fprop_tensor else "PT_TE_FORCE_SR_BWD")
    if forced:
        return forced == "1"
    return not fprop_tensor and fp8_recipe.fp8_format is Format.HYBRID


def _default_sf_compute(amax: torch.Tensor, scale: torch.Tensor, fp8_max: float, margin: int) -> torch.Tensor:
    return power_of_two_scale(amax, scale, fp8_max, margin)


class FP8GlobalStateManager:
    """The functions of this module as methods."""

    is_fp8_available = staticmethod(is_fp8_available)
    is_fp8_enabled = staticmethod(is_fp8_enabled)
    get_fp8_recipe = staticmethod(get_fp8_recipe)
    get_fp8_group = staticmethod(get_fp8_group)
    set_measurement_mode = staticmethod(set_measurement_mode)
    get_manual_measurement_mode = staticmethod(get_manual_measurement_mode)

    @staticmethod
    def get_global_fp8_buffer_checkpoint() -> dict[str, list[torch.Tensor]]:
        """What was measured and not yet reduced over ranks, by the pass and the number of the run."""
        return unreduced.rows()

    @staticmethod
    def reset_global_state() -> None:
        """As when the process began."""
        _set(Current())
        unreduced.waiting.clear()
