"""Leaves this folder out where PyTorch is not installed: `make test-torch` has it, `make test` has not.

TORCH_PART=1/4 takes every fourth test of a run, from the second on: `make test-torch-all` has long ones.
"""

from __future__ import annotations

import pytest

from tests import effort
from tests.torch.child import HAS_TORCH

if not HAS_TORCH:
    collect_ignore_glob = ["*"]


@pytest.hookimpl(trylast=True)  # of what the marks have left
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = effort.part_of(items, "TORCH_PART")
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept
