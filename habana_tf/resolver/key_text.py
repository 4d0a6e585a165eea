"""Serializes what the compiler is given for recipe keys: all fields but those that are left out by name.

A field that is added to a program, a primitive or a target is in every key from then on, and costs recompilation.
One that decides nothing costs that, too, until it stands in `LEFT_OUT` with the reason. The other way round, a field
that was forgotten would let one recipe serve two programs.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from habana_tf.ir.extent import Expr
from habana_tf.ir.primitives import Loop, Node, Program
from habana_tf.resolver.provenance import Provenance

LEFT_OUT: dict[type, dict[str, str]] = {
    Program: {},
    Node: {"origin": "the op of the cluster that a node came from, for people: rows of reports name it, no code does"},
    Provenance: {
        "dims": "the sizes at hand of a range: what they decide is in the recipe's conditions, and sizes beyond these "
        "have a key with `beyond`",
    },
}
"""Of what the compiler is given, the fields that are in no key, each with the reason. A cluster is in keys by
`Cluster.computed`, which leaves out what it and its ops are called."""
ARGUMENTS_LEFT_OUT = {"name": "what people call the recipe: the digest of its key tells recipes of one name apart"}
"""The same of the arguments of `compiler.compile.compile_program`."""
SETTINGS_LEFT_OUT = {
    "HABANA_SIM_ISA": "what it comes to with this CPU is the target, which is in the key",
    "HABANA_SIM_CHECK_INDICES": "whether indices are checked is in all keys; what is done then is asked at binding",
    "HABANA_SIM_CHECK_KERNELS": "says how a kernel in C is called, and is asked when a recipe becomes a program",
}
"""The same of the settings that the compiler's sources read."""


def names(kind: Any) -> tuple[str, ...]:
    """The fields of a dataclass that are in keys, in their order."""
    return _names(kind)


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind) if f.name not in LEFT_OUT.get(kind, ()))


def program_text(program: Program) -> str:
    """A program as text: the same for the same computation, whatever its ops were called."""
    return "\n".join(_ProgramText(program).lines())


class _ProgramText:
    """Writes one program. Nodes are numbers, and a loop with several outputs is written once."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._nodes = {n: k for k, n in enumerate(dict.fromkeys((*program.inputs, *program.nodes())))}
        self._loops: dict[Loop, int] = {}

    def lines(self) -> Iterator[str]:
        """A line per node, sources first, then one per field of the program."""
        for node in self._nodes:
            yield " ".join([self._text(getattr(node, name)) for name in names(type(node))])
        for name in names(type(self._program)):
            yield f"{name} {self._text(getattr(self._program, name))}"

    def _text(self, value: Any) -> str:
        if isinstance(value, Node):
            return f"%{self._nodes[value]}"
        if isinstance(value, (tuple, list)):
            return f"[{','.join(map(self._text, value))}]"
        if isinstance(value, Enum):
            return value.name
        if isinstance(value, Expr):
            return str(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        if isinstance(value, bytes):
            return hashlib.sha256(value).hexdigest()
        if isinstance(value, Program):
            return f"(\n{program_text(value)}\n)"
        if isinstance(value, Loop):
            if value in self._loops:
                return f"loop {self._loops[value]}"
            self._loops[value] = len(self._loops)
        if is_dataclass(value):
            return f"{type(value).__name__}({','.join(self._text(getattr(value, n)) for n in names(type(value)))})"
        raise TypeError(f"a {type(value).__name__} in a program has no text for the recipe key: say it in plain data")
