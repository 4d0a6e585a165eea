"""Scripts written for Gaudi find every name where they know it, and nothing else looks installed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import habana_frameworks.tensorflow as htf
from tests.child import python

NAMES = """
    import importlib.util, sys
    import habana_frameworks
    assert getattr(habana_frameworks, "__file__", None) is None
    if importlib.util.find_spec("torch") is None:
        try:
            import habana_frameworks.torch
            raise SystemError("imported without PyTorch")
        except ModuleNotFoundError as error:
            assert "pip install" in str(error)
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
    import importlib
    import habana_tf, habana_tf.settings
    from habana_frameworks.tensorflow import distribute, habana_ops, settings
    assert habana_ops is habana_tf.habana_ops and settings is habana_tf.settings
    assert distribute.HPUStrategy is habana_tf.distribute.HPUStrategy
    from habana_frameworks.tensorflow.ops.layer_norm import HabanaLayerNormalization as layer
    from habana_frameworks.tensorflow.ops.instance_norm import HabanaInstanceNormalization
    from habana_frameworks.tensorflow.optimizers.cyclical_learning_rate import CyclicalLearningRate
    import habana_tf.ops.layer_norm as real
    assert layer is real.HabanaLayerNormalization
    assert layer.__module__ == real.__spec__.name == "habana_frameworks.tensorflow.ops.layer_norm"
    assert importlib.reload(settings) is habana_tf.settings
    import habana_frameworks.tensorflow as htf
    assert not hasattr(htf, "nowhere") and "load_habana_module" in dir(htf)
"""


STARS = """
    import importlib
    import tensorflow as tf
    import habana_tf
    import habana_frameworks.tensorflow as htf
    from habana_tf import aliases
    from tests.habana_frameworks import modules

    KERAS_3 = int(getattr(tf.keras, "__version__", "2").split(".")[0]) >= 3
    inner = ("__main__", "_native", "card", "cli", "cluster", "compiler", "dry_run", "files", "formulas",
             "host_changes", "horovod", "ir", "keras_callbacks", "launcher", "log", "reports", "resolver",
             "runtime_hooks", "tensorflow", "torch")
    parts = ("cache.", "custom.", "distribute.", "hardware.", "settings.", "torch.")
    names = [name for _, name in modules.ALL if name.split(".")[0] not in inner and not name.startswith(parts)]
    names += aliases.ELSEWHERE
    assert set(habana_tf._MODULES) <= set(names)
    if not hasattr(tf, "estimator"):
        names.remove("habana_estimator")
    roots = (modules.OURS, modules.THEIRS)
    for root, name in [(root, "." + name if name else "") for root in roots for name in ["", *names]]:
        mine = {"tf": "the script's", "np": "the script's", "os": "the script's", "annotations": "the script's",
                "Any": "the script's", "settings": "the script's", "logging": "the script's"}
        before = dict(mine)
        exec(f"from {root}{name} import *", mine)
        module = importlib.import_module(root + name)
        changed = {key for key in before if mine[key] != before[key]}
        assert changed <= ({"settings"} if not name else set()), (root + name, changed)
        got = set(mine) - set(before) - {"__builtins__"}
        assert got == set(module.__all__) - set(before), (root + name, got)
        known = ("habana_tf", "habana_frameworks", "builtins", "typing", "types", "collections", "keras", "logging")
        origins = {key: getattr(mine[key], "__module__", None) or "habana_tf" for key in got}
        foreign = {key for key in got if origins[key].split(".")[0] not in known}
        assert not foreign, (root + name, foreign)
    mine = {}
    exec("from habana_frameworks.tensorflow.backward_compatible_optimizers import *", mine)
    assert KERAS_3 or mine["Adam"] is tf.keras.optimizers.legacy.Adam
"""

MORE_NAMES = """
    import os
    import habana_tf
    from habana_frameworks.tensorflow.library_loader import habana_ops, is_loaded, load_habana_module
    from habana_frameworks.tensorflow.lib_utils import habana_module_path
    from habana_frameworks.tensorflow.multinode_helpers import _setup_env_for_multinode
    from habana_frameworks.tensorflow.ops.gelu import habana_gelu
    from habana_frameworks.tensorflow.ops.layer_norm import _HabanaLayerNorm
    assert load_habana_module is habana_tf.load_habana_module and habana_ops is habana_tf.habana_ops
    assert not is_loaded() and os.path.exists(habana_module_path)
    before = dict(os.environ)
    _setup_env_for_multinode()  # one process: nothing to do
    assert dict(os.environ) == before
"""

LOGGERS = """
    import importlib, logging
    import tensorflow as tf
    from tests.habana_frameworks import modules
    found = {}
    for name in modules.HABANAS:
        if name == "habana_estimator" and not hasattr(tf, "estimator"):
            continue
        module = importlib.import_module(f"habana_frameworks.tensorflow.{name}")
        found |= {thing.name: name for thing in vars(module).values() if isinstance(thing, logging.Logger)}
    assert len(found) >= 3 and all(each.startswith("habana_tf.") for each in found), found  # HABANA_SIM_LOG rules them
"""


@pytest.mark.parametrize("script", [NAMES, LIGHT, SAME, STARS, MORE_NAMES, LOGGERS])
def test_names(script: str) -> None:
    python(script, imported=script is not LIGHT)


def test_each_module_says_what_the_original_did() -> None:
    root = Path(htf.__file__ or "").parent
    texts = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in root.rglob("*.py")}
    assert len(texts) > 15
    silent = [path for path, text in texts.items() if "\nHabana's: " not in text or "\nHere: " not in text]
    assert not silent, silent


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
