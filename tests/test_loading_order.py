"""`load_habana_module()` in every order with TensorFlow's own set-up: what was made before goes on working."""

from __future__ import annotations

from tests.child import python


def test_load_after_ops_have_run_keeps_everything_working() -> None:
    python(
        """
        import numpy as np, tensorflow as tf
        tf.random.set_seed(7)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.set_soft_device_placement(True)
        tf.config.optimizer.set_experimental_options({"constant_folding": True})
        v = tf.Variable([1.0, 2.0])
        x = tf.constant([3.0, 4.0])
        iterator = iter(tf.data.Dataset.range(10).batch(2))
        next(iterator)
        @tf.function
        def f(a):
            return a * 2.0
        f(x)
        first = tf.random.uniform([2]).numpy()

        import habana_tf
        habana_tf.load_habana_module()
        assert len(tf.config.list_logical_devices("HPU")) == 1
        assert tf.config.threading.get_intra_op_parallelism_threads() == 1
        assert tf.config.optimizer.get_experimental_options()["constant_folding"] is True
        with tf.device("/HPU:0"):
            assert tf.identity(x).device.endswith("HPU:0")
        with tf.device("/CPU:0"):
            assert next(iterator).numpy().tolist() == [2, 3]
            assert f(x).numpy().tolist() == [6.0, 8.0]
            assert f(tf.constant([1.0])).numpy().tolist() == [2.0]
            assert v.numpy().tolist() == [1.0, 2.0]
            v.assign_add(x)
            assert v.numpy().tolist() == [4.0, 6.0]
            # The seed's sequence of op seeds goes on where it was.
            second = tf.random.uniform([2]).numpy()
            tf.random.set_seed(7)
            assert np.array_equal(tf.random.uniform([2]).numpy(), first)
            assert np.array_equal(tf.random.uniform([2]).numpy(), second)
        """,
        imported=True,
    )


def test_load_after_ops_without_a_seed_keeps_the_settings() -> None:
    python(
        """
        import tensorflow as tf
        tf.config.threading.set_inter_op_parallelism_threads(1)
        tf.config.optimizer.set_experimental_options({"remapping": False})
        tf.constant(1.0) + 1.0
        import habana_tf
        habana_tf.load_habana_module()
        assert tf.config.threading.get_inter_op_parallelism_threads() == 1
        assert tf.config.optimizer.get_experimental_options()["remapping"] is False
        assert tf.random.uniform([8]).numpy().tolist() != tf.random.uniform([8]).numpy().tolist()
        """,
        imported=True,
    )


def test_after_loading_devices_and_collectives_can_still_be_configured() -> None:
    python(
        """
        import tensorflow as tf
        import habana_tf
        habana_tf.load_habana_module()
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], two)
        assert len(tf.config.list_logical_devices("CPU")) == 2
        assert len(tf.config.list_logical_devices("HPU")) == 1
        """,
        imported=True,
    )


def test_load_between_building_and_using_a_keras_model() -> None:
    python(
        """
        import numpy as np, tensorflow as tf
        model = tf.keras.Sequential([tf.keras.Input([3]), tf.keras.layers.Dense(2)])
        x = np.ones([4, 3], np.float32)
        before = model(x).numpy()
        import habana_tf
        habana_tf.load_habana_module()
        with tf.device("/CPU:0"):
            assert np.allclose(model(x).numpy(), before)
            model.compile("sgd", "mse")
            model.fit(x, np.zeros([4, 2], np.float32), verbose=0)
        """,
        imported=True,
    )
