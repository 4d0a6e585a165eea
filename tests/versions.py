"""What the tests find in their environment, and what they are skipped without."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version

import pytest

KERAS_3 = int(version("keras").split(".")[0]) >= 3

needs_horovod = pytest.mark.skipif(
    importlib.util.find_spec("horovod") is None,
    reason="no Horovod in this environment: 0.28.1 is for TensorFlow 2.15 with Python 3.10 or 3.11 (make horovod)",
)
