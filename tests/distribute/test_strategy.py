"""HPUStrategy with one worker, without and with a cluster, and its collectives between two."""

from __future__ import annotations

import json

import pytest

from tests.child import python
from tests.distribute.job import cluster, free_ports, run


def test_import_takes_no_tensorflow() -> None:
    python("""
        import sys
        import habana_tf.distribute
        assert "tensorflow" not in sys.modules
    """)


def test_unknown_name() -> None:
    import habana_tf.distribute

    with pytest.raises(AttributeError, match="MirroredHPU"):
        _ = habana_tf.distribute.MirroredHPU


def test_one_worker() -> None:
    done = python(
        """
        import tensorflow as tf
        from habana_tf import is_loaded
        from habana_tf.distribute import HPUStrategy

        strategy = HPUStrategy()
        assert is_loaded()
        assert isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        assert strategy.num_replicas_in_sync == 1
        assert [tf.DeviceSpec.from_string(d).device_type for d in strategy.extended.worker_devices] == ["HPU"]
        with strategy.scope():
            v = tf.Variable([1.0, 2.0])
        assert v.device.endswith("HPU:0"), v.device

        @tf.function
        def step(x):
            context = tf.distribute.get_replica_context()
            y = context.all_reduce("sum", x * v)
            v.assign_add(y)
            return y

        y = strategy.run(step, args=(tf.constant([3.0, 4.0]),))
        assert y.device.endswith("HPU:0"), y.device
        assert y.numpy().tolist() == [3.0, 8.0] and v.numpy().tolist() == [4.0, 10.0]
        assert strategy.reduce("mean", y, axis=0).numpy() == 5.5
        """,
        imported=True,
    )
    assert "startup" not in done.stderr


def test_every_example_counts_whatever_the_batch() -> None:
    python(
        """
        import numpy as np
        import tensorflow as tf
        from habana_tf.distribute import HPUStrategy

        strategy = HPUStrategy()
        data = tf.data.Dataset.range(10).map(lambda i: tf.cast(i, tf.float32)).batch(4)
        sizes, total = [], 0.0

        @tf.function(reduce_retracing=True)
        def step(x):
            return strategy.run(tf.reduce_sum, args=(x,))

        for batch in strategy.experimental_distribute_dataset(data):
            sizes.append(int(batch.shape[0]))
            total += float(step(batch))
        assert sizes == [4, 4, 2] and total == 45.0
        """,
        imported=True,
    )


def test_one_worker_reads_its_data_sets_as_they_are() -> None:
    python(
        """
        import tensorflow as tf
        from habana_tf.distribute import HPUStrategy

        strategy = HPUStrategy()
        data = tf.data.Dataset.range(4)
        assert strategy.experimental_distribute_dataset(data) is data

        def made(context):
            assert context.num_input_pipelines == 1 and context.get_per_replica_batch_size(4) == 4
            return data

        assert strategy.distribute_datasets_from_function(made) is data
        asked = tf.distribute.InputOptions(experimental_fetch_to_device=False)
        distributed = strategy.experimental_distribute_dataset(data.batch(2), asked)
        assert isinstance(distributed, tf.distribute.DistributedDataset)
        assert [batch.numpy().tolist() for batch in distributed] == [[0, 1], [2, 3]]
        """,
        imported=True,
    )


FIT = """
    import json, sys
    import numpy as np
    import tensorflow as tf

    if sys.argv[1:] == ["stock"]:
        strategy = tf.distribute.get_strategy()
    else:
        from habana_tf.distribute import HPUStrategy
        strategy = HPUStrategy()
    tf.keras.utils.set_random_seed(1)
    numbers = np.random.default_rng(0)
    x, y = numbers.random((50, 6, 6, 1), dtype=np.float32), numbers.integers(0, 3, 50)
    layers = tf.keras.layers
    with strategy.scope():
        model = tf.keras.Sequential([
            layers.Input((6, 6, 1)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.ReLU(),
            layers.Flatten(), layers.Dense(3),
        ])
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    fitted = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_data=(x, y))
    history = {name: [float(v) for v in values] for name, values in fitted.history.items()}
    devices = sorted({getattr(v, "value", v).device.rsplit("/", 1)[-1] for v in model.trainable_variables
                      if hasattr(getattr(v, "value", v), "device")})
    print(json.dumps({"history": history, "devices": devices}))
"""


def fit(*arguments: str, **variables: str) -> dict[str, dict[str, list[float]]]:
    done = python(FIT, *arguments, imported=True, **variables)
    result: dict[str, dict[str, list[float]]] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def stock_history() -> dict[str, list[float]]:
    return fit("stock")["history"]


@pytest.mark.parametrize("in_cluster", [False, True], ids=["alone", "cluster of one"])
def test_fit_with_a_smaller_last_batch(stock_history: dict[str, list[float]], in_cluster: bool) -> None:
    variables = {"TF_CONFIG": cluster(free_ports(1), 0)} if in_cluster else {}
    ours = fit(**variables)["history"]
    assert ours.keys() == stock_history.keys()
    for name, values in stock_history.items():
        assert ours[name] == pytest.approx(values, rel=1e-4), name


def test_step_has_no_conditionals() -> None:
    """Partial-batch handling wraps inputs and batch normalization in conditionals: one worker needs none."""
    python(
        """
        import numpy as np
        import tensorflow as tf
        from habana_tf.distribute import HPUStrategy

        strategy = HPUStrategy()
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.BatchNormalization()])

        @tf.function
        def step(data):
            return strategy.run(lambda x: model(x, training=True), args=(next(data),))

        x = tf.data.Dataset.from_tensor_slices(np.ones((10, 4), np.float32)).batch(4)
        graph = step.get_concrete_function(iter(strategy.experimental_distribute_dataset(x))).graph
        library = graph.as_graph_def().library
        ops = {n.op for f in library.function for n in f.node_def} | {op.type for op in graph.get_operations()}
        assert not ops & {"If", "StatelessIf", "OptionalHasValue", "IteratorGetNextAsOptional"}, sorted(ops)
        """,
        imported=True,
    )


def test_cluster_needs_an_index() -> None:
    done = python(
        """
        from habana_tf.distribute import HPUStrategy
        HPUStrategy()
        """,
        check=False,
        imported=True,
        TF_CONFIG=json.dumps({"cluster": {"worker": ["localhost:1"]}}),
    )
    assert done.returncode != 0 and "task_type" in done.stderr


TWO = """
    import tensorflow as tf
    import habana_tf
    from habana_tf.distribute import HPUStrategy

    habana_tf.load_habana_module()
    strategy = HPUStrategy()
    assert strategy.num_replicas_in_sync == 2
    rank = strategy.cluster_resolver.task_id
    with strategy.scope():
        v = tf.Variable(3.0 + rank)  # the first worker's value is everybody's

    @tf.function
    def step(x):
        return tf.distribute.get_replica_context().all_reduce("sum", x * v)

    report(rank, strategy.run(step, args=(tf.constant([1.0 + rank, 2.0]),)).numpy().tolist())
"""


def test_two_workers_sum_exactly() -> None:
    """On the first free cards, which nobody chooses for them."""
    assert run(TWO, 2, HLS_MODULE_ID="") == [[9.0, 12.0], [9.0, 12.0]]
