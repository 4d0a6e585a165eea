"""`HabanaDataset`: a dataset fed by a pipeline on the card.

Habana's: gave TensorFlow the output of a pipeline that ran on the media engine of a Gaudi2.
Here: that engine is not simulated, so that making one is an error that says what to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from habana_frameworks.tensorflow.py_synapse_logger import NotSimulated

__all__ = ["HabanaDataset"]


class HabanaDataset:
    """Cannot be made here; the error says what to use."""

    def __new__(cls, output_shapes: Sequence[Any], output_types: Sequence[Any], pipeline: Any) -> NoReturn:
        raise NotSimulated(
            "HabanaDataset runs its pipeline on the media engine of a Gaudi2, which is not simulated: read the files "
            "with tf.data (tf.io.decode_jpeg, tf.image.resize), on a first-generation Gaudi scripts do the same"
        )
