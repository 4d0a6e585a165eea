"""Kernels in C that report errors, throw exceptions, or leave their tensors."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
import tensorflow as tf

from habana_tf.custom import CustomOpError
from habana_tf.custom.build import build
from tests.child import on_hpu, python
from tests.custom.libraries import SOURCE, built, ops

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@on_hpu
def test_a_kernel_that_reports_an_error_fails_the_launch() -> None:
    x = tf.ones([64, 2])
    for call in (ops().native_fail, tf.function(lambda x: tf.exp(ops().native_fail(x * 2.0)))):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"NativeFail: its kernel in .*\.so says: item \d+ is"):
            call(x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="returned 9 and no message"):
        ops().native_fail(x, code=9)
    assert ops().native_fail(x, code=0).shape == (64, 2)


@on_hpu
def test_what_a_kernel_says_wrongly_of_itself() -> None:
    for n, says in ((5, "not 5"), (6, "the rank 9"), (-2, r"the shape \[-2\]"), (7, "work items gave -1")):
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"NativeShape.*its kernel says: .*{says}"):
            ops().native_shape(1.0, n=n)
    assert ops().native_shape(1.0, n=4).shape == (4,)
    with pytest.raises(CustomOpError, match=r"WRONG_OP.*\.so: custom op 'NativeEmpty'.*neither a type attribute"):
        ops("-DWRONG_OP", "-Wno-unused-const-variable", "-Wno-unused-function")


CRASH = """
    import sys, os
    import tensorflow as tf, habana_tf
    habana_tf.load_habana_module()
    op = habana_tf.load_op_library(sys.argv[1]).native_crash
    x = tf.ones([3, 5])
    for how in map(int, sys.argv[2:]):
        try:
            tf.function(lambda x: op(x * 2.0, how=how) + 1.0)(x)
            print("nothing", how)
        except tf.errors.InvalidArgumentError as why:
            print(how, why.message.split(" says: ")[1].split("\\n")[0])
"""


def test_a_kernel_that_leaves_its_tensors_is_named() -> None:
    checked = python(CRASH, built(SOURCE), "0", "1", "2", "3", imported=True, HABANA_SIM_CHECK_KERNELS="1").stdout
    says = "it read or wrote memory that is none of its tensors', or wrote an input"
    assert checked.splitlines() == [f"{how} {says}" for how in range(4)]
    done = python(CRASH, built(SOURCE), "3", imported=True, check=False)
    assert done.returncode < 0, done.stdout
    assert "the kernel of NativeCrash in " in done.stderr and "HABANA_SIM_CHECK_KERNELS=1" in done.stderr


def test_a_signal_that_somebody_sends_is_no_kernels_fault() -> None:
    script = """
        import os, signal, sys
        import tensorflow as tf, habana_tf
        habana_tf.load_habana_module()
        habana_tf.load_op_library(sys.argv[1]).native_scale(tf.ones([2]))
        os.kill(os.getpid(), signal.SIGSEGV)
        print("alive")
    """
    done = python(script, built(SOURCE), imported=True, check=False)
    assert done.returncode == -signal.SIGSEGV and "alive" not in done.stdout
    assert "the kernel of" not in done.stderr


THROWS = """
#include "habana_kernel.h"
#include <vector>
static int run(const habana_call* call, int64_t, int64_t) {
  if (habana_int(call, "how") == 0) return std::vector<int>().at(3);
  if (habana_int(call, "how") == 1) throw 7;
  *static_cast<float*>(call->outputs[0].data) = reinterpret_cast<intptr_t>(call->workspace) % 64;
  return 0;
}
static int64_t room(const habana_call*) { return 9; }
static const habana_kernel kernel = [] { habana_kernel k{}; k.op = "NativeThrows"; k.inputs = "x: float"; k.outputs =
  "y: float"; k.attrs = "how: int"; k.shapes = "x"; k.workspace = room; k.run = run; return k; }();
HABANA_KERNELS(&kernel)
"""


@pytest.mark.parametrize("checked", ["0", "1"])
def test_exceptions_of_a_kernel_in_cpp_fail_the_launch(checked: str, tmp_path: Path) -> None:
    (tmp_path / "throws.cc").write_text(THROWS)
    build([str(tmp_path / "throws.cc")], str(tmp_path / "throws.so"))
    script = """
        import sys
        import tensorflow as tf, habana_tf
        habana_tf.load_habana_module()
        op = habana_tf.load_op_library(sys.argv[1]).native_throws
        for how in range(3):
            try:
                print(op([1.0], how=how).numpy())
            except tf.errors.InvalidArgumentError as why:
                print(why.message.split(" says: ")[1].split(" [Op:")[0])
    """
    said = python(script, str(tmp_path / "throws.so"), imported=True, HABANA_SIM_CHECK_KERNELS=checked).stdout
    first, second, third = said.splitlines()
    assert first.startswith("it threw an exception: ") and "size" in first
    assert (second, third) == ("it threw an exception", "[0.]")  # a workspace begins at a multiple of 64


THROWS_BEFORE = """
#include "habana_kernel.h"
#include <stdexcept>
static void how(const habana_call* call, int64_t at) {
  if (habana_int(call, "how") == at) throw std::runtime_error("no such box");
  if (habana_int(call, "how") == at + 1) throw 7;
}
static int shape(const habana_call* call, int64_t (*shapes)[HABANA_MAX_RANK], int32_t* ranks) {
  how(call, 0);
  ranks[0] = 1;
  shapes[0][0] = 1;
  return 0;
}
static int64_t items(const habana_call* call) { how(call, 2); return 1; }
static int64_t room(const habana_call* call) { how(call, 4); return 9; }
static int run(const habana_call* call, int64_t, int64_t) {
  *static_cast<float*>(call->outputs[0].data) = 3;
  return 0;
}
static const habana_kernel kernel = [] { habana_kernel k{}; k.op = "NativeBefore"; k.inputs = "x: float"; k.outputs =
  "y: float"; k.attrs = "how: int"; k.shape = shape; k.items = items; k.workspace = room; k.run = run; return k; }();
HABANA_KERNELS(&kernel)
"""


def test_exceptions_of_what_is_asked_before_a_launch_are_errors_that_name_the_op(tmp_path: Path) -> None:
    (tmp_path / "before.cc").write_text(THROWS_BEFORE)
    build([str(tmp_path / "before.cc")], str(tmp_path / "before.so"))
    script = """
        import sys
        import tensorflow as tf, habana_tf
        habana_tf.load_habana_module()
        op = habana_tf.load_op_library(sys.argv[1]).native_before
        for how in range(7):
            for call in (op, tf.function(lambda x, how: op(x + 1.0, how=how) * 2.0)):
                try:
                    print(call(tf.constant([1.0]), how=how).numpy())
                except tf.errors.InvalidArgumentError as why:
                    assert "NativeBefore" in why.message, why.message
                    print(why.message.split(" says: ")[1].split(" [Op:")[0].splitlines()[0])
    """
    said = python(script, str(tmp_path / "before.so"), imported=True).stdout.splitlines()
    threw = ["it threw an exception: no such box"] * 2 + ["it threw an exception"] * 2
    assert said == [*threw * 3, "[3.]", "[6.]"]
