"""TensorFlow's own mirrored strategies with HPU loaded."""

from __future__ import annotations

from tests.child import python


def test_mirrored_strategies_name_hpu_strategy() -> None:
    python(
        """
        import tensorflow as tf
        import habana_tf
        from habana_tf.distribute import HPUStrategy

        habana_tf.load_habana_module()
        makers = [
            lambda: tf.distribute.MirroredStrategy(),
            lambda: tf.distribute.MirroredStrategy(["HPU:0"]),
            lambda: tf.distribute.MirroredStrategy(devices=["/device:HPU:0", "/device:CPU:0"]),
            lambda: tf.distribute.MultiWorkerMirroredStrategy(),
            lambda: tf.distribute.experimental.MultiWorkerMirroredStrategy(),
            lambda: tf.compat.v1.distribute.MirroredStrategy(),
        ]
        for make in makers:
            try:
                make()
            except ValueError as error:
                assert "HPUStrategy" in str(error), error
            else:
                raise SystemExit("no error")
        for strategy, device in [
            (tf.distribute.MirroredStrategy(["CPU:0"]), "CPU:0"),
            (tf.distribute.OneDeviceStrategy("device:HPU:0"), "HPU:0"),
            (HPUStrategy(), "HPU:0"),
        ]:
            with strategy.scope():
                v = tf.Variable(2.0)
            assert strategy.run(lambda: v * 3.0).numpy() == 6.0 and v.device.endswith(device), v.device
        """,
        imported=True,
    )


def test_hidden_hpu_is_no_hpu() -> None:
    python(
        """
        import tensorflow as tf
        import habana_tf

        habana_tf.load_habana_module()
        tf.config.set_visible_devices([], "HPU")
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        assert strategy.extended.worker_devices[0].endswith("CPU:0")
        """,
        imported=True,
    )


def test_without_hpu_nothing_is_changed() -> None:
    python(
        """
        import tensorflow as tf
        import habana_tf, habana_tf.distribute

        assert tf.distribute.MirroredStrategy().extended.worker_devices[0].endswith("CPU:0")
        assert tf.distribute.MultiWorkerMirroredStrategy().extended.worker_devices[0].endswith("CPU:0")
        """,
        imported=True,
    )


def test_one_device_strategy_trains() -> None:
    python(
        """
        import numpy as np
        import tensorflow as tf
        import habana_tf

        habana_tf.load_habana_module()
        strategy = tf.distribute.OneDeviceStrategy("device:HPU:0")
        x = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
        y = (x.sum(axis=1) > 0).astype(np.int64)
        with strategy.scope():
            model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(2)])
            loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            model.compile(tf.keras.optimizers.SGD(0.5), loss, metrics=["accuracy"])
        losses = model.fit(x, y, batch_size=16, epochs=5, verbose=0).history["loss"]
        assert losses[-1] < 0.7 * losses[0], losses
        assert model.predict(x, verbose=0).shape == (64, 2)
        """,
        imported=True,
    )
