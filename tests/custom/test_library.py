"""Libraries of kernels in C: built, loaded, called by the interpreter, refused, and built anew."""

from __future__ import annotations

import ctypes
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from habana_tf.custom import CustomOpError, LibraryError
from habana_tf.custom.build import build, include_dir
from habana_tf.ir import c_abi, interpreter, libraries
from habana_tf.ir.builder import Builder, ShapeError
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Custom, Program
from tests.child import on_hpu, python
from tests.custom.libraries import FOLDER, SOURCE, built

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


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
    from habana_tf.tensorflow.facts import opdefs
    from habana_tf.tensorflow.lowering.row import CUSTOM

    for k, third in enumerate(REFUSED):
        source = Path(FOLDER.name) / f"three{k}.c"
        source.write_text(THREE % third)
        build([str(source)], str(source.with_suffix(".so")), ["-w"])
        with pytest.raises(CustomOpError, match=f"three{k}.so"):
            habana_tf.load_op_library(source.with_suffix(".so"))
        assert not {"NativeOne", "NativeThree", "Relu", "Exp"} & set(CUSTOM), third
        assert opdefs.facts("NativeOne") is None, third


def test_loaded_libraries_keep_no_file_open(tmp_path: Path) -> None:
    text = SOURCE.read_text()
    for k in range(3):
        (tmp_path / "many.c").write_text(f"{text}\nint number_{k} = {k};\n")
        build([str(tmp_path / "many.c")], str(tmp_path / f"many{k}.so"))
    script = """
        import os, sys
        from habana_tf.ir import libraries
        before = sorted(os.listdir("/proc/self/fd"))
        loaded = [libraries.load(f"{sys.argv[1]}/many{k}.so") for k in range(3)]
        assert sorted(os.listdir("/proc/self/fd")) == before
        runs = {library.kernels[0].run for library in loaded}
        assert len(runs) == 3, "a library was taken for another one"
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
