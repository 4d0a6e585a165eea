"""A child forked after loading: an error that says "spawn", never a hang; the CPU goes on working."""

from __future__ import annotations

from tests.child import python


def test_a_forked_child_gets_an_error_that_says_spawn() -> None:
    done = python(
        """
        import os, signal
        import tensorflow as tf
        import habana_tf
        habana_tf.load_habana_module()
        with tf.device("/HPU:0"):
            x = tf.identity(tf.constant([1.0, 2.0]))

        def on_cpu():
            with tf.device("/CPU:0"):
                assert (tf.constant(1.0) + 1.0).numpy() == 2.0
            print("cpu is fine")

        def on_card():
            with tf.device("/HPU:0"):
                tf.constant([3.0])

        for name, use in (("op", lambda: x + x), ("constant", on_card), ("numpy", x.numpy),
                          ("function", lambda: tf.function(lambda a: a * 2.0 + 1.0)(x)), ("cpu", on_cpu)):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                try:
                    use()
                except Exception as error:
                    print(name, "spawn" in str(error))
                os.sys.stdout.flush()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0, name
        """,
        imported=True,
    )
    assert done.stdout.splitlines() == ["op True", "constant True", "numpy True", "function True", "cpu is fine"]
