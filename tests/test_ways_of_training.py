"""The ways people train, on HPU and on stock TensorFlow from the same start: equal numbers.

Each way is a script of its own that prints what it computed as JSON; it runs in a process with HPU and in one that
never heard of habana_tf.
"""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.child import python
from tests.versions import KERAS_3

START = """
    import json, os, sys
    import numpy as np
    import tensorflow as tf

    HPU = {hpu}
    FOLDER = {folder!r}
    if HPU:
        import habana_tf
        from habana_tf._native import _bridge
        habana_tf.load_habana_module()
    DEVICE = "/HPU:0" if HPU else "/CPU:0"
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((44, 8)).astype("f4"), np.arange(44) % 3

    def launches():
        return _bridge.counters()["launches"] if HPU else 0

    def network(*more):
        tf.keras.utils.set_random_seed(1)
        layers = tf.keras.layers
        with tf.device(DEVICE):
            model = tf.keras.Sequential([layers.Input((8,)), layers.Dense(16, activation="tanh"),
                                         layers.BatchNormalization(), *more, layers.Dense(3)])
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf.keras.optimizers.Adam(0.01), loss, metrics=["accuracy"], **KEYWORDS)
        return model

    KEYWORDS = {{}}

    def show(**results):
        if HPU:
            assert _bridge.counters()["optimize_errors"] == _bridge.counters()["interpreted_launches"] == 0
        print(json.dumps(results, default=lambda a: np.asarray(a).tolist()))
"""


def run(script: str, hpu: bool, folder: Path | None = None) -> dict[str, Any]:
    """What a script shows. `folder` is FOLDER in the script."""
    start = textwrap.dedent(START.format(hpu=hpu, folder=str(folder)))
    done = python(start + textwrap.dedent(script), imported=True, hpu=hpu, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])


def equal(ours: Any, stock: Any) -> None:
    """Asserts that two results of a few steps agree to rounding: Adam divides by small numbers."""
    if isinstance(stock, dict):
        assert ours.keys() == stock.keys()
        for key in stock:
            equal(ours[key], stock[key])
    elif isinstance(stock, list) and stock and isinstance(stock[0], list):
        assert len(ours) == len(stock)
        for a, b in zip(ours, stock, strict=True):
            equal(a, b)
    else:
        np.testing.assert_allclose(ours, stock, rtol=2e-4, atol=2e-5)


def both(script: str) -> dict[str, Any]:
    """Runs a script both ways and compares what it shows, launches aside; gives what HPU showed."""
    ours, stock = run(script, True), run(script, False)
    count = ours.pop("launches", None)
    stock.pop("launches", None)
    equal(ours, stock)
    return {**ours, "launches": count}


def test_a_session_with_placeholders_of_unknown_batch() -> None:
    shown = both("""
        v1 = tf.compat.v1
        v1.disable_eager_execution()
        with tf.Graph().as_default(), tf.device(DEVICE):
            images, labels = v1.placeholder(tf.float32, (None, 8)), v1.placeholder(tf.int64, (None,))
            rate = v1.placeholder_with_default(0.1, ())
            w = v1.get_variable("w", initializer=np.linspace(-1, 1, 24, dtype="f4").reshape(8, 3), use_resource=True)
            b = v1.get_variable("b", initializer=np.zeros(3, "f4"), use_resource=True)
            logits = images @ w + b
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
            step = v1.train.MomentumOptimizer(rate, 0.9).minimize(loss)
            init = v1.global_variables_initializer()
            losses = []
            with v1.Session() as session:
                session.run(init)
                for size in (16, 16, 12, 16, 5):
                    feed = {images: x[:size], labels: y[:size]}
                    losses.append(session.run([loss, step], feed)[0])
                before = launches()
                session.run(step, {images: x[:16], labels: y[:16], rate: 0.01})
                count = launches() - before
                show(losses=losses, weights=session.run([w, b]), launches=count,
                     logits=session.run(logits, {images: x}))
    """)
    assert shown["launches"] == 1
    assert shown["losses"][3] < shown["losses"][0]


def test_a_module_with_functions() -> None:
    shown = both("""
        class Model(tf.Module):
            def __init__(self):
                self.w = tf.Variable(np.linspace(-1, 1, 24, dtype="f4").reshape(8, 3))
                self.steps = tf.Variable(0, dtype=tf.int64)

            @tf.function(input_signature=[tf.TensorSpec((None, 8)), tf.TensorSpec((None,), tf.int64)])
            def train(self, x, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, self(x)))
                self.w.assign_sub(0.5 * tape.gradient(loss, self.w))
                self.steps.assign_add(1)
                return loss

            @tf.function
            def __call__(self, x):
                return tf.tanh(x @ self.w)

        with tf.device(DEVICE):
            model = Model()
            losses = [model.train(x[:n], y[:n]) for n in (16, 16, 11)]
            before = launches()
            model.train(x[:16], y[:16])
            count = launches() - before
            show(losses=[float(l) for l in losses], w=model.w.numpy(), steps=int(model.steps), out=model(x).numpy(),
                 launches=count)
    """)
    assert shown["launches"] == 1


def test_gradients_accumulated_over_batches() -> None:
    shown = both("""
        model = network()
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        with tf.device(DEVICE):
            optimizer.build(model.trainable_variables)
            sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]

            @tf.function
            def accumulate(x, y):
                with tf.GradientTape() as tape:
                    loss = loss_of(y, model(x, training=True))
                for s, g in zip(sums, tape.gradient(loss, model.trainable_variables)):
                    s.assign_add(g / 4.0)
                return loss

            @tf.function
            def apply():
                optimizer.apply_gradients(zip(sums, model.trainable_variables))
                for s in sums:
                    s.assign(tf.zeros_like(s))

            losses, counts = [], []
            for _ in range(3):
                for k in range(4):
                    before = launches()
                    part = slice(11 * k, 11 * k + 11)
                    losses.append(float(accumulate(tf.constant(x[part]), tf.constant(y[part]))))
                    counts.append(launches() - before)
                before = launches()
                apply()
                counts.append(launches() - before)
            show(losses=losses, weights=model.get_weights(), launches=counts[5:])
    """)
    assert set(shown["launches"]) == {1}


def test_several_steps_per_execution() -> None:
    """Keras puts a loop around the step: an iteration is one launch, and its condition another.

    Keras 3 asks once more in each iteration whether there is a batch.
    """
    shown = both("""
        KEYWORDS = dict(steps_per_execution=4)
        model = network()
        history = model.fit(x[:32], y[:32], batch_size=4, epochs=2, shuffle=False, verbose=0).history
        before = launches()
        model.fit(x[:32], y[:32], batch_size=4, shuffle=False, verbose=0)
        longer = launches()
        model.fit(x[:16], y[:16], batch_size=4, shuffle=False, verbose=0)
        count = (longer - before) - (launches() - longer)
        show(history=history, weights=model.get_weights(), launches=count)
    """)
    assert shown["launches"] == 4 + 5 + 4 * KERAS_3  # of four steps more


def test_train_on_batch_predict_and_evaluate() -> None:
    shown = both("""
        model = network()
        trained = [model.train_on_batch(x[k:k + 11], y[k:k + 11]) for k in (0, 11, 22)]
        tested = model.test_on_batch(x[33:], y[33:])
        before = launches()
        model.train_on_batch(x[:11], y[:11])
        count = launches() - before
        predicted = model.predict(x, batch_size=16, verbose=0)
        evaluated = model.evaluate(x, y, batch_size=16, verbose=0)
        show(trained=trained, tested=tested, predicted=predicted, evaluated=evaluated, launches=count,
             on_batch=model.predict_on_batch(x[:5]))
    """)
    assert shown["launches"] == 1


SAVE = """
    model = network()
    model.fit(x, y, batch_size=11, epochs=2, shuffle=False, verbose=0)

    class Served(tf.Module):
        def __init__(self, model):
            self.model = model

        @tf.function(input_signature=[tf.TensorSpec((None, 8), tf.float32, name="x")])
        def serve(self, x):
            return {"logits": self.model(x, training=False)}

    served = Served(model)
    with tf.device(DEVICE):
        tf.saved_model.save(served, FOLDER, signatures=served.serve)
    show(logits=model.predict(x, verbose=0))
"""

LOAD = """
    assert "habana_tf" not in sys.modules or HPU
    with tf.device(DEVICE):
        loaded = tf.saved_model.load(FOLDER)
        before = launches()
        logits = loaded.signatures["serving_default"](x=tf.constant(x))["logits"].numpy()
        assert not HPU or launches() > before
    show(logits=logits, again=loaded.serve(tf.constant(x))["logits"])
"""


@pytest.mark.parametrize(
    ("saved_on_hpu", "loaded_on_hpu"),
    [(True, False), (False, True)] + [pytest.param(on, on, marks=pytest.mark.rest) for on in (True, False)],
)
def test_saved_models_move_between_machines(saved_on_hpu: bool, loaded_on_hpu: bool, tmp_path: Path) -> None:
    saved = run(SAVE, saved_on_hpu, tmp_path)["logits"]
    loaded = run(LOAD, loaded_on_hpu, tmp_path)
    np.testing.assert_allclose(loaded["logits"], saved, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(loaded["again"], saved, rtol=1e-5, atol=1e-6)


TRAIN_ON = """
    model = network()
    checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
    path = os.path.join(FOLDER, "checkpoint")
    with tf.device(DEVICE):
        if FIRST:
            model.fit(x, y, batch_size=11, epochs=2, shuffle=False, verbose=0)
            checkpoint.write(path)
        else:
            model.optimizer.build(model.trainable_variables)
            checkpoint.read(path).assert_existing_objects_matched()
            model.save_weights(os.path.join(FOLDER, "again.weights.h5"))
        losses = model.fit(x, y, batch_size=11, epochs=2, shuffle=False, verbose=0).history["loss"]
    show(losses=losses, weights=model.get_weights())
"""


@pytest.mark.parametrize(
    ("first", "second"), [(True, False), (False, True), pytest.param(True, True, marks=pytest.mark.rest)]
)
def test_training_goes_on_from_a_checkpoint_on_the_other_device(first: bool, second: bool, tmp_path: Path) -> None:
    """The moments of the optimizer travel too: the run that goes on equals the one that never stopped."""
    went_on = run("\n    FIRST = True" + TRAIN_ON, first, tmp_path)
    resumed = run("\n    FIRST = False" + TRAIN_ON, second, tmp_path)
    equal(resumed, went_on)
