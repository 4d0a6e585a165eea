"""An estimator's workers under HPUStrategy: train_and_evaluate with TF_CONFIG, beside NumPy's averaged gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.distribute.job import cluster, free_ports, job

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(tf, "estimator"), reason="TensorFlow 2.15 was the last release with estimators"),
]

STEPS, BATCH, RATE = 6, 8, 0.05

SCRIPT = f"""
import sys
import numpy as np
import tensorflow as tf
import habana_tf
from habana_frameworks.tensorflow import HabanaEstimator
from habana_frameworks.tensorflow.distribute import HPUStrategy

v1 = tf.compat.v1
strategy = HPUStrategy()
rank = strategy.cluster_resolver.task_id
values = []


def model(features, labels, mode, params):
    w = v1.get_variable("w", [3, 1], initializer=v1.constant_initializer(0.5))
    assert mode == "eval" or w.device.endswith("HPU:0"), w.device
    loss = tf.reduce_mean(tf.square(tf.matmul(features, w) - labels))
    step = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        step = v1.train.GradientDescentOptimizer(params["rate"]).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)


class Weights(v1.train.SessionRunHook):
    def begin(self):
        (w,) = (v for v in v1.global_variables() if v.name.startswith("w"))
        self.w = strategy.experimental_local_results(w)[0].read_value()  # this worker's own
        self.steps = v1.train.get_global_step().read_value()

    def end(self, session):
        w, steps = session.run([self.w, self.steps])
        values.append([int(steps), w.ravel().tolist()])


def data():
    with np.load("data.npz") as arrays:
        x, y = arrays["x"][rank::2], arrays["y"][rank::2]  # each worker has its own examples
    return tf.data.Dataset.from_tensor_slices((x, y)).batch({BATCH})


if sys.argv[1] == "refused":
    try:
        config = tf.estimator.RunConfig(model_dir=f"model{{rank}}", train_distribute=strategy)
        HabanaEstimator(model, config=config, params={{"rate": {RATE}}})
    except ValueError as error:
        report(rank, str(error))
else:
    kind = HabanaEstimator if sys.argv[1] == "habana" else tf.estimator.Estimator
    config = tf.estimator.RunConfig(model_dir="model", train_distribute=strategy)
    estimator = kind(model, config=config, params={{"rate": {RATE}}})
    train = tf.estimator.TrainSpec(data, max_steps={STEPS}, hooks=[Weights()])
    tf.estimator.train_and_evaluate(estimator, train, tf.estimator.EvalSpec(data, steps=1))
    launched = {{op for g in habana_tf.placement_report().graphs for c in g.launches for op in c.ops}}
    report(rank, [*values[-1], "MatMul" in launched])
"""


def expected(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The weights after gradient descent on both workers' batches."""
    w = np.full((3, 1), 0.5)
    for step in range(STEPS):
        batches = [slice(rank + 2 * BATCH * step, rank + 2 * BATCH * (step + 1), 2) for rank in range(2)]
        gradients = [2 / BATCH * x[batch].T @ (x[batch] @ w - y[batch]) for batch in batches]
        w -= RATE * (gradients[0] + gradients[1]) / 2
    return w.ravel()


def write(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(2 * BATCH * STEPS, 3)).astype(np.float32)
    y = (x @ [[1.0], [2.0], [3.0]] + x[:, :1] ** 2).astype(np.float32)
    np.savez(folder / "data.npz", x=x, y=y)
    return x, y


@pytest.mark.parametrize("kind", ["habana", "stock class"])
def test_two_workers_train_as_numpy_does(kind: str) -> None:
    ports = free_ports(2)
    with job(SCRIPT) as running:
        x, y = write(running.folder)
        for rank in range(2):
            variables = {"TF_CONFIG": cluster(ports, rank), "HLS_MODULE_ID": str(rank)}
            running.script(kind, **variables)
        reports = running.done(2)
    for steps, weights, launched in reports:
        assert steps == STEPS and launched
        np.testing.assert_allclose(weights, expected(x, y), rtol=1e-5)
    assert reports[0] == reports[1]


def test_a_cluster_without_tf_config_is_an_error() -> None:
    with job(SCRIPT) as running:
        for rank in range(2):
            numbers = {"RANK": rank, "SIZE": 2, "LOCAL_RANK": rank, "LOCAL_SIZE": 2}
            variables = {f"OMPI_COMM_WORLD_{name}": str(number) for name, number in numbers.items()}
            variables["PMIX_NAMESPACE"] = running.folder.name  # the ports follow from it
            running.script("refused", **variables)
        assert all("TF_CONFIG does not name them" in error for error in running.done(2))
