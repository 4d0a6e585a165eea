"""What modules that compute in 8 bits have in common: their scales, when those change, and their state."""

from __future__ import annotations

import copy
from collections import deque
from dataclasses import dataclass
from typing import Any

import torch

from habana_tf.torch.transformer_engine import distributed, fp8
from habana_tf.torch.transformer_engine.recipe import DelayedScaling, Kinds
from habana_tf.torch.transformer_engine.scaling import FP8TensorMeta, unreduced

_FORWARD, _HYBRID, _BACKWARD = "scaling_fwd", "scaling_hybrid", "scaling_bwd"


@dataclass
class Run:
    """One forward pass and its backward pass. hybrid: the scales of what is kept for the backward pass, in its type,
    which are those of `forward` where the types are the same. chance: whether gradients are rounded by chance. number:
    the module's run."""

    recipe: DelayedScaling
    forward: FP8TensorMeta
    hybrid: FP8TensorMeta
    backward: FP8TensorMeta
    measured: bool
    chance: bool
    number: int

    @property
    def kinds(self) -> Kinds:
        """The types of the format."""
        return self.recipe.fp8_format.value

    def measure(self, meta: FP8TensorMeta, amaxes: list[torch.Tensor], group: Any) -> None:
        """Keeps the largest sizes of a meta's tensors, if this run is measured."""
        if self.measured:
            unreduced.reduce_before([meta])
            meta.push(torch.stack(amaxes))
            if self.recipe.reduce_amax:
                name = "BWD_AMAX" if meta is self.backward else "FWD_AMAX"
                unreduced.add(f"{name}_{self.number}", meta, group)


class Scaled(torch.nn.Module):
    """A module that casts tensors to 8 bits: `forwards` of them in a forward pass, `backwards` in a backward pass.

    Scales change, and tensors are measured, in training only. A forward pass that is repeated for its gradients
    measures nothing, and casts as the one that it repeats: see `distributed`.
    """

    def __init__(self, forwards: int, backwards: int) -> None:
        super().__init__()
        self.fp8_meta: dict[str, Any] = {}
        self.run_cnt = 0
        self._counts = {_FORWARD: forwards, _HYBRID: forwards, _BACKWARD: backwards}
        self._measured = False
        self._repeated: deque[tuple[FP8TensorMeta, FP8TensorMeta]] = deque()

    def get_amax_measure_state(self) -> dict[str, bool]:
        """Whether the present run is measured, and whether by the recipe or by `fp8.set_measurement_mode`."""
        by_hand = fp8.get_manual_measurement_mode()
        recipe: DelayedScaling = self.fp8_meta["recipe"]
        last = (self.run_cnt - 1) % recipe.interval >= recipe.interval - recipe.amax_history_len
        now = last if by_hand is None else by_hand
        return {"manual": by_hand is not None, "fwd_enabled": now, "bwd_enabled": now}

    def begin(self, device: torch.device) -> Run:
        """The run that begins now, with its scales."""
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
            return self._begun(fp8.get_fp8_recipe(), device)

    def _begun(self, recipe: DelayedScaling, device: torch.device) -> Run:
        self._start(recipe, device)
        forward, hybrid, backward = (self.fp8_meta[name] for name in (_FORWARD, _HYBRID, _BACKWARD))
        measured = False
        again = distributed.in_fp8_activation_recompute_phase()
        if again and self._repeated:
            forward, hybrid = self._repeated.popleft()
        elif self.training and not again:
            self.run_cnt += 1
            measured = self.get_amax_measure_state()["fwd_enabled"]
            self._rescale(recipe, measured)
            if distributed.is_fp8_activation_recompute_enabled():
                self._repeated.append((copy.copy(forward).keep(), copy.copy(hybrid).keep()))
        same = recipe.fp8_format.value.forward == recipe.fp8_format.value.backward
        chance = fp8.get_fp8_te_sr(recipe, False)
        return Run(recipe, forward, forward if same else hybrid, backward, measured, chance, self.run_cnt)

    def _rescale(self, recipe: DelayedScaling, measured: bool) -> None:
        """Computes scales before a run, where they are due: at an interval's end, or after a run that was measured by
        hand."""
        by_hand = fp8.get_manual_measurement_mode() is not None
        due = self._measured if by_hand else self.run_cnt % recipe.interval == 1 % recipe.interval
        self._measured = measured
        metas = [self.fp8_meta[name] for name in (_FORWARD, _HYBRID, _BACKWARD)]
        if due:
            unreduced.reduce_before(metas)
            kinds = recipe.fp8_format.value
            for meta, largest in zip(metas, (kinds.max_fwd, kinds.max_bwd, kinds.max_bwd), strict=True):
                meta.update(recipe, largest)

    def _start(self, recipe: DelayedScaling, device: torch.device) -> None:
        """Has scales on a device, with a history as long as the recipe's. That of `hybrid` is that of `forward`."""
        self.fp8_meta["recipe"] = recipe
        for name, count in self._counts.items():
            if name not in self.fp8_meta:
                self.fp8_meta[name] = FP8TensorMeta().start(count, recipe.amax_history_len, device)
            self.fp8_meta[name].move(device)
            self.fp8_meta[name].resize(recipe.amax_history_len)
        self.fp8_meta[_HYBRID].amax_history = self.fp8_meta[_FORWARD].amax_history

    def save_fp8_meta(self) -> dict[str, Any]:
        """A copy of what was measured, and of the scales, for `load_fp8_meta`."""
        return {name: {k: t.clone() for k, t in self.fp8_meta[name].tensors().items()} for name in self._started()}

    @torch.no_grad()
    def load_fp8_meta(self, fp8_meta: dict[str, Any]) -> None:
        """Takes them back, in place: recorded graphs read these tensors."""
        for name, tensors in fp8_meta.items():
            self.fp8_meta[name].load(tensors)

    def _started(self) -> list[str]:
        return [name for name in self._counts if name in self.fp8_meta]

    def get_extra_state(self) -> dict[str, Any] | None:
        """Scales and measures, on the CPU; None before the first run in 8 bits."""
        if not self._started():
            return None
        state: dict[str, Any] = {"extra_fp8_variables": {"run_cnt": self.run_cnt, "measured": self._measured}}
        for name in self._started():
            for kind, tensor in self.fp8_meta[name].tensors().items():
                state[f"{kind}_{name.removeprefix('scaling_')}"] = tensor.detach().cpu()
        return state

    @torch.no_grad()
    def set_extra_state(self, state: dict[str, Any] | None) -> None:
        """Takes what `get_extra_state` gave."""
        if state is None or state == {}:
            return
        if not isinstance(state, dict) or "extra_fp8_variables" not in state:
            raise RuntimeError(
                "the extra state is none that this module gave, but another transformer engine: load the rest without "
                "it (state_dict.pop('.._extra_state'))"
            )
        self.run_cnt = state["extra_fp8_variables"]["run_cnt"]
        self._measured = state["extra_fp8_variables"]["measured"]
        device = next((p.device for p in self.parameters()), torch.device("hpu"))
        for name, count in self._counts.items():
            suffix = name.removeprefix("scaling_")
            tensors = {kind: state[f"{kind}_{suffix}"] for kind in ("scale", "scale_inv", "amax_history")}
            if name not in self.fp8_meta:
                self.fp8_meta[name] = FP8TensorMeta().start(count, len(tensors["amax_history"]), device)
            self.fp8_meta[name].load(tensors)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """As of any module. A checkpoint may have no scales: one of torch.nn.Linear has none."""
        super()._load_from_state_dict(state_dict, prefix, *args)
        missing = args[2]
        if f"{prefix}_extra_state" in missing:
            missing.remove(f"{prefix}_extra_state")
