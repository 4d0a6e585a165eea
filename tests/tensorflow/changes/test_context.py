"""TensorFlow's table of graph optimizers reaches nobody's screen, and what the optimizers do stays the same."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.child import python

TABLE = ("Config of optimizers", "User's config has been changed")

LOAD = """
import numpy as np
import tensorflow as tf
import habana_tf
habana_tf.load_habana_module()
f = tf.function(lambda x: tf.reduce_sum(tf.nn.relu(x @ x) + 1))
"""

FUNCTIONS = """
np.testing.assert_allclose(f(tf.ones([4, 4])), 80)
np.testing.assert_allclose(tf.function(lambda x: tf.map_fn(lambda t: tf.cond(t > 0, lambda: t * 2, lambda: t), x))(
    tf.ones([4])), np.full(4, 2.0))
model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(2)])
model.compile("sgd", "mse")
model.fit(np.ones([4, 3]), np.ones([4, 2]), verbose=0)
assert f(tf.ones([4, 4])).device.endswith("HPU:0")
"""

ASKED = """
wishes = {name: True for name in ("arithmetic_optimization", "remapping", "layout_optimizer", "auto_mixed_precision",
                                  "constant_folding")}
tf.config.optimizer.set_experimental_options(wishes)
np.testing.assert_allclose(f(tf.ones([4, 4])), 80)
assert tf.config.optimizer.get_experimental_options()["arithmetic_optimization"] is True
from tensorflow.python.eager import context
rewriter = context.context().config.graph_options.rewrite_options
assert rewriter.constant_folding == rewriter.ON and rewriter.arithmetic_optimization == rewriter.DEFAULT
"""

SESSION = """
v1 = tf.compat.v1
for config in (None, v1.ConfigProto(), v1.ConfigProto(intra_op_parallelism_threads=1)):
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        x = v1.placeholder(tf.float32, [None, 4])
        y = tf.nn.relu(x @ tf.ones([4, 4])) + 1
        np.testing.assert_allclose(session.run(y, {x: np.ones([2, 4])}), np.full([2, 4], 5.0))
from tensorflow.core.protobuf import rewriter_config_pb2
config = v1.ConfigProto()
config.graph_options.rewrite_options.memory_optimization = rewriter_config_pb2.RewriterConfig.HEURISTICS
config.graph_options.rewrite_options.remapping = rewriter_config_pb2.RewriterConfig.ON
before = config.SerializeToString()
with tf.Graph().as_default(), v1.Session(config=config) as session:
    assert session.run(tf.nn.relu(tf.ones([2]) * 3) + 1)[0] == 4
assert config.SerializeToString() == before
"""

DATASET = """
numbers = tf.constant([1.0, 2.0]) * 2
data = tf.data.Dataset.range(3).map(lambda i: tf.cast(i, tf.float32) + tf.reduce_sum(numbers * numbers))
np.testing.assert_allclose(list(data), [20, 21, 22])
"""

MEMORY = """
# Large enough for TensorFlow's memory optimizer: it would make variables of sums, which HPU has no kernel for.
@tf.function
def large(x):
    y = tf.reshape(x, [8, 1, 1]) * tf.ones([1, 1024, 4096])
    return tf.reduce_max(tf.add_n([tf.nn.relu(y * k) for k in (1.0, 2.0, 3.0, 4.0)]))

assert float(large(tf.ones([8]))) == 10
"""


@pytest.mark.parametrize("script", [FUNCTIONS, ASKED, SESSION, DATASET, MEMORY])
def test_no_table(script: str) -> None:
    done = python(LOAD + textwrap.dedent(script), imported=True, TF_CPP_MIN_LOG_LEVEL="0", HABANA_SIM_LOG="info")
    for words in TABLE:
        assert words not in done.stderr, done.stderr
    assert done.stderr.count("off in graphs with nodes on HPU") == (script in (ASKED, SESSION))


SAVED = """
import tensorflow as tf
module = tf.Module()
module.f = tf.function(lambda x: tf.nn.relu(x @ x) + 1, input_signature=[tf.TensorSpec([None, 4])])
tf.saved_model.save(module, "saved")
"""


def test_no_table_of_a_saved_model(tmp_path: Path) -> None:
    python(f"import os; os.chdir({str(tmp_path)!r})\n" + SAVED, imported=True)
    load = LOAD + f"g = tf.saved_model.load({str(tmp_path / 'saved')!r}).f\n"
    script = load + "assert g(tf.ones([4, 4])).device.endswith('HPU:0')\nassert float(g(tf.ones([4, 4]))[0, 0]) == 5\n"
    done = python(script, imported=True, TF_CPP_MIN_LOG_LEVEL="0")
    for words in TABLE:
        assert words not in done.stderr, done.stderr
