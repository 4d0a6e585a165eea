"""What a module has measured of the tensors that it casts to 8 bits, and the scales that follow.

A run of a module casts by scales of earlier runs. When it is measured, the largest sizes of its tensors become the
newest row of a history, from which scales are computed before a later run. All of it is tensors of the device, changed
in place and never read by the host: a recorded program measures and scales anew each time it runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from habana_tf.torch.transformer_engine.recipe import DelayedScaling

_SMALLEST, _LARGEST = 2.0**-126, 2.0**126


def power_of_two_scale(amax: torch.Tensor, scale: torch.Tensor, largest: float, margin: int) -> torch.Tensor:
    """2 ** (floor(log2(largest / amax)) - margin), within what float32 has an inverse of; `scale` where amax is 0 or
    not finite."""
    ratio = largest / amax.clamp(min=largest * _SMALLEST)  # no infinity, which one would look for
    wanted = torch.ops.hpu.power_of_two(ratio)
    if margin:
        wanted = (wanted * 2.0**-margin).clamp(_SMALLEST, _LARGEST)
    return torch.where((amax > 0) & (amax < math.inf), wanted, scale)


class FP8TensorMeta:
    """Of some tensors: scale and scale_inv, [tensors], and amax_history, [runs, tensors], whose first row is the
    newest."""

    scale: torch.Tensor
    scale_inv: torch.Tensor
    amax_history: torch.Tensor

    def start(self, tensors: int, runs: int, device: torch.device) -> FP8TensorMeta:
        """Scales of 1, and a history without measures."""
        self.scale, self.scale_inv = (torch.ones(tensors, device=device) for _ in range(2))
        self.amax_history = torch.zeros(runs, tensors, device=device)
        return self

    def move(self, device: torch.device) -> None:
        """Has all of it on a device."""
        if self.scale.device != device:
            for name, tensor in self.tensors().items():
                setattr(self, name, tensor.to(device))

    def keep(self) -> FP8TensorMeta:
        """Itself, with scales that no later update changes."""
        self.scale, self.scale_inv = self.scale.clone(), self.scale_inv.clone()
        return self

    def resize(self, runs: int) -> None:
        """Has the history keep the newest runs, more or less of them."""
        kept, tensors = self.amax_history.shape
        if kept != runs:
            more = self.amax_history.new_zeros(max(runs - kept, 0), tensors)
            self.amax_history = torch.cat([self.amax_history[:runs], more])

    def push(self, amaxes: torch.Tensor) -> None:
        """Adds a row."""
        row = amaxes.float().reshape(1, -1)
        self.amax_history.copy_(torch.cat([row, self.amax_history[:-1]]))

    def update(self, recipe: DelayedScaling, largest: float) -> None:
        """Computes scales from the history."""
        history, choose = self.amax_history, recipe.amax_compute_algo
        amax = choose(history) if callable(choose) else history.amax(0) if choose == "max" else history[0]
        if recipe.scaling_factor_compute_algo is not None:
            scale = recipe.scaling_factor_compute_algo(amax, self.scale, largest, recipe)
        else:
            scale = power_of_two_scale(amax, self.scale, largest, recipe.margin)
        self.scale.copy_(scale)
        self.scale_inv.copy_(scale.reciprocal())

    def tensors(self) -> dict[str, torch.Tensor]:
        """By name, as they are."""
        return {name: getattr(self, name) for name in ("scale", "scale_inv", "amax_history")}

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Takes the values of others, in place where sizes allow: recorded programs read these."""
        if len(tensors["scale"]) != len(self.scale):
            raise RuntimeError(
                f"scales of {len(tensors['scale'])} tensors are another kind of layer's: this one has {len(self.scale)}"
            )
        self.resize(tensors["amax_history"].shape[0])
        for name, tensor in tensors.items():
            getattr(self, name).copy_(tensor)


class Unreduced:
    """Newest rows that are not yet the largest of all ranks.

    They are reduced together, by one collective, when the first of them is about to be read or moved on: in the next
    step, by the module that runs first. All ranks run the same modules in the same order, so they agree on when.
    """

    def __init__(self) -> None:
        self.waiting: list[tuple[str, FP8TensorMeta]] = []
        self.group: Any = None

    def add(self, name: str, meta: FP8TensorMeta, group: Any) -> None:
        """A row that was measured. name: by which it is among `rows`."""
        if self.waiting and group is not self.group:
            self.reduce()
        self.waiting.append((name, meta))
        self.group = group

    def rows(self) -> dict[str, list[torch.Tensor]]:
        """The rows of each name."""
        found: dict[str, list[torch.Tensor]] = {}
        for name, meta in self.waiting:
            found.setdefault(name, []).append(meta.amax_history[0])
        return found

    def reduce_before(self, metas: Iterable[FP8TensorMeta]) -> None:
        """Reduces all if one of these is among them."""
        if any(meta is waits for meta in metas for _, waits in self.waiting):
            self.reduce()

    def reduce(self) -> None:
        """Reduces all now, if there is another rank in the group."""
        metas = [meta for _, meta in self.waiting]
        self.waiting = []
        if not (dist.is_available() and dist.is_initialized() and dist.get_world_size(self.group) > 1):
            return
        rows = torch.cat([meta.amax_history[0] for meta in metas])
        dist.all_reduce(rows, dist.ReduceOp.MAX, self.group)
        for meta, row in zip(metas, rows.split([meta.scale.numel() for meta in metas]), strict=True):
            meta.amax_history[0].copy_(row)


unreduced = Unreduced()
