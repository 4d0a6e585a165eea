"""A pipeline of the card's media engine cannot run here, and says so."""

from __future__ import annotations

import pytest

from habana_frameworks.tensorflow.media.habana_dataset import HabanaDataset
from habana_frameworks.tensorflow.py_synapse_logger import NotSimulated


def test_a_media_pipeline_is_an_error() -> None:
    with pytest.raises(NotSimulated, match=r"tf\.data"):
        HabanaDataset(output_shapes=[(8,)], output_types=["float32"], pipeline=None)
