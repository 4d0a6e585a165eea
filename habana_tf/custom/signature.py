"""The inputs, outputs and attributes of a program's own op, in the words of TensorFlow's OpDefs, checked and rewritten.

    inputs    "x: T, scale: float, parts: N * T"      a tensor each, of a type or of a type attribute; or N of them
    outputs   "y: T, order: int32"
    attrs     "beta: float = 1.0, axis: int = -1"     int, float, bool, string, list(int), list(float)
    types     T = (float32, bfloat16)                 or among the attributes: "T: {float, bfloat16} = float"

Why: TensorFlow ends the process over an OpDef from its C API that is wrong or exists already. So the user's text is
parsed here, refused with a sentence if it is wrong, and written anew.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from habana_tf.ir.dtypes import DType
from habana_tf.tensorflow.lowering.row import ALL


class CustomOpError(ValueError):
    """An op, a lowering or a library of kernels that cannot be taken as it stands; the message says what to do."""


NAMES = {("float" if d is DType.F32 else d.label): d for d in ALL}
"""Element types of HPU as OpDefs call them."""
_SPELLINGS = {**NAMES, "float32": DType.F32}
KINDS = ("int", "float", "bool", "string", "list(int)", "list(float)")
"""Of attributes, beside element types and how many tensors there are."""

_OP = re.compile(r"[A-Z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")
_ARGUMENT = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_ATTR = re.compile(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*")
_TEXT = re.compile(r"[^\"'\\\x00-\x1f\x7f-\uffff]*")
_TYPES = (
    "float", "double", "half", "bfloat16", "float16", "float32", "float64", "float8_e5m2", "float8_e4m3fn", "int4",
    "int8", "int16", "int32", "int64", "uint4", "uint8", "uint16", "uint32", "uint64", "qint8", "quint8", "qint16",
    "quint16", "qint32", "bool", "string", "complex64", "complex128", "resource", "variant",
)  # fmt: skip
"""What TensorFlow reads as an element type, and takes for no name of an attribute."""
_RESERVED = frozenset({"name", "ctx", "tf", "self", "tld", "isinstance", "len", "list", "tuple"})
"""What TensorFlow's Python function of an op uses by these names itself."""


@dataclass(frozen=True)
class Argument:
    """An input or output. dtype: its element type, or None where `type_attr` says it. number_attr: how many."""

    name: str
    dtype: DType | None
    type_attr: str = ""
    number_attr: str = ""

    def text(self) -> str:
        kind = self.type_attr or _name(self.dtype)
        return f"{self.name}: {self.number_attr} * {kind}" if self.number_attr else f"{self.name}: {kind}"


@dataclass(frozen=True)
class Attribute:
    """kind: "type", "number", or one of `KINDS`. default: None where the caller has to say it."""

    name: str
    kind: str
    default: Any = None
    allowed: tuple[DType, ...] = ()

    def text(self) -> str:
        if self.kind == "type":
            kinds = "{" + ", ".join(map(_name, self.allowed)) + "}"
            return f"{self.name}: {kinds}" + (f" = DT_{_name(self.default).upper()}" if self.default else "")
        if self.kind == "number":
            return f"{self.name}: int >= 1"
        return f"{self.name}: {self.kind}" + ("" if self.default is None else f" = {_written(self.default)}")


@dataclass(frozen=True)
class OpSignature:
    """An op as it is registered with TensorFlow."""

    op: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    attrs: tuple[Attribute, ...] = ()

    @property
    def types(self) -> dict[str, tuple[DType, ...]]:
        """Allowed element types by type attribute."""
        return {a.name: a.allowed for a in self.attrs if a.kind == "type"}

    def texts(self) -> tuple[list[str], list[str], list[str]]:
        """Inputs, outputs and attributes as TensorFlow reads them."""
        return [a.text() for a in self.inputs], [a.text() for a in self.outputs], [a.text() for a in self.attrs]


@dataclass
class _SignatureReader:
    """What is being read, for messages."""

    op: str
    attrs: dict[str, Attribute] = field(default_factory=dict)

    def error(self, what: str) -> CustomOpError:
        return CustomOpError(f"custom op {self.op!r}: {what}")

    def type(self, name: str) -> DType:
        found = _SPELLINGS.get(name.strip())
        if found is None:
            raise self.error(f"{name.strip()!r} is not an element type of HPU; there are {', '.join(NAMES)}")
        return found

    def types(self, name: str, allowed: Sequence[DType]) -> tuple[DType, ...]:
        """Those that a type attribute allows, each once."""
        if isinstance(allowed, (str, DType)) or not isinstance(allowed, Iterable):
            raise self.error(f"{name}={allowed!r} must be a list of element types, as in {name}=FLOATS")
        return tuple(dict.fromkeys(allowed))

    def attribute(self, text: str) -> None:
        """name: kind, or name: kind = default."""
        name, colon, rest = text.partition(":")
        name, (kind, equals, default) = name.strip(), rest.partition("=")
        kind = kind.strip()
        if not colon:
            raise self.error(f"attribute {text.strip()!r} must be written as 'name: kind' or 'name: kind = default'")
        if kind.startswith("{") and kind.endswith("}"):
            allowed = tuple(dict.fromkeys(self.type(each) for each in kind[1:-1].split(",")))
            chosen = self.type(default.strip().removeprefix("DT_").lower()) if equals else None
            self.add(Attribute(name, "type", chosen, allowed))
            return
        if kind not in KINDS:
            raise self.error(f"attribute {name!r} is of no kind {kind!r}; there are {', '.join(KINDS)} and {{types}}")
        self.add(Attribute(name, kind, self.value(name, kind, default.strip()) if equals else None))

    def value(self, name: str, kind: str, text: str) -> Any:
        """A default as text."""
        try:
            found = {"true": True, "false": False}[text.lower()] if kind == "bool" else ast.literal_eval(text)
            return _checked(kind, found)
        except (KeyError, SyntaxError, TypeError, ValueError):
            raise self.error(f"{text!r} is not a default for attribute {name!r} of kind {kind}") from None

    def add(self, attr: Attribute) -> None:
        if not _ATTR.fullmatch(attr.name) or attr.name in _RESERVED or keyword.iskeyword(attr.name):
            raise self.error(f"{attr.name!r} is not a name for an attribute")
        if attr.name.removesuffix("_ref") in _TYPES:
            raise self.error(f"{attr.name!r} is an element type, and not a name for an attribute")
        if attr.name in self.attrs:
            raise self.error(f"attribute {attr.name!r} is there twice")
        if attr.kind == "string" and attr.default is not None and not _TEXT.fullmatch(attr.default):
            raise self.error(f"the default of {attr.name!r} has characters that a default cannot have")
        if attr.kind == "type" and not attr.allowed:
            raise self.error(f"type attribute {attr.name!r} allows no element type")
        for dtype in (*attr.allowed, *([attr.default] if attr.kind == "type" and attr.default else [])):
            if dtype not in ALL:
                raise self.error(f"{dtype} is not an element type of HPU; there are {', '.join(NAMES)}")
        if attr.kind == "type" and attr.default is not None and attr.default not in attr.allowed:
            raise self.error(f"the default of {attr.name!r} is not among the types it allows")
        self.attrs[attr.name] = attr

    def argument(self, text: str) -> Argument:
        """name: type, or name: N * type."""
        name, colon, kind = (part.strip() for part in text.partition(":"))
        if not colon or not _ARGUMENT.fullmatch(name) or name in _RESERVED or keyword.iskeyword(name):
            raise self.error(f"argument {text.strip()!r} must be written as 'name: type', its name in small letters")
        number, star, rest = (part.strip() for part in kind.partition("*"))
        if star:
            kind = rest
            if number not in self.attrs:
                self.add(Attribute(number, "number"))
            elif self.attrs[number].kind != "number":
                raise self.error(f"{number!r} says how many tensors {name!r} has, so it cannot be an attribute")
        count = number if star else ""
        if kind in self.attrs:
            if self.attrs[kind].kind != "type":
                raise self.error(f"{kind!r}, the type of {name!r}, is an attribute of another kind")
            return Argument(name, None, kind, count)
        if kind not in _SPELLINGS:
            raise self.error(
                f"{kind!r}, the type of {name!r}, is neither a type attribute ({kind}=FLOATS) nor an element type of "
                f"HPU: {', '.join(NAMES)}"
            )
        return Argument(name, _SPELLINGS[kind], "", count)


def read(
    op: str,
    inputs: str | Sequence[str],
    outputs: str | Sequence[str],
    attrs: str | Mapping[str, Any] = "",
    types: Mapping[str, Sequence[DType]] | None = None,
) -> OpSignature:
    """The signature of an op.

    attrs: text as above, or a value by name: a default, or one of the types int, float, bool and str for an attribute
    that the caller must give. types: the element types that type attributes allow. Raises CustomOpError.
    """
    reader = _SignatureReader(op)
    if not _OP.fullmatch(op):
        raise reader.error("the name of an op begins with a capital and has letters and digits, as in 'ScaledSwish'")
    for name, allowed in (types or {}).items():
        reader.add(Attribute(name, "type", None, reader.types(name, allowed)))
    if isinstance(attrs, str):
        for text in _split(attrs):
            reader.attribute(text)
    else:
        for name, value in attrs.items():
            reader.add(_from_value(reader, name, value))
    taken, given = ([reader.argument(each) for each in _several(part)] for part in (inputs, outputs))
    names = [*(a.name for a in taken), *(a.name for a in given), *reader.attrs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise reader.error(f"{', '.join(twice)} is the name of several arguments or attributes")
    if not given:
        raise reader.error("an op without outputs computes nothing")
    inferred = {name for a in taken for name in (a.type_attr, a.number_attr)}
    for attr in reader.attrs.values():
        if attr.kind == "number" and attr.name not in inferred:
            raise reader.error(f"{attr.name!r}, a number of outputs, is that of no input")
        if attr.kind == "type" and attr.name not in {*inferred, *(a.type_attr for a in given)}:
            raise reader.error(f"type attribute {attr.name!r} is the type of no argument")
    return OpSignature(op, tuple(taken), tuple(given), tuple(reader.attrs.values()))


def chosen_types(op: str, types: Mapping[str, Sequence[DType]]) -> dict[str, tuple[DType, ...]]:
    """The element types that a program names, each once. Raises CustomOpError."""
    return {name: _SignatureReader(op).types(name, allowed) for name, allowed in types.items()}


def type_attributes(op: str, attrs: str) -> dict[str, tuple[DType, ...]]:
    """The type attributes in a text, for an op of TensorFlow's. Raises CustomOpError."""
    reader = _SignatureReader(op)
    for text in _split(attrs):
        reader.attribute(text)
    others = [a.name for a in reader.attrs.values() if a.kind != "type"]
    if others:
        raise reader.error(f"it is an op of TensorFlow's, which has its attributes; {', '.join(others)} are not types")
    return {a.name: a.allowed for a in reader.attrs.values()}


def _from_value(reader: _SignatureReader, name: str, value: Any) -> Attribute:
    """An attribute by its default, or by a Python type."""
    if isinstance(value, type):
        kind = {int: "int", float: "float", bool: "bool", str: "string"}.get(value)
        if kind is None:
            raise reader.error(f"attribute {name!r} is of no kind {value.__name__}; there are int, float, bool and str")
        return Attribute(name, kind)
    for python, kind in ((bool, "bool"), (int, "int"), (float, "float"), (str, "string")):
        if isinstance(value, python):
            return Attribute(name, kind, reader.value(name, kind, repr(python(value))))
    if isinstance(value, (list, tuple)) and value and {*map(type, value)} <= {int, float}:
        kind = "list(int)" if {*map(type, value)} == {int} else "list(float)"
        return Attribute(name, kind, reader.value(name, kind, repr(list(value))))
    raise reader.error(
        f"{value!r} is not a default for attribute {name!r}: a number, a text, or a list of numbers that is not empty"
    )


def _several(text: str | Sequence[str]) -> list[str]:
    return _split(text) if isinstance(text, str) else [each for part in text for each in _split(part)]


def _split(text: str) -> list[str]:
    """At the commas that are in no bracket and no quotation."""
    out, depth, start, quoted = [], 0, 0, ""
    for k, c in enumerate(text):
        if quoted:
            quoted = "" if c == quoted else quoted
        elif c in "\"'":
            quoted = c
        elif c in "{[(":
            depth += 1
        elif c in "}])":
            depth -= 1
        elif c == "," and depth == 0:
            out.append(text[start:k])
            start = k + 1
    return [part for part in (*out, text[start:]) if part.strip()]


def _checked(kind: str, value: Any) -> Any:
    """A default of a kind. Raises ValueError or TypeError for one that is none, or that an attribute cannot hold: whole
    numbers have 64 bits there, and others are fp32."""
    if kind.startswith("list("):
        return [_checked(kind[5:-1], each) for each in value]
    if kind == "int" and type(value) is int and -(1 << 63) <= value < 1 << 63:
        return value
    if kind == "float" and type(value) in (int, float) and abs(value) <= _LARGEST:
        return float(value)
    if (kind, type(value)) in (("bool", bool), ("string", str)):
        return value
    raise ValueError(value)


_LARGEST = (2 - 2**-23) * 2.0**127
"""The largest float32."""


def _written(value: Any) -> str:
    """A default as protobuf's text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return repr(value)


def _name(dtype: DType | None) -> str:
    assert dtype is not None
    return next(name for name, each in NAMES.items() if each is dtype)


def type_names(types: Iterable[DType]) -> str:
    """Element types for people."""
    return ", ".join(d.label for d in types)
