"""Reads a program of one op from the text that `key_text.program_text` makes of it.

So programs are kept in a file that people can read and compare, and their text is that of their key. Only what
programs of single ops are made of is read: no states, loops, checks, or constants with more than one number.
"""

from __future__ import annotations

import ast
import re
from typing import Any

from habana_tf.ir import extent as ext
from habana_tf.ir.dtypes import DType
from habana_tf.ir.loop_nest import LoopNest, RegisterTile, RowBounds, StridedLoop, Window
from habana_tf.ir.primitives import Contraction, Node, Op, Program, Random, Scan, Sort
from habana_tf.resolver.key_text import program_text

_ARGUMENTS: dict[str, type] = {
    kind.__name__: kind
    for kind in (Contraction, LoopNest, Random, RegisterTile, RowBounds, Scan, Sort, StridedLoop, Window)
}
_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: ext.add, ast.Mult: ext.mul, ast.FloorDiv: ext.div, ast.Mod: ext.mod,
}  # fmt: skip


def read_program(text: str) -> Program:
    """The program of a text. Raises ValueError for a text that is not that of the program which it gives."""
    nodes: list[Node] = []
    ends: dict[str, list[Node]] = {"inputs": [], "outputs": []}
    try:
        for line in text.splitlines():
            if line.split(" ", 1)[0] in Op.__members__:
                nodes.append(_node(line, nodes))
                continue
            name, value = line.split(" ", 1)
            if name in ends:
                ends[name] = _sources(value, nodes)
    except (KeyError, IndexError, SyntaxError, TypeError) as error:
        raise ValueError(f"no program of one op: {error!r} in {line!r}") from error
    program = Program(ends["inputs"], ends["outputs"])
    if program_text(program) != text.rstrip("\n"):
        raise ValueError(f"what was read is another program:\n{program_text(program)}\ninstead of\n{text}")
    return program


def _node(line: str, before: list[Node]) -> Node:
    op, src, shape, dtype, arg = line.split(" ", 4)
    kind = Op[op]
    origin = -1 if kind is Op.INPUT else 0  # the cluster has one op
    return Node(kind, tuple(_sources(src, before)), _value(shape), DType[dtype], _value(arg), origin)


def _sources(text: str, nodes: list[Node]) -> list[Node]:
    return [nodes[int(number)] for number in re.findall(r"%(\d+)", text)]


def _value(text: str) -> Any:
    return _built(ast.parse(text, mode="eval").body)


def _built(tree: ast.expr) -> Any:
    """What a syntax tree stands for; nothing in it is executed."""
    match tree:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_built(operand)
        case ast.BinOp(left=left, op=operator, right=right):
            return _OPERATORS[type(operator)](_built(left), _built(right))
        case ast.List(elts=elements):
            return tuple(map(_built, elements))
        case ast.Name(id=name) if re.fullmatch(r"s\d+", name):
            return ext.sym(int(name[1:]))
        case ast.Name(id=name):
            return DType[name]
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _ARGUMENTS[name](*map(_built, arguments))
    raise SyntaxError(f"{ast.unparse(tree)} is in no program of one op")
