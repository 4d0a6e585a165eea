"""Remembers what each program of this process was made of, for timelines and for the model of a card.

A launch is recorded as the number of its program (kernels/runtime/timeline.h). This is the way back from there: the
cluster with the shapes it met, and the kernels of its recipe. Of both those resolved last are kept, up to a number and
up to so many bytes.
"""

from __future__ import annotations

import ast
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from habana_tf.cluster.cluster import Cluster
from habana_tf.compiler import compressed
from habana_tf.compiler.recipe import Kind
from habana_tf.ir import extent as ext
from habana_tf.ir.lifetimes import in_use
from habana_tf.resolver.provenance import Provenance

if TYPE_CHECKING:
    from habana_tf._native._bridge import Program as Bound
    from habana_tf.compiler.recipe import Buffer, Recipe
    from habana_tf.resolver.request import Request

MOST_PROGRAMS = 4096
MOST_BYTES = 64 << 20
"""Of clusters and descriptions of kernels."""


@dataclass(frozen=True)
class Made:
    """A program, explained.

    name: of its cluster. data: the cluster, serialized; read: reads it (`Cluster.read`). shapes, values: of its inputs
    (see `Provenance`). dims: the numbers behind the symbols of its recipe. rows: that recipe's kernels (see
    `compiler.describe`), compressed; empty where it is interpreted. buffers: what its kernel calls work on. how: where
    the recipe came from (see `recompilations.Met`). seconds: that took.
    """

    name: str
    data: bytes
    read: Callable[[bytes], Cluster]
    shapes: tuple[tuple[int, ...], ...]
    values: tuple[Any | None, ...]
    dims: tuple[int, ...]
    rows: bytes
    buffers: Sequence[Buffer]
    how: str
    seconds: float

    def kernels(self) -> list[dict[str, Any]]:
        """The rows of `compiler.describe` in call order, with numbers in the place of symbols; none of an interpreted
        program."""
        if not self.rows:
            return []
        rows: list[dict[str, Any]] = json.loads(compressed.take(self.rows))
        for row in rows:
            row["flops"], row["bytes"] = self._number(row["flops"]), self._number(row["bytes"])
            row["shape"] = [self._number(n) for n in row["shape"]]
            if "times" in row:
                row["times"] = self._number(row["times"])
        return rows

    def hbm(self) -> list[int]:
        """Bytes of HBM that a launch holds while each of its kernel calls runs: inputs, outputs, constants and what is
        alive of the workspace. Empty for an interpreted program."""
        sizes = [(b, ext.evaluate(b.nbytes, list(self.dims))) for b in self.buffers]
        always = sum(n for b, n in sizes if b.kind in (Kind.INPUT, Kind.OUTPUT, Kind.CONSTANT))
        passing = ((b.first, b.last, n) for b, n in sizes if b.kind is Kind.WORKSPACE)
        return [always + alive for alive in in_use(self.calls, passing)]

    @property
    def calls(self) -> int:
        """How many kernel calls a launch has."""
        return 1 + max((b.last for b in self.buffers), default=-1)

    def _number(self, extent: int | str) -> int:
        return extent if isinstance(extent, int) else number(extent, self.dims)

    def provenance(self) -> Provenance:
        """The cluster with what it met, to be lowered. Needs its front end."""
        return Provenance(self.read(self.data), self.shapes, self.values)

    def ops(self) -> list[tuple[str, str]]:
        """Type and name of the cluster's ops, in the order that `kernels` counts them. Needs its front end."""
        return [(node.op, node.name) for node in self.read(self.data).nodes]


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}


def number(extent: str, dims: Sequence[int]) -> int:
    """An extent's text (`ir.extent.Expr`) with numbers put in for s0, s1, ... Raises ValueError for other text."""

    def value(part: ast.expr) -> int:
        match part:
            case ast.Constant(value=int(found)):
                return found
            case ast.Name(id=name) if name[:1] == "s" and name[1:].isdecimal() and int(name[1:]) < len(dims):
                return dims[int(name[1:])]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -value(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](value(left), value(right))
        raise ValueError(f"{extent!r} is no extent over {len(dims)} symbols")

    return value(ast.parse(extent, mode="eval").body)


class Programs:
    """The programs resolved last, by number."""

    def __init__(self, most: int = MOST_PROGRAMS, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes, self._bytes = most, most_bytes, 0
        self._lock = threading.Lock()
        self._made: OrderedDict[int, Made] = OrderedDict()

    def remember(self, number: int, made: Made) -> None:
        """Keeps what a program was made of; the first time counts."""
        with self._lock:
            if number in self._made:
                self._made.move_to_end(number)
                return
            self._made[number] = made
            self._bytes += _size(made)
            while len(self._made) > self._most or (self._bytes > self._most_bytes and len(self._made) > 1):
                self._bytes -= _size(self._made.popitem(last=False)[1])

    def find(self, number: int) -> Made | None:
        """What a program was made of; None where it was resolved too long ago."""
        with self._lock:
            return self._made.get(number)


def _size(made: Made) -> int:
    return len(made.data) + len(made.rows)


_programs = Programs()


def remember(bound: Bound, request: Request, recipe: Recipe | None, dims: Sequence[int], how: str, took: float) -> None:
    """Notes what a program is made of. recipe: None where it is interpreted."""
    from habana_tf._native import _bridge

    rows, buffers = (b"", []) if recipe is None else (recipe.described, recipe.buffers)
    cluster, shapes, values = request.cluster, tuple(request.shapes), tuple(request.values)
    _programs.remember(
        _bridge.program_number(bound),
        Made(cluster.name, cluster.data, cluster.read, shapes, values, tuple(dims), rows, buffers, how, took),
    )


def find(number: int) -> Made | None:
    """See `Programs.find`."""
    return _programs.find(number)
