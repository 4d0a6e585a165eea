"""What the tests find in their environment, and what several of them are skipped without."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

KERAS_3 = int(version("keras").split(".")[0]) >= 3

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs the right to change owners and groups")
examples_run = pytest.mark.skipif(KERAS_3, reason="the examples are written for Keras 2, as their originals")
workers_fit = pytest.mark.skipif(KERAS_3, reason="Keras 3 cannot fit with several workers")

needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None,
    reason="no Horovod in this environment: 0.28.1 is for TensorFlow 2.15 with Python 3.10 or 3.11 (make horovod)",
)

GARDEN = Path(sys.prefix) / "garden"
"""Where `make garden` puts TensorFlow's Model Garden: to be put before a child's PYTHONPATH."""
needs_garden = pytest.mark.skipif(
    not (GARDEN / "official").is_dir(), reason="no Model Garden in this environment: make garden"
)
