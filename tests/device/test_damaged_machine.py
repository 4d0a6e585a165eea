"""A file of the simulated machine that is cut short under a process is an error of its next launch, not its end."""

from __future__ import annotations

from tests.child import machine, python

SCRIPT = """
    import os, sys
    import tensorflow as tf, habana_tf
    habana_tf.load_habana_module()
    x = tf.ones([4])
    assert x[0].numpy() == 1
    (path,) = [p for p in (os.path.join(sys.argv[1], name) for name in os.listdir(sys.argv[1])) if os.path.isfile(p)]
    os.truncate(path, 0)
    y = (x + 1).numpy()  # it had begun: it is finished
    assert y.tolist() == [2, 2, 2, 2], y
    for call in (lambda: x + 2, tf.function(lambda: x * 2 + x)):
        try:
            call()
        except tf.errors.FailedPreconditionError as why:
            assert path in why.message and "cut short" in why.message, why.message
        else:
            raise AssertionError("no error")
    assert os.path.getsize(path) == 0
    print("alive")
"""


def test_a_state_file_that_is_cut_short_is_an_error_with_its_name() -> None:
    where = machine()
    assert "alive" in python(SCRIPT, where, imported=True, HABANA_SIM_STATE_DIR=where).stdout


def test_shared_memory_of_workers_cannot_be_cut_short() -> None:
    script = """
        import os
        from habana_tf._native import _bridge
        _, descriptor = _bridge.make_exchange(2, "worker", 0)
        for size in (0, 1 << 40):
            try:
                os.ftruncate(descriptor, size)
            except PermissionError:
                continue
            raise AssertionError(f"it has {size} bytes now")
        print("as it was")
    """
    assert "as it was" in python(script, imported=True).stdout
