"""Training on HPU is training: the same numbers as stock TensorFlow, one launch per step, no memory lost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests import forked
from tests.child import environment, python
from tests.versions import KERAS_3

STEPS = 20
STOCK = {
    "stock": {},
    "stock, one thread": {"TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1"},
    "stock, oneDNN off": {"TF_ENABLE_ONEDNN_OPTS": "0"},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, np.ndarray]]:
    """20 steps of the demo's network on HPU, and on stock TensorFlow in three ways that should not matter."""
    folder = tmp_path_factory.mktemp("training")
    return {name: _run(folder / name, name.split(",")[0], extra) for name, extra in {"hpu": {}, **STOCK}.items()}


def _run(path: Path, device: str, extra: dict[str, str]) -> dict[str, np.ndarray]:
    script = Path(__file__).with_name("training_run.py")
    words = [str(script), device, str(STEPS), f"{path}.npz"]
    done = forked.run(words, environment(**extra), timeout=300, hpu=device == "hpu")
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(f"{path}.npz") as saved:
        return dict(saved)


def test_first_loss(runs: dict[str, dict[str, np.ndarray]]) -> None:
    assert runs["hpu"]["losses"][0] == pytest.approx(runs["stock"]["losses"][0], rel=1e-5)


def test_first_gradients(runs: dict[str, dict[str, np.ndarray]]) -> None:
    ours, stock = runs["hpu"], runs["stock"]
    names = [name for name in stock if name != "losses"]
    assert len(names) == 10 and set(names) == set(ours) - {"losses"}
    distances = {n: float(np.linalg.norm(ours[n] - stock[n]) / np.linalg.norm(stock[n])) for n in names}
    assert max(distances.values()) <= 1e-5, distances


def test_loss_curve_within_three_times_the_noise_of_stock(runs: dict[str, dict[str, np.ndarray]]) -> None:
    """Rounding grows over the steps everywhere: the measure is stock TensorFlow's distance from itself."""
    curves = {name: run["losses"] for name, run in runs.items()}
    noise = max(np.abs(curves[a] - curves[b]).max() for a in STOCK for b in STOCK)
    ours = np.abs(curves["hpu"] - curves["stock"]).max()
    assert noise > 0
    assert ours <= 3 * noise, (ours, noise)
    assert curves["hpu"][-1] < curves["hpu"][0] / 2


STEP = """
    import json, sys
    import numpy as np
    import tensorflow as tf
    import habana_tf

    habana_tf.load_habana_module()
    sys.path[:0] = [{root!r} + "/examples", {root!r} + "/tests/benchmarks"]
    name, precision = {name!r}, {precision!r}
    if precision == "bf16":
        tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    if name == "digits":
        from train_digits import network
        from habana_tf.distribute import HPUStrategy
        with HPUStrategy().scope():
            model, shape, batch = network(), (8, 8, 1), 64
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf.keras.optimizers.Adam(), loss, metrics=["accuracy"])
    else:
        import models
        benchmark = models.MODELS[name]
        model, shape, batch = models.compiled(benchmark.build(), xla=False), benchmark.shape, benchmark.batch
    x = np.random.default_rng(0).random((6 * batch - 5, *shape), dtype=np.float32)
    y = np.arange(len(x)) % 10
    from habana_tf._native import _bridge

    def launches(first):
        before = _bridge.counters()["launches"]
        model.fit(x[first:], y[first:], batch_size=batch, verbose=0)
        return _bridge.counters()["launches"] - before

    launches(0)
    graph = max(habana_tf.placement_report().graphs, key=lambda g: g.nodes)
    INPUT = ("IteratorGetNext", "OptionalFromValue", "Shape")  # Keras 3 keeps the batch in an optional
    print(json.dumps({{
        "launches in the graph": len(graph.launches),
        "launches of three more steps": launches(0) - launches(3 * batch),
        "outside": sorted({{(op, "CPU" if cpu else "HPU") for op, _, cpu in graph.refused if op not in INPUT}}),
        "interpreted": _bridge.counters()["interpreted_launches"],
    }}))
"""


@pytest.mark.parametrize(
    ("name", "precision"),
    [("mlp", "fp32"), ("lenet", "bf16"), ("digits", "fp32")]
    + [
        pytest.param(*pair, marks=pytest.mark.rest) for pair in (("mlp", "bf16"), ("lenet", "fp32"), ("digits", "bf16"))
    ],
)
def test_a_step_is_one_launch(name: str, precision: str) -> None:
    """Everything but the input, variable reads and final assigns is inside it, smaller last batch or not.

    The identities that name a function's results compute nothing.
    """
    root = str(Path(__file__).resolve().parent.parent)
    done = python(STEP.format(root=root, name=name, precision=precision), imported=True, timeout=300)
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "launches in the graph": 1,
        "launches of three more steps": 3,
        "outside": [["Identity", "HPU"]],
        "interpreted": 0,
    }


WORDS = """
    import json
    import numpy as np
    import tensorflow as tf
    import habana_tf

    habana_tf.load_habana_module()
    from habana_tf._native import _bridge

    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((12,), dtype="int32"), layers.Embedding(50, 16),
                                 layers.GlobalAveragePooling1D(), layers.Dense(10)])
    model.compile(tf.keras.optimizers.Adam(), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = np.random.default_rng(0).integers(0, 50, (96, 12)).astype(np.int32)
    y = np.arange(96) % 10

    def launches(n):
        before = _bridge.counters()["launches"]
        model.fit(x[:n], y[:n], batch_size=16, verbose=0)
        return _bridge.counters()["launches"] - before

    launches(96)
    graph = max(habana_tf.placement_report().graphs, key=lambda g: g.nodes)
    print(json.dumps({
        "launches of three more steps": launches(96) - launches(48),
        "on the CPU": sorted({op for op, _, cpu in graph.refused if cpu}),
        "interpreted": _bridge.counters()["interpreted_launches"],
    }))
"""


def test_a_step_with_an_embedding_is_one_launch() -> None:
    """Keras 2's optimizers sum the gradients of equal words: the host finds them in the batch, before the launch."""
    said = json.loads(python(WORDS, imported=True, timeout=300).stdout.splitlines()[-1])
    assert said["launches of three more steps"] == 3, said
    assert ("Unique" in said["on the CPU"]) is not KERAS_3, said
    assert said["interpreted"] == 0


def test_memory_is_the_same_after_a_thousand_steps() -> None:
    python(
        """
        import numpy as np
        import tensorflow as tf
        import habana_tf

        habana_tf.load_habana_module()
        layers = tf.keras.layers
        model = tf.keras.Sequential([layers.Input((8,)), layers.Dense(16, activation="relu"),
                                     layers.BatchNormalization(), layers.Dropout(0.5), layers.Dense(4)])
        model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
        x = np.random.default_rng(0).random((40, 8), dtype=np.float32)
        data = tf.data.Dataset.from_tensor_slices((x, np.arange(40) % 4)).batch(16).repeat()

        def least(fits, steps):
            # bytes in use after some fits: the input's queue may hold a batch more or less at that moment
            used = []
            for _ in range(fits):
                model.fit(data, steps_per_epoch=steps, verbose=0)
                used.append(tf.config.experimental.get_memory_info("HPU:0")["current"])
            return min(used)

        before = least(4, 10)
        after = least(4, 250)
        assert 0 < after < before + 1000, (before, after)  # a leak would be a byte a step
        """,
        imported=True,
    )
