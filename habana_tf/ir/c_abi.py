"""The C interface of custom kernels: the structures of `habana_kernel.h` in ctypes, and calls through them.

Any change of a structure, here and in the header, needs a new `ABI` version (tests/custom/test_library.py compares
them).
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from habana_tf.ir.dtypes import DType

ABI = 1
MAX_RANK = 8
_MESSAGE = 512

_i64p = ctypes.POINTER(ctypes.c_int64)


class CTensor(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("shape", _i64p), ("rank", ctypes.c_int32), ("dtype", ctypes.c_int32))


class CAttr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("ints", _i64p),
        ("floats", ctypes.POINTER(ctypes.c_double)),
        ("text", ctypes.c_char_p),
        ("count", ctypes.c_int64),
    )


class CCall(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("num_inputs", ctypes.c_int32),
        ("num_outputs", ctypes.c_int32),
        ("num_attrs", ctypes.c_int32),
        ("inputs", ctypes.POINTER(CTensor)),
        ("outputs", ctypes.POINTER(CTensor)),
        ("attrs", ctypes.POINTER(CAttr)),
        ("items", ctypes.c_int64),
        ("workspace", ctypes.c_void_p),
        ("workspace_bytes", ctypes.c_int64),
        ("error", ctypes.c_void_p),
        ("error_size", ctypes.c_int64),
    )


def _address(value: Any) -> int:
    return ctypes.addressof(value)


class CKernel(ctypes.Structure):
    _fields_ = (
        ("op", ctypes.c_char_p),
        ("inputs", ctypes.c_char_p),
        ("outputs", ctypes.c_char_p),
        ("attrs", ctypes.c_char_p),
        ("shapes", ctypes.c_char_p),
        ("shape", ctypes.c_void_p),
        ("bf16", ctypes.c_char_p),
        ("items", ctypes.c_void_p),
        ("workspace", ctypes.c_void_p),
        ("run", ctypes.c_void_p),
    )


class CLibrary(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint32),
        ("kernel_size", ctypes.c_uint32),
        ("count", ctypes.c_int64),
        ("kernels", ctypes.POINTER(ctypes.POINTER(CKernel))),
    )


Attribute = tuple[str, str, tuple[int | float | str, ...]]
"""(name, "int", "float" or "text", values)."""


def attribute(name: str, value: Any) -> Attribute | None:
    """An op's attribute as a library gets it; None for kinds that are not passed (element types)."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if all(isinstance(v, (bool, int)) for v in values):
        return name, "int", tuple(int(v) for v in values)
    if all(isinstance(v, (int, float)) for v in values):
        return name, "float", tuple(float(v) for v in values)
    if len(values) == 1 and isinstance(values[0], str):
        return name, "text", values
    return None


class CallFrame:
    """A `habana_call` structure, with the memory that its pointers refer to.

    inputs, outputs: (element type, shape) of each; outputs: their number, for a call that infers their shapes.
    """

    def __init__(
        self, inputs: Sequence[tuple[DType, Sequence[int]]], outputs: Sequence[tuple[DType, Sequence[int]]] | int,
        attrs: Sequence[Attribute],
    ) -> None:  # fmt: skip
        self._kept: list[Any] = []
        self.inputs = self._tensors(inputs)
        self.outputs = None if isinstance(outputs, int) else self._tensors(outputs)
        self.message = ctypes.create_string_buffer(_MESSAGE)
        given = (CAttr * max(1, len(attrs)))(*(self._attr(*attr) for attr in attrs))
        self.c = CCall(
            ABI, len(inputs), outputs if isinstance(outputs, int) else len(outputs), len(attrs), self.inputs,
            self.outputs, given, 0, None, 0, ctypes.addressof(self.message), _MESSAGE,
        )  # fmt: skip
        self._kept.append(given)

    def shapes(self, function: int) -> list[tuple[int, ...]]:
        """The outputs' shapes by the library's shape function. Raises ValueError with its message, or with that of a
        C++ exception (caught by the bridge)."""
        from habana_tf._native import _bridge

        count = self.c.num_outputs
        sizes = ((ctypes.c_int64 * MAX_RANK) * max(1, count))()
        ranks = (ctypes.c_int32 * max(1, count))()
        code = _bridge.kernel_shapes(function, _address(self.c), _address(sizes), _address(ranks))
        if code:
            raise ValueError(self.error(code))
        found = []
        for k in range(count):
            if not 0 <= ranks[k] <= MAX_RANK:
                raise ValueError(f"its shape function gave output {k} the rank {ranks[k]}; there are 0 to {MAX_RANK}")
            shape = tuple(sizes[k][: ranks[k]])
            if any(n < 0 for n in shape):
                raise ValueError(f"its shape function gave output {k} the shape {list(shape)}")
            found.append(shape)
        return found

    def number(self, function: int, what: str) -> int:
        """The result of a function of the library, at least 0. Raises ValueError for less, and for an exception."""
        from habana_tf._native import _bridge

        found = _bridge.kernel_number(function, _address(self.c))
        if found < 0:
            raise ValueError(f"its function for {what} gave {found}")
        return found

    def run(self, function: int, items: int, workspace: int, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Runs all work items on NumPy arrays. Raises ValueError with the kernel's message."""
        from habana_tf._native import _bridge

        for tensors, arrays in ((self.inputs, inputs), (self.outputs, outputs)):
            for k, array in enumerate(arrays):
                assert tensors is not None
                tensors[k].data = array.ctypes.data
        room = ctypes.create_string_buffer(workspace + 64)
        self.c.items, self.c.workspace_bytes = items, workspace
        self.c.workspace = (ctypes.addressof(room) + 63) // 64 * 64
        code = _bridge.kernel_run(function, _address(self.c), items) if items else 0
        if code:
            raise ValueError(self.error(code))

    def error(self, code: int) -> str:
        """The error message of a function that returned this code."""
        text = self.message.value.decode("utf-8", "replace")
        return text or f"it returned {code} and no message (habana_fail writes one)"

    def _tensors(self, tensors: Sequence[tuple[DType, Sequence[int]]]) -> Any:
        made = (CTensor * max(1, len(tensors)))()
        for k, (dtype, shape) in enumerate(tensors):
            sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
            self._kept.append(sizes)
            made[k] = CTensor(None, sizes, len(shape), dtype.number)
        self._kept.append(made)
        return made

    def _attr(self, name: str, kind: str, values: Sequence[Any]) -> CAttr:
        if kind == "text":
            return CAttr(name.encode(), None, None, values[0].encode(), 1)
        array: Any = (ctypes.c_int64 if kind == "int" else ctypes.c_double) * max(1, len(values))
        held = array(*values)
        self._kept.append(held)
        return CAttr(name.encode(), *((held, None) if kind == "int" else (None, held)), None, len(values))


def text(value: bytes | None) -> str | None:
    """A C string."""
    return None if value is None else value.decode("utf-8", "replace")


def kernels_of(library: CLibrary) -> list[Mapping[str, Any]]:
    """The fields of a library's kernels."""
    return [
        {name: getattr(library.kernels[k].contents, name) for name, *_ in CKernel._fields_}
        for k in range(library.count)
    ]
