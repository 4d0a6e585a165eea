"""Scripts written for Gaudi find every name where they know it, and nothing else looks installed."""

from __future__ import annotations

import pytest

from tests.child import python

NAMES = """
    import importlib.util, sys
    import habana_frameworks
    assert getattr(habana_frameworks, "__file__", None) is None
    assert importlib.util.find_spec("habana_frameworks.torch") is None
    import habana_frameworks.tensorflow as htf
    import habana_tf
    assert htf.__version__ == habana_tf.__version__
    from habana_frameworks.tensorflow import habana_device, habana_ops, load_habana_module, sysconfig
    from habana_frameworks.tensorflow.distribute import HPUStrategy
    from habana_frameworks.tensorflow.multinode_helpers import comm_local_rank, comm_local_size, comm_rank, comm_size
    from habana_frameworks.tensorflow.synapse_logger_helpers import SynapseLoggerHook, synapse_logger_init
    from habana_frameworks.tensorflow import py_synapse_logger
    from habana_frameworks.tensorflow.lib_utils import libraries_location
    from habana_frameworks.tensorflow.media import habana_imagenet_dataset
    from habana_frameworks.tensorflow.media.habana_dataset import HabanaDataset
    assert (comm_rank(), comm_size(), comm_local_rank(), comm_local_size()) == (0, 1, 0, 1)
    assert libraries_location == sysconfig.get_lib_dir()
"""

LIGHT = """
    import sys
    import habana_frameworks.tensorflow as htf
    from habana_frameworks.tensorflow import habana_device, habana_ops, load_habana_module, sysconfig
    import habana_frameworks.tensorflow.distribute, habana_frameworks.tensorflow.ops
    import habana_frameworks.tensorflow.multinode_helpers, habana_frameworks.tensorflow.py_synapse_logger
    import habana_frameworks.tensorflow.lib_utils, habana_frameworks.tensorflow.media.habana_dataset
    assert not {"tensorflow", "keras", "numpy"} & sys.modules.keys()
    assert htf.habana_device.get_type().startswith("GAUDI")
"""

SAME = """
    import importlib, pickle
    import habana_tf, habana_tf.settings
    from habana_frameworks.tensorflow import distribute, habana_ops, settings
    assert habana_ops is habana_tf.habana_ops and settings is habana_tf.settings
    assert distribute.HPUStrategy is habana_tf.distribute.HPUStrategy
    from habana_frameworks.tensorflow.ops.layer_norm import HabanaLayerNormalization as layer
    from habana_frameworks.tensorflow.ops.instance_norm import HabanaInstanceNormalization
    from habana_frameworks.tensorflow.optimizers.cyclical_learning_rate import CyclicalLearningRate
    import habana_tf.ops.layer_norm as real
    assert layer is real.HabanaLayerNormalization and layer.__module__ == "habana_tf.ops.layer_norm"
    assert real.__spec__.name == "habana_tf.ops.layer_norm" and importlib.reload(settings) is habana_tf.settings
    for wrong in ("habana_frameworks.tensorflow.nowhere", "habana_frameworks.tensorflow.ops.nowhere"):
        try:
            importlib.import_module(wrong)
        except ModuleNotFoundError as error:
            assert wrong in str(error), error
        else:
            raise AssertionError(wrong)
    import habana_frameworks.tensorflow as htf
    assert not hasattr(htf, "nowhere") and "load_habana_module" in dir(htf)
"""


@pytest.mark.parametrize("script", [NAMES, LIGHT, SAME])
def test_names(script: str) -> None:
    python(script, imported=script is not LIGHT)


AUTOENCODER = """
    from habana_frameworks.tensorflow import load_habana_module
    load_habana_module()
    import numpy as np
    import tensorflow as tf
    from tensorflow.keras import layers

    tf.keras.utils.set_random_seed(0)
    encoder_input = tf.keras.Input((16, 16, 1))
    x = layers.Conv2D(16, 3, activation="relu", padding="same")(encoder_input)
    x = layers.MaxPooling2D(2, padding="same")(x)
    x = layers.Conv2D(8, 3, activation="relu", padding="same")(x)
    encoded = layers.MaxPooling2D(2, padding="same")(x)
    x = layers.Conv2DTranspose(8, 3, strides=2, activation="relu", padding="same")(encoded)
    x = layers.Conv2DTranspose(16, 3, strides=2, activation="relu", padding="same")(x)
    decoded = layers.Conv2D(1, 3, activation="sigmoid", padding="same")(x)
    autoencoder = tf.keras.Model(encoder_input, decoded)
    autoencoder.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="binary_crossentropy")

    rng = np.random.default_rng(0)
    corner = rng.integers(0, 8, (256, 2))
    clean = np.zeros((256, 16, 16, 1), "f4")
    for image, (i, j) in zip(clean, corner):
        image[i:i + 8, j:j + 8] = 1
    noisy = np.clip(clean + 0.2 * rng.normal(size=clean.shape), 0, 1).astype("f4")
    history = autoencoder.fit(noisy, clean, epochs=6, batch_size=32, validation_split=0.125, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0], history["loss"]
    assert history["val_loss"][-1] < 0.5 * history["val_loss"][0]
    restored = autoencoder.predict(noisy[:8], verbose=0)
    assert ((restored > 0.5) == (clean[:8] > 0.5)).mean() > 0.9
    weight = autoencoder.weights[0]
    assert getattr(weight, "value" if not hasattr(weight, "handle") else "handle").device.endswith("HPU:0")

    import habana_tf
    steps = [g for g in habana_tf.placement_report().graphs if any("Conv2DBackpropFilter" in c.ops for c in g.launches)]
    assert [len(g.launches) for g in steps] == [1], steps
    on_cpu = {op for g in steps for op, _, cpu in g.refused if cpu}
    assert on_cpu <= {"IteratorGetNext", "OptionalFromValue", "Shape"}, on_cpu
"""


def test_a_convolutional_autoencoder() -> None:
    python(AUTOENCODER, imported=True, timeout=300)
