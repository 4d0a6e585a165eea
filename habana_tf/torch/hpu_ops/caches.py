"""Keys and values that are kept while beams are searched."""

from __future__ import annotations

import torch

from habana_tf.torch.hpu_ops.op import op

_BEAMS = 4
"""Beams of a sequence, each of which two bits of a byte name."""


@op("kv_reorder(Tensor self, Tensor start, Tensor end, Tensor beam_idx) -> Tensor")
def kv_reorder(self: torch.Tensor, start: torch.Tensor, end: torch.Tensor, beam_idx: torch.Tensor) -> torch.Tensor:
    """self [sequences, 4 beams, .., positions, size] with each beam's positions from start to end, of its sequence,
    taken from the beam that beam_idx [sequences] names: four of two bits in a uint8, that of the first beam highest."""
    if self.dim() < 4 or self.shape[1] != _BEAMS:
        raise RuntimeError(f"kv_reorder: self is [sequences, {_BEAMS} beams, .., positions, size], not {[*self.shape]}")
    rest = self.dim() - 1
    places = torch.arange(2 * (_BEAMS - 1), -1, -2, dtype=torch.int32, device=self.device)
    beams = (beam_idx.to(torch.int32).unsqueeze(-1) >> places) & (_BEAMS - 1)
    index = beams.long().reshape(-1, _BEAMS, *[1] * (rest - 1)).expand(self.shape)
    positions = torch.arange(self.shape[-2], device=self.device).unsqueeze(-1)
    first, last = (t.reshape(-1, *[1] * rest) for t in (start, end))
    return torch.where((positions >= first) & (positions < last), torch.gather(self, 1, index), self)


@op("kv_reorder_(Tensor(a!) self, Tensor start, Tensor end, Tensor beam_idx) -> Tensor(a!)")
def kv_reorder_in_place(
    self: torch.Tensor, start: torch.Tensor, end: torch.Tensor, beam_idx: torch.Tensor
) -> torch.Tensor:
    """As `kv_reorder`."""
    return self.copy_(kv_reorder(self, start, end, beam_idx))


@op("in_place_interleave(Tensor self) -> Tensor")
def interleave(self: torch.Tensor) -> torch.Tensor:
    """The rows of the first quarter of self, each four times."""
    return self[: self.shape[0] // _BEAMS].repeat_interleave(_BEAMS, 0)


@op("in_place_interleave_(Tensor(a!) self) -> Tensor(a!)")
def interleave_in_place(self: torch.Tensor) -> torch.Tensor:
    """As `interleave`."""
    return self.copy_(interleave(self))
