"""What each layer of Keras is run on: its arguments and the shapes of its inputs.

A step is a call in training and the gradients for the inputs and the weights. What is differentiated is the sum of
the cubes of the outputs: with their sum or the sum of their squares, the gradients through normalizations would be 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.keras_coverage.public import classes
from tests.versions import KERAS_3

L = tf.keras.layers

FLAT, SEQUENCE, IMAGE, VOLUME = (3, 6), (2, 5, 4), (2, 6, 6, 4), (2, 4, 4, 4, 3)
RGB = (2, 8, 8, 3)
BY_SUFFIX = {"1D": SEQUENCE, "2D": IMAGE, "3D": VOLUME}

NO_LAYER = {
    **dict.fromkeys(["AbstractRNNCell", "Layer", "Wrapper", "InputLayer", "Lambda"], "computes nothing of its own"),
    **dict.fromkeys(
        ["FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"], "runs a model of another framework or file"
    ),
    **dict.fromkeys(
        ["HashedCrossing", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization"],
        "looks up in tables of the host",
    ),
    **dict.fromkeys(
        ["add", "average", "concatenate", "dot", "maximum", "minimum", "multiply", "subtract"], "calls the layer"
    ),
    **dict.fromkeys(["Input", "InputSpec"], "describes a tensor"),
    "DenseFeatures": "takes feature columns, which look up in tables of the host",
    "Pipeline": "calls other layers",
    "MaxNumBoundingBoxes": "takes dictionaries of bounding boxes",
}

WINDOW = {"pool_size": 2}
FILTERS = {"filters": 3, "kernel_size": 2}
FACTOR = {"factor": 0.4}
KINDS = ("Convolution", "SeparableConvolution", "LocallyConnected")

ARGUMENTS: dict[str, dict[str, Any]] = {
    "Activation": {"activation": "tanh"},
    "ActivityRegularization": {"l1": 0.1, "l2": 0.1},
    "AlphaDropout": {"rate": 0.4},
    "AugMix": {"num_chains": 1, "chain_depth": 1},
    "CategoryEncoding": {"num_tokens": 6, "output_mode": "count"},
    "CenterCrop": {"height": 4, "width": 5},
    "Dense": {"units": 4},
    "DepthwiseConv1D": {"kernel_size": 2},
    "DepthwiseConv2D": {"kernel_size": 2},
    "Discretization": {"bin_boundaries": [-1.0, 0.0, 0.5]},
    "Dot": {"axes": 1},
    "Dropout": {"rate": 0.4},
    "EinsumDense": {"equation": "abc,cd->abd", "output_shape": (None, 3), "bias_axes": "d"},
    "Embedding": {"input_dim": 6, "output_dim": 3},
    "GaussianDropout": {"rate": 0.4},
    "GaussianNoise": {"stddev": 0.4},
    "GroupNormalization": {"groups": 2},
    "GroupQueryAttention": {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2},
    "MultiHeadAttention": {"num_heads": 2, "key_dim": 3},
    "Permute": {"dims": (2, 1)},
    "RandomFourierFeatures": {"output_dim": 4, "trainable": True},
    "RepeatVector": {"n": 3},
    "Rescaling": {"scale": 0.5, "offset": 1.0},
    "Reshape": {"target_shape": (2, 3)},
    "ReversibleEmbedding": {"input_dim": 6, "output_dim": 3},
    "Resizing": {"height": 5, "width": 9},
    "SpatialDropout1D": {"rate": 0.4},
    "SpatialDropout2D": {"rate": 0.4},
    "SpatialDropout3D": {"rate": 0.4},
    "STFTSpectrogram": {"frame_length": 8, "frame_step": 4, "fft_length": 8},
    "MelSpectrogram": {"fft_length": 8, "sequence_stride": 4, "num_mel_bins": 4},
    **{name: {"units": 3} for name in ("GRU", "LSTM", "SimpleRNN", "GRUCell", "LSTMCell", "SimpleRNNCell")},
    **{f"ConvLSTM{d}": FILTERS for d in BY_SUFFIX},
    **{f"{kind}{d}": FILTERS for d in BY_SUFFIX for kind in KINDS},
    **{f"Convolution{d}Transpose": FILTERS for d in BY_SUFFIX},
    **{f"{kind}Pooling{d}": WINDOW for d in BY_SUFFIX for kind in ("Average", "Max")},
    **{f"Adaptive{kind}Pooling{d}": {"output_size": 2} for d in BY_SUFFIX for kind in ("Average", "Max")},
    **dict.fromkeys(["RandomBrightness", "RandomContrast", "RandomRotation", "RandomHue", "RandomColorDegeneration",
                     "RandomHeight", "RandomWidth", "RandomSaturation", "RandomSharpness", "RandomGrayscale",
                     "RandomInvert"], FACTOR),
    "RandAugment": {"num_ops": 1},
    "RandomCrop": {"height": 4, "width": 5},
    "RandomPosterization": {"factor": [2, 6]},
    "RandomTranslation": {"height_factor": 0.3, "width_factor": 0.2},
    "RandomZoom": {"height_factor": 0.3},
}  # fmt: skip
MAKERS: dict[str, Callable[[], Any]] = {
    "Bidirectional": lambda: L.Bidirectional(L.LSTM(3)),
    "RNN": lambda: L.RNN(L.SimpleRNNCell(3)),
    "SpectralNormalization": lambda: L.SpectralNormalization(L.Dense(3)),
    "StackedRNNCells": lambda: L.RNN(L.StackedRNNCells([L.LSTMCell(3), L.GRUCell(2)])),
    "TimeDistributed": lambda: L.TimeDistributed(L.Dense(3)),
    **{name: lambda name=name: L.RNN(getattr(L, name)(3), return_sequences=True)
       for name in ("GRUCell", "LSTMCell", "SimpleRNNCell")},
}  # fmt: skip

NO_GRAPH = set() if KERAS_3 else {"layers/SpectralNormalization"}
"""Cases that Keras 2 itself can train only eagerly: it asks a Python `if` about a tensor, out of AutoGraph's sight."""

NO_GRADIENT = {"RandomContrast"}
"""TensorFlow has none for AdjustContrastv2."""

TWO = ["Add", "Average", "Concatenate", "Maximum", "Minimum", "Multiply", "Subtract", "Dot"]
CELLS = ("GRUCell", "LSTMCell", "SimpleRNNCell")
_BY_SHAPE: dict[tuple[tuple[int, ...], ...], tuple[str, ...]] = {
    (FLAT, FLAT): tuple(TWO),
    (SEQUENCE, (2, 3, 4)): ("Attention", "AdditiveAttention", "MultiHeadAttention", "GroupQueryAttention"),
    (SEQUENCE,): ("Bidirectional", "GRU", "LSTM", "SimpleRNN", "RNN", "StackedRNNCells", "TimeDistributed",
                  "EinsumDense", "Masking", "Permute", *CELLS),
    (FLAT,): ("RandomFourierFeatures",),
    (IMAGE,): ("BatchNormalization", "CenterCrop", "GroupNormalization", "LayerNormalization",
               "SyncBatchNormalization"),
    ((2, 3, 5, 2),): ("ConvLSTM1D",),
    ((2, 3, 4, 4, 2),): ("ConvLSTM2D",),
    ((2, 2, 3, 3, 3, 2),): ("ConvLSTM3D",),
    ((2, 32),): ("MelSpectrogram",),
    ((2, 32, 2),): ("STFTSpectrogram",),
    (RGB,): ("AugMix", "AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization", "CutMix", "Equalization",
             "MixUp", "RandAugment", "Resizing", "Solarization"),
}  # fmt: skip
SHAPES = {name: list(shapes) for shapes, names in _BY_SHAPE.items() for name in names}
INTEGERS = {"Embedding", "CategoryEncoding", "ReversibleEmbedding"}
SEVERAL = {"Attention", "AdditiveAttention", *TWO}
"""Layers that take their inputs as one list."""


def tables() -> dict[str, dict[str, Callable[[], Callable[[], Any]]]]:
    """Cases of the layers of networks, and of those that change images."""
    cases = {name: _case(name, cls) for name, cls in _layers().items() if name not in NO_LAYER}
    images = {name for name in cases if _shapes(name) == [RGB]}
    return {
        "layers": {name: case for name, case in cases.items() if name not in images},
        "image layers": {name: case for name, case in cases.items() if name in images},
    }


def _layers() -> dict[str, type]:
    experimental = classes(L.experimental, L.Layer) if hasattr(L, "experimental") else {}
    return {**experimental, **classes(L, L.Layer)}


def _shapes(name: str) -> list[tuple[int, ...]]:
    if name in SHAPES:
        return SHAPES[name]
    if name.startswith("Random"):
        return [RGB]
    return next(([shape] for suffix, shape in BY_SUFFIX.items() if suffix in name), [FLAT])


def _inputs(name: str) -> list[Any]:
    rng = np.random.default_rng(11)
    if name in INTEGERS:
        return [rng.integers(0, 6, (3, 4)).astype(np.int32)]
    if _shapes(name) == [RGB]:
        return [rng.uniform(0, 255, RGB).astype(np.float32)]
    return [rng.uniform(-2, 2, shape).astype(np.float32) for shape in _shapes(name)]


def _case(name: str, cls: Any) -> Callable[[], Callable[[], Any]]:
    def prepare() -> Callable[[], Any]:
        layer = MAKERS[name]() if name in MAKERS else cls(**ARGUMENTS.get(name, {}))
        inputs = [tf.constant(x) for x in _inputs(name)]

        def call(*xs: Any) -> Any:
            arguments: Any = [list(xs)] if name in SEVERAL else xs
            return layer(*arguments, training=True) if layer_takes_training else layer(*arguments)

        layer_takes_training = "training" in _parameters(layer)
        call(*inputs)

        def step() -> Any:
            with tf.GradientTape() as tape:
                tape.watch([x for x in inputs if x.dtype.is_floating])
                y = call(*inputs)
                parts = [t for t in tf.nest.flatten(y) if t.dtype.is_floating]
                total = tf.add_n([tf.reduce_sum(t * t * t) for t in parts]) if parts else None
            wanted = [*(x for x in inputs if x.dtype.is_floating), *layer.trainable_variables]
            gradients = tape.gradient(total, wanted) if parts and wanted and name not in NO_GRADIENT else []
            state = [tf.convert_to_tensor(v) for v in layer.non_trainable_variables]
            return y, [g for g in gradients if g is not None], [s for s in state if s.dtype.is_floating]

        return step

    return prepare


def _parameters(layer: Any) -> set[str]:
    import inspect

    return set(inspect.signature(layer.call).parameters)
