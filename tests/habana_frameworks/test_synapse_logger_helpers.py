"""The hook can stay in a script; HABANA_SYNAPSE_LOGGER decides what is captured, in files under Habana's names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.child import python

RUN = """
    import os, sys
    os.chdir(sys.argv[1])
    import tensorflow as tf
    import habana_tf
    habana_tf.load_habana_module()
    from habana_frameworks.tensorflow.synapse_logger_helpers import SynapseLoggerHook, synapse_logger_init
    synapse_logger_init()
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [8, 8])
        with tf.device("/HPU:0"):
            y = tf.reduce_sum(tf.nn.relu(tf.matmul(x, x)))
        tf.compat.v1.train.create_global_step()
        hooks = [SynapseLoggerHook(list(range(2, 4)), False), SynapseLoggerHook(1), SynapseLoggerHook()]
        with tf.compat.v1.train.MonitoredSession(hooks=hooks) as session:
            print([float(session.run(y, {x: [[1.0] * 8] * 8})) for _ in range(5)])
"""
STEPS = [f"worker_0_step_{n}.local.synapse_log" for n in (1, 2, 3)]
WHOLE = "worker0.local.synapse_log"


@pytest.mark.parametrize(
    "value, files", [("off", []), ("range", STEPS), ("range_hw", STEPS), ("true", sorted([*STEPS, WHOLE]))]
)
def test_steps_are_captured_as_asked(value: str, files: list[str], tmp_path: Path) -> None:
    done = python(RUN, str(tmp_path), imported=True, HABANA_SYNAPSE_LOGGER=value)
    assert done.stdout.strip() == str([512.0] * 5)
    # two hooks have steps to log
    assert done.stderr.count("logs nothing: HABANA_SYNAPSE_LOGGER is not set") == (0 if files else 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    launches = {
        path.name: sum(e.get("cat") == "launch" and e["pid"] == 1 for e in json.loads(path.read_text())["traceEvents"])
        for path in tmp_path.iterdir()
    }
    assert all(launches[name] == 1 for name in files if name != WHOLE)
    assert launches.get(WHOLE, 5) >= 5
