"""An estimator trains on HPU where TensorFlow has estimators; elsewhere there is a clear error."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

from tests.child import python

TRAIN = """
    import numpy as np, tensorflow as tf
    from habana_frameworks.tensorflow.habana_estimator import HabanaEstimator
    from habana_frameworks.tensorflow import HabanaEstimator as same
    assert same is HabanaEstimator and issubclass(same, tf.estimator.Estimator)
    import habana_tf
    v1 = tf.compat.v1

    def model(features, labels, mode, params):
        w = v1.get_variable("w", [3, 1], use_resource=True, initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(features, w) - labels))
        step = v1.train.GradientDescentOptimizer(params["rate"]).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    x = np.random.default_rng(0).normal(size=(64, 3)).astype("f4")
    y = x @ np.array([[1.0], [2.0], [3.0]], "f4")
    data = lambda: tf.data.Dataset.from_tensor_slices((x, y)).batch(16).repeat(20)
    estimator = HabanaEstimator(model, {directory!r}, params={{"rate": 0.1}})
    assert habana_tf.is_loaded()
    estimator.train(data)
    assert estimator.get_variable_value("global_step") == 80
    np.testing.assert_allclose(estimator.get_variable_value("w").ravel(), [1, 2, 3], rtol=1e-3)
    assert estimator.evaluate(data, steps=4)["loss"] < 1e-4
    assert any("MatMul" in c.ops for g in habana_tf.placement_report().graphs for c in g.launches)
"""


def test_training(tmp_path: Path) -> None:
    if hasattr(tf, "estimator"):
        python(TRAIN.format(directory=str(tmp_path)), imported=True)
    else:
        done = python("from habana_tf import HabanaEstimator", check=False)
        assert done.returncode and "has no estimators, 2.15 was the last" in done.stderr
