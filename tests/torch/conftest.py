"""Leaves this folder out where PyTorch is not installed: `make test-torch` has it, `make test` has not."""

from __future__ import annotations

from tests.torch.child import HAS_TORCH

if not HAS_TORCH:
    collect_ignore_glob = ["*"]
