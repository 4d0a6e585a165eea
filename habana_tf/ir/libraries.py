"""Libraries of kernels in C that this process has loaded, by the digest of their content.

What is loaded is a copy of the file as it was read, so that its digest is that of the code which runs: a file that is
built anew, or written over, is another library, which a program may load beside the first. A recipe says which library
it needs by digest and never by path. No library is let go: launches may be under way in it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from habana_tf.ir import c_abi
from habana_tf.ir.primitives import Custom, Node


class LibraryError(ValueError):
    """A library of kernels that cannot be loaded, or is not there; the message says what to do."""

    tf_code = 9
    """TensorFlow's FAILED_PRECONDITION."""


class KernelError(ValueError):
    """A kernel, or a function that says something of it, reports an error."""

    tf_code = 3
    """TensorFlow's INVALID_ARGUMENT."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a library. shape, items, workspace, run: addresses of its functions, 0 for those it has not."""

    op: str
    inputs: str | None
    outputs: str | None
    attrs: str
    shapes: str | None
    shape: int
    items: int
    workspace: int
    run: int
    bf16: str | None


@dataclass(frozen=True)
class Library:
    """path: where it was loaded from, for messages."""

    path: str
    digest: str
    kernels: tuple[Kernel, ...]


_LOADED: dict[str, Library] = {}
_held: list[Any] = []


def load(path: str | os.PathLike[str]) -> Library:
    """The library in a file; the one that is loaded where a file of the same content is. Raises LibraryError."""
    where = os.fspath(path)
    try:
        code = Path(where).read_bytes()
    except OSError as why:
        raise LibraryError(f"no library of kernels can be read from {where!r}: {why.strerror or why}") from why
    digest = hashlib.sha256(code).hexdigest()
    if digest not in _LOADED:
        _LOADED[digest] = Library(where, digest, tuple(_kernels(where, _opened(where, code))))
    return _LOADED[digest]


def find(spec: Custom) -> Kernel:
    """The kernel that a node calls. Raises LibraryError where its library is not loaded."""
    for kernel in _LOADED[spec.library].kernels if spec.library in _LOADED else ():
        if kernel.op == spec.op:
            return kernel
    raise LibraryError(
        f"{spec.op} needs the kernel of a library with the SHA-256 {spec.library[:16]}..., which this process has not "
        "loaded: call habana_tf.load_op_library with its path first"
    )


def path_of(spec: Custom) -> str:
    """Where the library of a node was loaded from."""
    return _LOADED[spec.library].path if spec.library in _LOADED else "a library that is not loaded"


def run(spec: Custom, src: Sequence[Node], arrays: Sequence[Any]) -> list[Any]:
    """The outputs of a kernel: what a CUSTOM node means. Raises KernelError."""
    import numpy as np

    kernel = find(spec)
    given = [np.require(x, requirements=["C", "A"]) for x in arrays]
    made = [np.zeros(shape, dtype.numpy) for dtype, shape in spec.outputs]
    types = [(n.dtype, x.shape) for n, x in zip(src, given, strict=True)]
    call = c_abi.Call(types, [(d, s) for d, s in spec.outputs], spec.attrs)
    try:
        call.run(kernel.run, spec.items, spec.workspace, given, made)
    except ValueError as why:
        raise KernelError(f"{spec.op}: its kernel in {path_of(spec)} says: {why}") from why
    return made


_LONGEST = 249
"""Bytes that the name of such a copy may have (memfd_create(2)); a file's may have 255."""


def _opened(where: str, code: bytes) -> Any:
    """A copy that nobody else can change, loaded. The loader tells libraries apart by their names, and a file's number
    is used again once it is closed: the slashes in the name are the number of the library, in binary."""
    handle = os.memfd_create(os.fsdecode(os.fsencode(os.path.basename(where))[:_LONGEST]), os.MFD_CLOEXEC)
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(code)
    apart = "".join("./" if bit == "1" else "/" for bit in f"{len(_held):b}")
    path = f"/proc/self/fd/{apart}{handle}"
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as why:
        said = str(why).replace(path, where)
        raise LibraryError(f"{where} cannot be loaded as a library: {said}. {_BUILD}") from why
    finally:
        os.close(handle)
    _held.append(library)
    return library


_BUILD = "Build it with: habana-tf build-kernel my_kernel.c -o my_kernel.so"


def _kernels(where: str, library: Any) -> Iterator[Kernel]:
    try:
        entry = library.habana_kernels
    except AttributeError:
        raise LibraryError(
            f"{where} exports no habana_kernels, so it is no library of kernels for habana_tf: HABANA_KERNELS(&kernel) "
            f"at the end of its source makes one. {_BUILD} (libraries for Habana's own bridge do not work here, and "
            "those of TensorFlow's ops are for tf.load_op_library)"
        ) from None
    entry.restype = ctypes.POINTER(c_abi.CLibrary)
    found = entry()
    if not found:
        raise LibraryError(f"{where}: habana_kernels() gave no kernels")
    said = found.contents
    if said.abi != c_abi.ABI or said.kernel_size != ctypes.sizeof(c_abi.CKernel):
        raise LibraryError(
            f"{where} was compiled for version {said.abi} of habana_kernel.h, and this habana_tf has version "
            f"{c_abi.ABI}: build it again from its source. {_BUILD}"
        )
    for fields in c_abi.kernels_of(said):
        op = c_abi.text(fields["op"])
        if not op or not fields["run"]:
            raise LibraryError(f"{where}: a kernel without {'the function run' if op else 'the name of an op'}")
        if fields["shapes"] is None and not fields["shape"]:
            raise LibraryError(f"{where}: the kernel of {op} says nothing of its outputs' shapes: give shapes or shape")
        yield Kernel(
            op, c_abi.text(fields["inputs"]), c_abi.text(fields["outputs"]), c_abi.text(fields["attrs"]) or "",
            c_abi.text(fields["shapes"]), fields["shape"] or 0, fields["items"] or 0, fields["workspace"] or 0,
            fields["run"], c_abi.text(fields["bf16"]),
        )  # fmt: skip
