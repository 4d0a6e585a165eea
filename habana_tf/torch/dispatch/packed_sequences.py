"""LSTM and GRU of packed sequences, which differ in length: they are padded and go through the same layers.

The steps behind a sequence's end are computed, and their results are not read. For a layer that walks backwards each
sequence is reversed within its length, so that the layer can walk forwards. The indices for that are computed on the
host, so that sequences of other lengths need no other program.

    packed rows    a0 b0 c0 a1 b1 a2           of sequences a, b, c of 3, 2, 1 steps
    padded         a0 a1 a2 | b0 b1 b1 | c0 c0 c0
    turned round   a2 a1 a0 | b1 b0 b0 | c0 c0 c0
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from habana_tf.torch.dispatch.recurrent import CELLS, OneLayer, States, layers, one_layer, states_of, taken


@dataclass(frozen=True)
class Places:
    """Indices between packed sequences and padded ones, [steps, sequences]. lengths: of the sequences. there: which
    places of the padded ones are steps of a sequence. forwards: for each place of the padded ones the row of the packed
    ones, behind the end of a sequence its last row."""

    lengths: Tensor
    there: Tensor
    forwards: Tensor

    @classmethod
    def of(cls, counts: Tensor) -> Places:
        """counts: int64 of the CPU, how many sequences have each step."""
        step, sequence = torch.arange(len(counts), device="cpu")[:, None], torch.arange(int(counts[0]), device="cpu")
        lengths = (counts[:, None] > sequence).sum(0)
        starts = counts.cumsum(0) - counts
        return cls(lengths, step < lengths, starts[torch.minimum(step, lengths - 1)] + sequence)

    def turned(self) -> Tensor:
        """For each place of the padded sequences, the place that it has when each sequence is reversed within its
        length."""
        steps, batch = self.there.shape
        step, sequence = torch.arange(steps, device="cpu")[:, None], torch.arange(batch, device="cpu")
        return (self.lengths - 1 - step).clamp(min=0) * batch + sequence


class Packed:
    """How packed sequences go through a layer. shape: steps and sequences. ends: where the last steps are in the padded
    ones. rows: for each direction, the rows of the packed ones from which the padded ones are made. back: for each
    direction, the places of the padded ones from which the packed ones are made again."""

    def __init__(self, layer: OneLayer, counts: Tensor, device: torch.device) -> None:
        self.layer = layer
        places = Places.of(counts)
        _, batch = self.shape = tuple(places.there.shape)
        turned = places.turned()
        self.ends = ((places.lengths - 1) * batch + torch.arange(batch, device="cpu")).to(device)
        straight = torch.arange(turned.numel(), device="cpu").reshape(self.shape)
        forwards = places.forwards.flatten()
        self.rows = [forwards.to(device), forwards[turned.flatten()].to(device)]
        self.back = [each[places.there].to(device) for each in (straight, turned)]

    @classmethod
    def of(cls, layer: OneLayer, x: Tensor, batch_sizes: Tensor, hx: Tensor) -> Packed | None:
        """None for what is no packed sequence with these states."""
        counts = batch_sizes
        if x.dim() != 2 or counts.device.type != "cpu" or counts.dim() != 1 or not counts.numel():
            return None
        falling = _falling(counts)
        whole = int(counts.sum()) == x.shape[0] and hx.dim() == 3 and hx.shape[1] == int(counts[0])
        return cls(layer, counts, x.device) if falling and whole else None

    def __call__(self, y: Tensor, weights: Sequence[Tensor], k: int, reverse: bool) -> tuple[Tensor, list[Tensor]]:
        """h of all steps, packed, and each state as it is in the end."""
        padded = y.index_select(0, self.rows[reverse]).unflatten(0, self.shape)
        states = [state.flatten(0, 1) for state in self.layer(padded, weights, k, False)]
        return states[0].index_select(0, self.back[reverse]), [state.index_select(0, self.ends) for state in states]


def packed(
    name: str, x: Tensor, batch_sizes: Tensor, hx: Tensor | States, params: Sequence[Tensor], *options: Any
) -> tuple[Tensor, ...]:  # fmt: skip
    """`torch.lstm` or `torch.gru` of a packed sequence. batch_sizes: int64 of the CPU, how many sequences have each
    step."""
    states = states_of(hx)
    through = Packed.of(one_layer(name, states), x, batch_sizes, states[0])
    if through is None or not taken(x[None], states, params, *options):
        overload = getattr(torch.ops.aten, name).data
        decomposed: tuple[Tensor, ...] = overload.decompose(x, batch_sizes, hx, params, *options)
        return decomposed
    return layers(through, states, x, params, *options)


def pack(x: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """`torch._pack_padded_sequence`: the steps of padded sequences as rows, and how many sequences have each step."""
    y = x.transpose(0, 1) if batch_first else x
    known = lengths.device.type == "cpu" and lengths.dtype is torch.int64 and lengths.dim() == 1 and x.dim() > 1
    if not known or not x.numel() or lengths.shape[0] != y.shape[1] or not _falling(lengths) or lengths[0] > y.shape[0]:
        composite = torch._C.DispatchKey.CompositeExplicitAutograd
        made: tuple[Tensor, Tensor] = torch.ops.aten._pack_padded_sequence.default._op_dk(
            composite, x, lengths, batch_first
        )
        return made
    there = torch.arange(int(lengths[0]), device="cpu")[:, None] < lengths
    places = torch.arange(there.numel(), device="cpu").reshape(there.shape)[there]
    return y.flatten(0, 1).index_select(0, places.to(x.device)), there.sum(1)


def pad(
    x: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Tensor, Tensor]:
    """`torch._pad_packed_sequence`: padded sequences, and their lengths."""
    counts = batch_sizes
    known = counts.device.type == "cpu" and counts.dtype is torch.int64 and counts.dim() == 1 and counts.numel() > 0
    if not known or not _falling(counts) or not x.numel() or 0 < total_length < len(counts):
        made: tuple[Tensor, Tensor] = torch.ops.aten._pad_packed_sequence.default.decompose(
            x, batch_sizes, batch_first, padding_value, total_length
        )
        return made
    places = Places.of(counts)
    more = max(total_length - len(counts), 0)
    rows = functional.pad(places.forwards.where(places.there, x.shape[0]), (0, 0, 0, more), value=x.shape[0])
    wide = torch.cat([x, x.new_full((1, *x.shape[1:]), padding_value)])
    padded = wide.index_select(0, rows.flatten().to(x.device)).unflatten(0, rows.shape)
    return padded.transpose(0, 1) if batch_first else padded, places.lengths


def _falling(counts: Tensor) -> bool:
    return bool((counts[1:] <= counts[:-1]).all()) and int(counts[-1]) > 0


def register() -> torch.library.Library:
    """Gives the device LSTM and GRU of packed sequences, and what packs and pads them."""
    aten = torch.library.Library("aten", "IMPL")
    for key in ("AutogradPrivateUse1", "PrivateUse1"):
        for name in CELLS:
            aten.impl(f"{name}.data", functools.partial(packed, name), key)
        aten.impl("_pack_padded_sequence", pack, key)
        aten.impl("_pad_packed_sequence", pad, key)
    return aten
