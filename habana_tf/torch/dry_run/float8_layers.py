"""The linear layers of a decoder in 8 bits, by the transformer engine, as scripts of Megatron for Gaudi have them: what
they read is measured once a step, and weights are cast with the first micro-batch, or at each call where they are there
for one call only."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch

from habana_tf.torch.dry_run.shared_layers import read_by_parts
from habana_tf.torch.transformer_engine.fp8 import fp8_autocast
from habana_tf.torch.transformer_engine.linear import Linear
from habana_tf.torch.transformer_engine.parallel import Split
from habana_tf.torch.transformer_engine.recipe import DelayedScaling


class Float8Layers:
    """Puts them in the place of a model's. plan: which of them cards share, "colwise" by outputs or "rowwise" by
    inputs, by path; mesh: of those cards; stage: group of the cards with the same layers, which measure together;
    sequence: whether hidden values are parts of the sequence; kept: whether weights in 8 bits stay for the step."""

    def __init__(
        self, model: Any, plan: Mapping[str, str], mesh: Any, stage: Any, sequence: bool, kept: bool
    ) -> None:  # fmt: skip
        self._stage, self._kept = stage, kept
        self._made: list[_Linear] = []
        group, size = mesh.get_group(), mesh.size()
        shared = Split(group, size, "column", sequence)
        hooked: set[str] = set()
        for path, old in list(model.layers.named_modules(prefix="layers")):
            if not isinstance(old, torch.nn.Linear):
                continue
            style = next((style for of, style in plan.items() if fnmatch.fnmatchcase(path, of)), "")
            owner, _, name = path.rpartition(".")
            self._made.append(_Linear(old, style, group, size, sequence))
            setattr(model.get_submodule(owner), name, self._made[-1])
            if style == "colwise" and owner not in hooked:
                hooked.add(owner)
                read_by_parts(model.get_submodule(owner), _turned(shared.before) if sequence else shared.before)

    def step(self, micro_batches: int) -> AbstractContextManager[Any]:
        """For a step of so many micro-batches, forward and backward passes."""
        for each in self._made:
            each.first = True if self._kept else None
        return fp8_autocast(True, fp8_recipe=DelayedScaling(interval=micro_batches), fp8_group=self._stage)


class _Linear(Linear):
    """first: whether its weight is to be cast with the next call and kept, or None for at each call."""

    def __init__(self, old: torch.nn.Linear, style: str, group: Any, size: int, sequence: bool) -> None:
        outputs = old.out_features // size if style == "colwise" else old.out_features
        super().__init__(
            old.in_features, outputs, bias=old.bias is not None, params_dtype=old.weight.dtype, device="meta",
            tp_group=group, tp_size=size, parallel_mode="row" if style == "rowwise" else None,
            sequence_parallel=sequence,
        )  # fmt: skip
        if style == "colwise":  # of parts that are gathered already
            for parameter in self.parameters():
                parameter.tensor_model_parallel = True
        self.requires_grad_(old.weight.requires_grad)
        self.first: bool | None = True
        self._turned = sequence and style == "rowwise"

    def forward(self, x: torch.Tensor) -> Any:  # type: ignore[override]
        first, self.first = self.first, None if self.first is None else False
        made = functools.partial(super().forward, is_first_microbatch=first)
        return _turned(made)(x) if self._turned else made(x)


def _turned(call: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of the engine, which has tokens before sequences, for tensors that have sequences first."""
    return lambda x: call(x.transpose(0, 1)).transpose(0, 1)
