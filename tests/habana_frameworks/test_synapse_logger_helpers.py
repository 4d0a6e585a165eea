"""The hook can stay in a script; asking for its trace is an error that says what to use."""

from __future__ import annotations

from tests.child import python

RUN = """
    import tensorflow as tf
    from habana_frameworks.tensorflow.synapse_logger_helpers import SynapseLoggerHook, synapse_logger_init
    synapse_logger_init()
    with tf.Graph().as_default():
        x = tf.compat.v1.train.create_global_step().assign_add(1)
        hooks = [SynapseLoggerHook(list(range(2, 4)), False), SynapseLoggerHook(1), SynapseLoggerHook()]
        with tf.compat.v1.train.MonitoredSession(hooks=hooks) as session:
            print([int(session.run(x)) for _ in range(5)])
"""


def test_the_hook_runs_and_says_once_that_it_logs_nothing() -> None:
    done = python(RUN, imported=True)
    assert done.stdout.strip() == "[1, 2, 3, 4, 5]"
    assert done.stderr.count("logs nothing: HABANA_SYNAPSE_LOGGER is not set") == 2  # two hooks have steps to log


def test_asking_for_the_trace_is_an_error() -> None:
    done = python(RUN, check=False, imported=True, HABANA_SYNAPSE_LOGGER="range")
    assert "NotSimulated: HABANA_SYNAPSE_LOGGER=range traces" in done.stderr and "tf.profiler" in done.stderr
