"""Fills new memory where `torch.use_deterministic_algorithms(True)` asks for it, with NaN, the greatest integer, or
True: a program that reads what it never wrote then does the same each time."""

from __future__ import annotations

import torch


def filled(t: torch.Tensor) -> torch.Tensor:
    """A new tensor, filled if that is asked for."""
    if torch._C._get_deterministic_algorithms() and torch._C._get_deterministic_fill_uninitialized_memory():
        if t.is_floating_point() or t.is_complex():
            t.fill_(torch.nan)
        else:
            t.fill_(True if t.dtype is torch.bool else torch.iinfo(t.dtype).max)
    return t
