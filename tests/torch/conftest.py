"""Leaves this folder out where PyTorch is not installed: `make test-torch` has it, `make test` has not."""

import importlib.util

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]
