"""Eager code around a large network compiles few recipes of single ops."""

from __future__ import annotations

import json

from tests.child import python


def test_a_large_network_compiles_few_single_ops() -> None:
    """Building Keras' ResNet50 and its first step run thousands of eager ops, most of which share their recipes."""
    done = python("""
        import json
        import numpy as np
        import tensorflow as tf
        import habana_tf

        habana_tf.load_habana_module()
        model = tf.keras.applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=10)
        model.compile("sgd", "sparse_categorical_crossentropy")
        model.fit(np.zeros((2, 32, 32, 3), np.float32), np.arange(2), batch_size=2, verbose=0)
        ops = habana_tf.recompilation_report().one_op
        print(json.dumps({op: dict(recipes) for op, recipes in ops.items()}))
    """, imported=True, timeout=300)  # fmt: skip
    ops = json.loads(done.stdout.splitlines()[-1])
    compiled = {op: how["compiled"] for op, how in ops.items() if "compiled" in how}
    assert compiled, "the network was built of something"
    assert sum(compiled.values()) <= 60, compiled
