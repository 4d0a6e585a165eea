"""Libraries of kernels in C: built, loaded, called from launches and by the interpreter, built anew, and wrong."""

from __future__ import annotations

import ctypes
import functools
import json
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from habana_tf.custom import CustomOpError, LibraryError
from habana_tf.custom.build import build, include_dir
from habana_tf.ir import c_abi, interpreter, libraries
from habana_tf.ir.builder import Builder, ShapeError
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Custom, Program
from tests.child import on_hpu, python

SOURCE = Path(__file__).with_name("kernels.c")
SORT = Path(__file__).parents[2] / "examples" / "custom_ops" / "sort_rows.c"
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")

_folder = tempfile.TemporaryDirectory(prefix="habana-kernels-")


@functools.cache
def built(source: Path, *flags: str) -> str:
    output = Path(_folder.name) / f"{source.stem}{''.join(flags)}.so".replace("=", "")
    build([str(source)], str(output), ["-O1", *flags])
    return str(output)


@functools.cache
def ops(*flags: str) -> Any:
    import habana_tf

    return habana_tf.load_op_library(built(SOURCE, *flags))


@functools.cache
def sort_rows() -> Any:
    import habana_tf

    return habana_tf.load_op_library(built(SORT)).sort_rows


def kernels() -> list[dict[str, Any]]:
    """Of the program resolved last."""
    from habana_tf.resolver import programs

    return list(programs._programs._made.values())[-1].kernels()


def test_the_header_and_python_have_the_same_structures(tmp_path: Path) -> None:
    fields = [(s, name) for s in (c_abi.CTensor, c_abi.CAttr, c_abi.CCall, c_abi.CKernel) for name, *_ in s._fields_]
    names = {c_abi.CTensor: "habana_tensor", c_abi.CAttr: "habana_attr", c_abi.CCall: "habana_call"}
    text = ", ".join(f"offsetof({names.get(s, 'habana_kernel')}, {name})" for s, name in fields)
    sizes = "sizeof(habana_call), sizeof(habana_kernel), sizeof(habana_library), HABANA_KERNEL_ABI, HABANA_MAX_RANK"
    source = tmp_path / "sizes.c"
    source.write_text(
        f'#include <stddef.h>\n#include "habana_kernel.h"\nHABANA_EXPORT const int64_t sizes[] = {{{text}, {sizes}}};\n'
    )
    build([str(source)], str(tmp_path / "sizes.so"))
    expected = [getattr(s, name).offset for s, name in fields]
    expected += [ctypes.sizeof(s) for s in (c_abi.CCall, c_abi.CKernel, c_abi.CLibrary)] + [c_abi.ABI, c_abi.MAX_RANK]
    found = (ctypes.c_int64 * len(expected)).in_dll(ctypes.CDLL(str(tmp_path / "sizes.so")), "sizes")
    assert list(found) == expected


def test_a_kernel_in_cpp_is_built_too(tmp_path: Path) -> None:
    source = tmp_path / "kernel.cc"
    source.write_text(
        '#include "habana_kernel.h"\n'
        "static int run(const habana_call* call, int64_t, int64_t) { return call->num_inputs - 1; }\n"
        'static const habana_kernel kernel = [] { habana_kernel k{}; k.op = "NativeCpp"; k.inputs = "x: float"; '
        'k.outputs = "y: float"; k.shapes = "x"; k.run = run; return k; }();\n'
        "HABANA_KERNELS(&kernel)\n"
    )
    build([str(source)], str(tmp_path / "kernel.so"))
    assert [k.op for k in libraries.load(tmp_path / "kernel.so").kernels] == ["NativeCpp"]


def test_a_library_with_the_longest_of_names(tmp_path: Path) -> None:
    long = tmp_path / ("k" * 252 + ".so")
    long.write_bytes(Path(built(SOURCE)).read_bytes() + b"\0")  # another library than the one that is loaded
    assert libraries.load(long).kernels[0].op == "NativeScale"


def spec(op: str, library: libraries.Library, outputs: Any, *attrs: Any, items: int = 1, room: int = 0) -> Custom:
    return Custom(op, library.digest, attrs, outputs, items, room)


def test_the_interpreter_calls_the_same_function() -> None:
    library = libraries.load(built(SOURCE))
    b = Builder()
    x = b.input((3, 2), DType.F32)
    scale = spec("NativeScale", library, ((DType.F32, (3, 2)),), ("by", "float", (1.5,)), items=3)
    (y,) = b.custom(scale, [b.map("neg", x)])
    array = np.arange(6, dtype="f4").reshape(3, 2)
    (got,) = interpreter.run(Program([x], [y]), [array])
    np.testing.assert_array_equal(got, -3 * array)
    fail = spec("NativeFail", library, ((DType.F32, (3, 2)),), ("code", "int", (1,)), items=3)
    with pytest.raises(libraries.KernelError, match=r"NativeFail: its kernel in .*kernels.so says: item 0 is wrong"):
        interpreter.run(Program([x], b.custom(fail, [x])), [array])
    with pytest.raises(ShapeError, match="wants numbers"):
        from habana_tf.ir import extent as ext

        b.custom(scale, [b.input((ext.sym(0),), DType.F32)])


@pytest.mark.parametrize(
    ("flag", "says"),
    [
        ("-DWRONG_ABI", "compiled for version 2 of habana_kernel.h, and this habana_tf has version 1: build it again"),
        ("-DNO_RUN", "without the function run"),
        ("-DNO_SHAPE", "NativeEmpty says nothing of its outputs' shapes"),
        ("-DNO_KERNELS", "exports no habana_kernels"),
    ],
)
def test_a_library_that_is_none_is_refused(flag: str, says: str) -> None:
    with pytest.raises(LibraryError, match=says):
        libraries.load(built(SOURCE, flag, "-Wno-unused-const-variable", "-Wno-unused-function"))


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    with pytest.raises(LibraryError, match=r"no library of kernels can be read from .*No such file"):
        libraries.load(tmp_path / "none.so")
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(LibraryError, match=r"text.so cannot be loaded as a library: .*text.so: .*Build it with"):
        libraries.load(tmp_path / "text.so")
    lost = Custom("NativeLost", "0" * 64, (), ((DType.F32, ()),), 1, 0)
    with pytest.raises(LibraryError, match=r"NativeLost needs the kernel of a library .*load_op_library"):
        libraries.find(lost)


@on_hpu
def test_sorted_rows_of_any_shape_and_type() -> None:
    @settings(max_examples=25, deadline=None)
    @given(
        st.lists(st.integers(0, 9), min_size=1, max_size=3), st.booleans(), st.integers(0, 1 << 30), st.booleans(),
        st.sampled_from([tf.float32, tf.bfloat16]),
    )  # fmt: skip
    def check(shape: list[int], descending: bool, seed: int, ties: bool, dtype: Any) -> None:
        x = np.random.default_rng(seed).normal(size=shape).astype("f4")
        x = np.round(x) + 0 if ties else x
        x = tf.cast(x, dtype).numpy().astype("f4")
        y, places = sort_rows()(tf.cast(x, dtype), descending=descending)
        order = np.argsort(-x if descending else x, -1, kind="stable")
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(tf.cast(y, tf.float32), np.take_along_axis(x, order, -1))

    check()


@on_hpu
def test_in_a_cluster_it_is_one_kernel_call_that_nothing_is_fused_with() -> None:
    x = np.random.default_rng(0).normal(size=(6, 5)).astype("f4")

    @tf.function
    def f(x: Any) -> Any:
        y, _ = sort_rows()(tf.exp(x) + 1.0)
        return tf.math.log(y - 1.0) * 2.0

    np.testing.assert_allclose(f(tf.constant(x)), 2 * np.sort(x, -1), rtol=1e-4)
    assert [k["does"] for k in kernels()] == ["map", "custom", "map"]
    row = kernels()[1]
    assert row["engine"] == "TPC" and row["bytes"] == 2 * 6 * 5 * 4 and row["outputs"] == 1 and row["fused"] == {}
    from habana_tf.graph.report import placement_report

    assert len(placement_report().graphs[-1].launches) == 1 and not placement_report().graphs[-1].refused


@on_hpu
def test_what_a_kernel_is_told() -> None:
    for dtype, number in ((tf.float32, 1), (tf.int32, 3), (tf.int64, 9), (tf.uint8, 4), (tf.bool, 10)):
        x = tf.cast(tf.ones([2]), dtype)
        y = ops().native_tell(x, [tf.ones([1, 8]), tf.ones([1, 8])], 42, k=7, text="hello")
        assert y.numpy().tolist() == [8, 303, 5, 1, 41, number * 1000 + 8, 42]
    short = tf.function(lambda: ops().native_tell(1.0, [tf.ones([1, 8])], 1, k=9, sizes=[4], on=False, text="") * 2)()
    assert short.numpy()[:7].tolist() == [20, 208, 0, 0, 62, 2016, 2]


@on_hpu
def test_static_shapes_from_the_function_of_the_kernel() -> None:
    known = tf.function(lambda x: sort_rows()(x)[1]).get_concrete_function(tf.TensorSpec([4, 3]))
    assert known.output_shapes.as_list() == [4, 3]
    told = tf.function(lambda x: ops().native_tell(x, [x], 1, k=4)).get_concrete_function(tf.TensorSpec([4, 3]))
    assert told.output_shapes.as_list() == [4]


@on_hpu
def test_many_threads_and_items_give_the_same_bits() -> None:
    from habana_tf._native import _bridge

    x = tf.constant(np.random.default_rng(1).normal(size=(257, 33)).astype("f4"))
    before, found = _bridge.get_threads(), set()
    try:
        for threads in (1, 2, 5):
            _bridge.set_threads(threads)
            for _ in range(3):
                y, places = sort_rows()(x)
                found.add(y.numpy().tobytes() + places.numpy().tobytes())
    finally:
        _bridge.set_threads(before)
    assert len(found) == 1


@on_hpu
def test_an_op_of_tensorflow_that_hpu_has_not_by_a_kernel_in_c() -> None:
    assert ops().cross.signature is None
    a, b = (np.random.default_rng(k).normal(size=(5, 3)).astype("f4") for k in (0, 1))
    f = tf.function(lambda a, b: tf.linalg.cross(a * 2.0, b) + 1.0)
    np.testing.assert_allclose(f(tf.constant(a), tf.constant(b)), np.cross(2 * a, b) + 1, rtol=1e-5, atol=1e-6)
    assert "custom" in [k["does"] for k in kernels()]
    v = tf.Variable(a)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.linalg.cross(v, b))
    assert tape.gradient(y, v).shape == (5, 3)  # by TensorFlow's own gradient, which is Cross again


@on_hpu
def test_outputs_that_nobody_reads_and_empty_tensors() -> None:
    x = tf.constant([2.0, 4.0])
    assert tf.function(lambda x: ops().native_two(x)[0] + 1)(x).numpy().tolist() == [2, 3]
    assert tf.function(lambda x: ops().native_two(x)[1] + 1)(x).numpy().tolist() == [1, 2]
    assert [t.shape.as_list() for t in ops().native_two(tf.zeros([0, 3]))] == [[0, 3], [0, 3]]
    same = tf.function(lambda x: ops().native_two(ops().native_two(x)[0])[0])(x)
    assert same.numpy().tolist() == [0.5, 1]


@on_hpu
def test_it_works_in_a_loop_of_a_launch() -> None:
    @tf.function
    def f(x: Any) -> Any:
        def step(k: Any, x: Any) -> Any:
            return k + 1, ops().native_scale(x, by=0.5) + 1.0

        return tf.while_loop(lambda k, _: k < 4, step, (0, x))[1]

    np.testing.assert_allclose(f(tf.ones([2, 3])), np.full((2, 3), 5.0))  # by 2 * 0.5 each
    assert any(k["does"] == "custom" and k.get("times") == 4 for k in kernels())


@on_hpu
def test_a_training_step_with_a_kernel_in_it() -> None:
    @tf.RegisterGradient("NativeScale")
    def gradient(op: Any, dy: Any) -> Any:
        return ops().native_scale(dy, by=op.get_attr("by"))

    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(ops().native_scale(v, by=0.25)))
        v.assign_sub(0.5 * tape.gradient(loss, v))
        return loss

    assert float(step()) == 7.5  # (v / 2)^2
    np.testing.assert_allclose(v, [[0.75, 1.5], [2.25, 3.0]])
    from habana_tf.graph import bf16_config
    from habana_tf.graph.report import placement_report

    w = tf.constant(np.eye(2, dtype="f4"))
    with bf16_config.using(bf16_config.built_in("full")):
        y = tf.function(lambda x: ops().native_scale(tf.matmul(x, w)))(tf.constant([[1.0, 2.0]]))
    assert y.numpy().tolist() == [[2, 4]]
    assert ("NativeScale", "CONDITIONAL") in {(op, why.name) for op, why in placement_report().graphs[-1].precision}


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


THREE = """
#include "habana_kernel.h"
static int run(const habana_call* call, int64_t begin, int64_t end) { return 0; }
static const habana_kernel one = {.op = "NativeOne", .inputs = "x: float", .outputs = "y: float", .shapes = "x",
                                  .run = run};
static const habana_kernel two = {.op = "Relu", .attrs = "T: {float}", .shape = (void*)run, .run = run};
static const habana_kernel three = {%s, .run = run};
HABANA_KERNELS(&one, &two, &three)
"""
REFUSED = [
    '.op = "MatMul", .inputs = "x: float", .outputs = "y: float", .shapes = "x"',  # TensorFlow has it
    '.op = "NativeThree", .inputs = "x: nothing", .outputs = "y: float", .shapes = "x"',  # no such type
    '.op = "NativeThree", .inputs = "x: float", .outputs = "y: float", .shapes = "z"',  # no such input
    '.op = "NativeOne", .inputs = "x: float", .outputs = "y: float", .shapes = "x"',  # the first one again
    '.op = "NoSuchOp", .attrs = "T: {float}", .shape = (void*)run',
    '.op = "Exp", .attrs = "U: {float}", .shape = (void*)run',
]


@on_hpu
def test_a_library_with_a_kernel_that_is_refused_defines_none() -> None:
    import habana_tf
    from habana_tf.lowering.row import CUSTOM
    from habana_tf.tensorflow_facts import opdefs

    for k, third in enumerate(REFUSED):
        source = Path(_folder.name) / f"three{k}.c"
        source.write_text(THREE % third)
        build([str(source)], str(source.with_suffix(".so")), ["-w"])
        with pytest.raises(CustomOpError, match=f"three{k}.so"):
            habana_tf.load_op_library(source.with_suffix(".so"))
        assert not {"NativeOne", "NativeThree", "Relu", "Exp"} & set(CUSTOM), third
        assert opdefs.facts("NativeOne") is None, third


def test_loaded_libraries_keep_no_file_open(tmp_path: Path) -> None:
    text = SOURCE.read_text()
    for k in range(9):
        (tmp_path / "many.c").write_text(f"{text}\nint number_{k} = {k};\n")
        build([str(tmp_path / "many.c")], str(tmp_path / f"many{k}.so"))
    script = """
        import os, sys
        from habana_tf.ir import libraries
        before = sorted(os.listdir("/proc/self/fd"))
        loaded = [libraries.load(f"{sys.argv[1]}/many{k}.so") for k in range(9)]
        assert sorted(os.listdir("/proc/self/fd")) == before
        runs = {library.kernels[0].run for library in loaded}
        assert len(runs) == 9, "a library was taken for another one"
    """
    python(script, str(tmp_path))


ANEW = """
    import json, sys
    import tensorflow as tf, habana_tf
    import habana_frameworks.tensorflow as htf
    from habana_tf.custom.build import build
    try:
        htf.load_op_library("x.so")
    except RuntimeError as why:
        assert str(why) == "Habana module not initialized. Call load_habana_module() first.", why
    habana_tf.load_habana_module()
    source, path, factor, later = sys.argv[1:]
    build([source], path, ["-O1", f"-DFACTOR={factor}"])
    scale = habana_tf.load_op_library(path).native_scale
    x = tf.constant([1.0, 2.0])
    f = tf.function(lambda x: scale(x + 1.0) * 3.0)
    g = tf.function(lambda x: tf.tanh(x) * 2.0)
    y = f(x), scale(x), g(x)
    counts = habana_tf.cache.stats().counts()
    again = counts.compiled, counts.disk_hits
    with open(path, "r+b") as file:  # written over where it is: what is loaded is a copy
        file.truncate(0)
    assert f(x).numpy().tolist() == y[0].numpy().tolist()
    build([source], path, ["-O1", f"-DFACTOR={later}"])
    assert f(x).numpy().tolist() == y[0].numpy().tolist()
    habana_tf.load_op_library(path)
    assert f(x).numpy().tolist() == [6.0 * int(later), 9.0 * int(later)], f(x)
    g(x)
    assert habana_tf.cache.stats().counts().compiled == counts.compiled + 1
    print(json.dumps([y[0].numpy().tolist(), *again]))
"""


def test_a_library_that_is_built_anew_recompiles_exactly_what_uses_it(tmp_path: Path) -> None:
    def run(later: int) -> Any:
        folder = tmp_path / f"elsewhere{later}"
        folder.mkdir()
        words = str(SOURCE), str(folder / "kernels.so"), "2", str(later)
        return json.loads(python(ANEW, *words, imported=True, TF_RECIPE_CACHE_PATH=str(tmp_path / "cache")).stdout)

    assert run(10) == [[12.0, 18.0], 3, 0]
    assert run(11) == [[12.0, 18.0], 0, 3]


def test_the_header_is_where_sysconfig_says() -> None:
    import habana_tf

    assert include_dir() == Path(habana_tf.sysconfig.get_include_dir())
