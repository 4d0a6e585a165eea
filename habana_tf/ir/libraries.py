"""Loaded libraries of custom kernels in C, keyed by the SHA-256 of the file.

A private copy of the file is loaded, so that the digest belongs to the code that runs: a rebuilt file is another
library and may be loaded beside the first. Recipes refer to libraries by digest, never by path. Libraries are never
unloaded, since launches may be running in them.
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
    """A library of kernels that cannot be loaded, or is not loaded; the message says what to do."""

    status_code = 9
    """The status FAILED_PRECONDITION."""


class KernelError(ValueError):
    """A custom kernel, or its shape function, reports an error."""

    status_code = 3
    """The status INVALID_ARGUMENT."""


@dataclass(frozen=True)
class LibraryKernel:
    """A kernel of a library. shape, items, workspace, run: addresses of its functions, or 0."""

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
    """A loaded library. path: of the file, for messages."""

    path: str
    digest: str
    kernels: tuple[LibraryKernel, ...]


_LOADED: dict[str, Library] = {}
_handles: list[Any] = []


def load(path: str | os.PathLike[str]) -> Library:
    """Loads the library in a file, or finds a loaded one of the same content. Raises LibraryError."""
    where = os.fspath(path)
    try:
        code = Path(where).read_bytes()
    except OSError as why:
        raise LibraryError(f"no library of kernels can be read from {where!r}: {why.strerror or why}") from why
    digest = hashlib.sha256(code).hexdigest()
    if digest not in _LOADED:
        _LOADED[digest] = Library(where, digest, tuple(_kernels(where, _open_copy(where, code))))
    return _LOADED[digest]


def find(spec: Custom) -> LibraryKernel:
    """The kernel of a CUSTOM node. Raises LibraryError if its library is not loaded."""
    for kernel in _LOADED[spec.library].kernels if spec.library in _LOADED else ():
        if kernel.op == spec.op:
            return kernel
    raise LibraryError(
        f"{spec.op} needs the kernel of a library with the SHA-256 {spec.library[:16]}..., which this process has not "
        "loaded: call habana_tf.load_op_library with its path first"
    )


def path_of(spec: Custom) -> str:
    """The path that a node's library was loaded from."""
    return _LOADED[spec.library].path if spec.library in _LOADED else "a library that is not loaded"


def run(spec: Custom, src: Sequence[Node], arrays: Sequence[Any]) -> list[Any]:
    """Runs a custom kernel: the meaning of a CUSTOM node. Raises KernelError."""
    import numpy as np

    kernel = find(spec)
    given = [np.require(x, requirements=["C", "A"]) for x in arrays]
    made = [np.zeros(shape, dtype.numpy) for dtype, shape in spec.outputs]
    types = [(n.dtype, x.shape) for n, x in zip(src, given, strict=True)]
    call = c_abi.CallFrame(types, [(d, s) for d, s in spec.outputs], spec.attrs)
    try:
        call.run(kernel.run, spec.items, spec.workspace, given, made)
    except ValueError as why:
        raise KernelError(f"{spec.op}: its kernel in {path_of(spec)} says: {why}") from why
    return made


_LONGEST = 249
"""The most bytes in the name of an in-memory file (memfd_create(2)); a file's may have 255."""


def _open_copy(where: str, code: bytes) -> Any:
    """Loads a library from an in-memory copy, which no other process can change. The dynamic loader identifies
    libraries by path, and descriptors are reused: redundant "/" and "./" encode the library's number in the path."""
    handle = os.memfd_create(os.fsdecode(os.fsencode(os.path.basename(where))[:_LONGEST]), os.MFD_CLOEXEC)
    with os.fdopen(os.dup(handle), "wb") as file:
        file.write(code)
    apart = "".join("./" if bit == "1" else "/" for bit in f"{len(_handles):b}")
    path = f"/proc/self/fd/{apart}{handle}"
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError as why:
        said = str(why).replace(path, where)
        raise LibraryError(f"{where} cannot be loaded as a library: {said}. {_BUILD}") from why
    finally:
        os.close(handle)
    _handles.append(library)
    return library


_BUILD = "Build it with: habana-tf build-kernel my_kernel.c -o my_kernel.so"


def _kernels(where: str, library: Any) -> Iterator[LibraryKernel]:
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
        yield LibraryKernel(
            op, c_abi.text(fields["inputs"]), c_abi.text(fields["outputs"]), c_abi.text(fields["attrs"]) or "",
            c_abi.text(fields["shapes"]), fields["shape"] or 0, fields["items"] or 0, fields["workspace"] or 0,
            fields["run"], c_abi.text(fields["bf16"]),
        )  # fmt: skip
