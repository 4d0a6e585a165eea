"""`load_op_library`: the ops of a library of kernels in C, as `habana-tf build-kernel` makes it of a source.

    library = habana_tf.load_op_library("my_kernel.so")
    y = library.my_op(x, k=3)

What: each kernel's op is defined (`custom.op`) with a lowering that calls the kernel
(`tensorflow.lowering.from_library`). In a cluster it is a kernel call of its own, on the threads of the runtime, with
its tensors in memory.

Loaded again after it was built anew, the library takes the place of the old one, and exactly the launches that use one
of its kernels are compiled anew: the digest of the file is in their keys.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from types import ModuleType
from typing import get_args

from habana_tf.custom import shapes as declared
from habana_tf.custom import signature as signatures
from habana_tf.custom.checked import output_types
from habana_tf.custom.op import CustomOp, OpOptions, define, lower_existing, make
from habana_tf.custom.signature import CustomOpError
from habana_tf.hardware import device_state
from habana_tf.ir import libraries
from habana_tf.tensorflow.facts import opdefs
from habana_tf.tensorflow.lowering.from_library import calling
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.row import Bf16List


def load_op_library(path: str | os.PathLike[str]) -> ModuleType:
    """Loads a library of kernels and gives a module with a function for each of its ops, as `tf.load_op_library` does.

    Raises RuntimeError before `load_habana_module()`, LibraryError for a file that is no library of kernels or was
    compiled for another version of `habana_kernel.h`, and CustomOpError for an op that cannot be defined; then none of
    the library's is.
    """
    if not device_state.is_loaded():
        raise RuntimeError("Habana module not initialized. Call load_habana_module() first.")
    library = libraries.load(path)
    module = ModuleType(os.path.basename(library.path), f"The ops of {library.path}.")
    try:
        ops = [_made(library, kernel) for kernel in library.kernels]
        define(ops)
    except CustomOpError as why:
        raise CustomOpError(f"{library.path}: {why}") from why
    for op in ops:
        setattr(module, opdefs.python_function(op.op).__name__, op)
    return module


def _made(library: libraries.Library, kernel: libraries.LibraryKernel) -> CustomOp:
    lists: dict[str | None, Bf16List | None] = {name: name for name in get_args(Bf16List)}
    if kernel.bf16 is not None and kernel.bf16 not in lists:
        raise CustomOpError(f"custom op {kernel.op!r}: {kernel.bf16!r} is not a list of the bf16 conversion")
    options = OpOptions(bf16=lists.get(kernel.bf16), says=functools.partial(_said, library.digest, kernel.op))
    if kernel.inputs is not None:
        signature = signatures.read(kernel.op, kernel.inputs, kernel.outputs or "", kernel.attrs)
        said = declared.read(signature, kernel.shapes)
        lower = calling(kernel, library.digest, output_types, functools.partial(_shapes, said))
        return make(signature, said, lower, options)
    types = signatures.type_attributes(kernel.op, kernel.attrs)
    if kernel.shapes is not None:
        raise CustomOpError(f"custom op {kernel.op!r}: of an op of TensorFlow's the function shape tells the shapes")
    return lower_existing(kernel.op, calling(kernel, library.digest, output_types, _none), types, options)


def _said(digest: str, op: str) -> str:
    return f"{digest} {op}"


def _none(c: Lowering) -> Sequence[Sequence[int]]:
    raise c.error("its kernel has no function for shapes")


def _shapes(said: declared.Shapes, c: Lowering) -> list[list[int]]:
    """The declared shapes of the outputs, now that all lengths are known."""
    out = []
    try:
        found = declared.evaluate(said, [x.shape for x in c.inputs], c.attrs)
    except IndexError as why:
        raise c.error(f"its declared shapes name {why}") from why
    for k, shape in enumerate(found):
        sizes = [n for n in shape or () if isinstance(n, int)]
        if shape is None or len(sizes) != len(shape):
            raise c.error(f"the shape of output {k} is not known: give the kernel a function shape")
        out.append(sizes)
    return out
