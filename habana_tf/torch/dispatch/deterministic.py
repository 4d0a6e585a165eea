"""Memory that is filled where it is made, as `torch.use_deterministic_algorithms(True)` wants it: NaN, the greatest
integer, or True, so that a program which reads what it never wrote does so in the same way each time."""

from __future__ import annotations

import torch


def filled(t: torch.Tensor) -> torch.Tensor:
    """A new tensor, filled where that is asked for."""
    if torch._C._get_deterministic_algorithms() and torch._C._get_deterministic_fill_uninitialized_memory():
        if t.is_floating_point() or t.is_complex():
            t.fill_(torch.nan)
        else:
            t.fill_(True if t.dtype is torch.bool else torch.iinfo(t.dtype).max)
    return t
