"""Who imports Horovod and wants HPU has it, whoever comes first; and the calls of Horovod that HPU needs help with."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

from tests import forked
from tests.child import environment, python
from tests.distribute.job import needs_mpi, run_gloo, run_mpi
from tests.versions import needs_horovod

pytestmark = needs_horovod

WHERE = """
    import tensorflow as tf
    print("HPU" if tf.identity(tf.constant(1.0)).device.endswith("HPU:0") else "CPU", flush=True)
"""


def said(script: str, imported: bool = False, **variables: str) -> tuple[str, str]:
    """The last line that a script prints, and what is on stderr. No variable of Habana's is set but those given.

    imported: a process that finds TensorFlow imported; else Horovod imports it.
    """
    level = "2" if imported else "3"  # as all have it that are copies of the process that has imported TensorFlow
    variables = {"TF_CPP_MIN_LOG_LEVEL": level, **variables}
    named = ("HABANA_", "TF_CPU_RUNTIME_FALLBACK")
    env = {k: v for k, v in environment(**variables).items() if not k.startswith(named) or k in variables}
    words = ["-c", textwrap.dedent(script) + textwrap.dedent(WHERE)]
    if imported:
        done = forked.run(words, env, 600)
    else:
        done = subprocess.run([sys.executable, *words], env=env, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1], done.stderr


HOROVOD = "import horovod.tensorflow as hvd"
KERAS = "import tensorflow as tf, horovod.tensorflow.keras as hvd"
OURS = "from habana_frameworks.tensorflow import habana_device"
IN_SCRIPT = "import os; os.environ['TF_BF16_CONVERSION'] = 'full'"


@pytest.mark.parametrize(
    "variable",
    [
        "HABANA_VISIBLE_MODULES",
        *(
            pytest.param(name, marks=pytest.mark.rest)
            for name in ("TF_RECIPE_CACHE_PATH", "HABANA_PROFILE", "HLS_MODULE_ID")
        ),
    ],
)
def test_a_variable_of_habanas_is_enough(variable: str, tmp_path: object) -> None:
    value = {"TF_RECIPE_CACHE_PATH": str(tmp_path)}.get(variable, "1")
    assert said(HOROVOD, **{variable: value})[0] == "HPU"


@pytest.mark.parametrize(
    "lines",
    [[OURS, HOROVOD],
     pytest.param([IN_SCRIPT, HOROVOD], marks=pytest.mark.rest),
     pytest.param([KERAS, "import habana_tf", "hvd.init()", "hvd.init()"], marks=pytest.mark.rest),
     pytest.param(["import habana_tf", KERAS], marks=pytest.mark.rest),
     pytest.param([HOROVOD, OURS, "hvd.init()"], marks=pytest.mark.rest)],
)  # fmt: skip
def test_in_any_order(lines: list[str]) -> None:
    assert said("\n".join(lines))[0] == "HPU"


def test_a_program_that_wants_no_hpu_is_left_alone() -> None:
    changed = "import horovod.tensorflow.mpi_ops as ops\nassert not hasattr(ops.init, '__wrapped__')"
    where, errors = said(f"{HOROVOD}\n{changed}")
    assert where == "CPU" and "habana" not in errors
    assert said(HOROVOD, imported=True, HABANA_VISIBLE_MODULES="0", HABANA_SIM_HOROVOD="off")[0] == "CPU"


@pytest.mark.rest
def test_a_program_without_horovod_is_left_alone() -> None:
    assert said("import tensorflow as tf")[0] == "CPU"
    assert said("import tensorflow as tf", HABANA_VISIBLE_MODULES="0")[0] == "CPU"  # nobody asked for it yet


def test_one_warning_says_that_hpu_is_not_loaded() -> None:
    where, errors = said(f"{HOROVOD}\nhvd.init()\nhvd.init()", imported=True, HABANA_SIM_CHIP="gaudi9")
    assert where == "CPU"
    assert errors.count("this program runs on the CPU") == 1 and "HABANA_SIM_CHIP='gaudi9'" in errors


def test_a_card_that_is_chosen_after_the_import_is_the_one() -> None:
    script = f"""
        {HOROVOD}
        import os
        from habana_frameworks.tensorflow import load_habana_module
        hvd.init()
        os.environ["HLS_MODULE_ID"] = str(hvd.local_rank() + 5)
        load_habana_module()
        import tensorflow as tf
        (tf.ones([2]) + 1).numpy()
        from habana_tf.hardware import claim
        assert claim.held_card().module_id == 5, claim.held_card()
    """
    assert said(textwrap.dedent(script), imported=True, HABANA_PROFILE="1")[0] == "HPU"


@needs_mpi
def test_init_without_a_launcher() -> None:
    """With the Open MPI of the package index; its place is named while init() runs, and not longer."""
    script = f"""
        import os
        before = dict(os.environ)
        {HOROVOD}
        hvd.init()
        assert (hvd.rank(), hvd.size(), hvd.mpi_enabled()) == (0, 1, True)
        new = {{name for name in os.environ if name.startswith(("OPAL_", "PMIX_", "PRTE_"))}}
        assert new <= before.keys(), new
        """
    assert said(textwrap.dedent(script), imported=True, HABANA_PROFILE="1")[0] == "HPU"


BROADCASTS = """
import numpy as np
import tensorflow as tf
import horovod.tensorflow as hvd
from habana_frameworks.tensorflow import load_habana_module

load_habana_module()
hvd.init()
rank = hvd.rank()

def variables():
    return [tf.Variable(tf.fill([2, 3], float(rank + 1)), name="a"), tf.Variable(rank + 5, name="b"),
            tf.Variable(tf.fill([4], tf.cast(rank + 2, tf.float64)), name="c")]

def check(values):
    for value, wanted in zip(values, (np.full([2, 3], 1.0), 5, np.full([4], 2.0)), strict=True):
        np.testing.assert_array_equal(tf.cast(value, tf.float32), wanted)

ours = variables()
assert ours[0].device.endswith("HPU:0")
check(hvd.broadcast_(ours, 0))
check(ours)
ours = variables()
hvd.broadcast_variables(ours, 0, inplace=True)
check(ours)
assert ours[0].device.endswith("HPU:0")
ours = variables()

@tf.function
def step():
    read = hvd.broadcast_(ours, 0)
    ours[0].assign_add(tf.ones([2, 3]))
    return read

check(step())
np.testing.assert_array_equal(ours[0], np.full([2, 3], 2.0))
named = tf.Variable([float(rank)])
hvd.broadcast_([named], 0, name="by_name")
assert float(named[0]) == 0
named.assign([float(rank)])
hvd.broadcast_([named], hvd.size() - 1, process_set=hvd.global_process_set)
assert float(named[0]) == hvd.size() - 1
with tf.device("/CPU:0"):
    on_cpu = tf.Variable([float(rank)], name="on_cpu")
hvd.broadcast_([on_cpu], 0)  # Horovod's own
assert float(on_cpu[0]) == 0 and on_cpu.device.endswith("CPU:0")

with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    old = [tf.compat.v1.get_variable(name, initializer=tf.fill([2], float(rank + k)), use_resource=True)
           for k, name in enumerate("xy")]
    values = hvd.broadcast_(old, 0)
    group = hvd.broadcast_variables(old, 0, inplace=True)
    session.run(tf.compat.v1.global_variables_initializer())
    np.testing.assert_array_equal(session.run(values), [[0, 0], [1, 1]])
    session.run(group)
    np.testing.assert_array_equal(session.run(old), [[0, 0], [1, 1]])
report(rank, True)
"""


@pytest.mark.slow
def test_broadcast_in_place() -> None:
    """Eagerly, in functions and in sessions, for several types."""
    assert run_gloo(BROADCASTS, 2) == [True, True]


@pytest.mark.slow
@needs_mpi
@pytest.mark.rest  # test_a_variable_of_habanas_is_enough, and test_same_training.py with Horovod
def test_a_script_that_never_names_hpu_under_mpirun() -> None:
    """In the shape of Habana's example_hvd.py: TensorFlow and Horovod, and hvd.init()."""
    script = """
        import tensorflow as tf
        import horovod.tensorflow.keras as hvd
        hvd.init()
        x = tf.ones([2, 2]) @ tf.ones([2, 2])
        report(hvd.rank(), [x.device[-5:], hvd.size()])
    """
    assert run_mpi(textwrap.dedent(script), 2) == [["HPU:0", 2]] * 2


def test_horovods_ops_that_take_variables_are_these() -> None:
    """What a new Horovod brings must be looked at: an op on HPU variables without a kernel there cannot be placed."""
    script = """
        import tensorflow as tf
        import horovod.tensorflow as hvd
        from tensorflow.python.framework import op_def_registry
        from horovod.tensorflow import mpi_ops
        found = []
        for name in dir(mpi_ops.MPI_LIB):
            op = op_def_registry.get("".join(part.capitalize() for part in name.split("_")))
            if op and any(arg.is_ref or arg.type == tf.resource.as_datatype_enum for arg in op.input_arg):
                found.append(op.name)
        assert sorted(set(found)) == ["HorovodBroadcastInplace", "HorovodBroadcastInplaceResource"], found
    """
    python(script, imported=True)


def test_nothing_but_a_string_is_compared_at_the_start_of_python() -> None:
    script = """
        import sys
        import _habana_tf_horovod as start
        assert start.HorovodFinder in sys.meta_path and "habana_tf" not in sys.modules
        before = set(sys.modules)
        assert start.HorovodFinder.find_spec("horovod") is None and start.HorovodFinder.find_spec("tensorflow") is None
        assert set(sys.modules) == before
    """
    python(script)
