"""The content of a function as a digest: its bytecode, and every value that it reaches.

A recipe of a lowering that a program brings must not be used after the lowering has changed. Files and line numbers do
not tell: a formula may be in another module, with a constant beside it. So the digest follows all references:

    code        instructions, constants, names; functions in it
    values      defaults, closures, the globals that it names: numbers, texts, arrays, collections, objects
    functions   those it names, in the same way; of modules the attributes that it uses
    libraries   Python's own modules, NumPy and TensorFlow by name and version; habana_tf is in every key anyway

Equal sources under one release of Python give equal digests in every process, wherever the function is defined. A value
without a digest (a tensor, an open file, a lock) is an error that says where it was met.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from habana_tf.custom.code_names import OURS, globals_of, imports, library_of, names_in, top_level
from habana_tf.custom.signature import CustomOpError

_PLAIN = (bool, int, str, bytes, type(None), type(Ellipsis), range, complex, slice)
_BASES = (int, float, complex, str, bytes)
"""Numbers and texts whose classes a program may derive from."""
_NUMBERS = frozenset({"numpy", "ml_dtypes"})
"""Of arrays, and of numbers that are like them."""
_MOST = 20000
"""Values that are followed: more are no formula, but a program."""


def digest(function: Callable[..., Any], version: str | None = None) -> str:
    """SHA-256 of what a function computes.

    version: the program's word for what cannot be told; without one that is a CustomOpError.
    """
    reader = _ContentReader(version is not None)
    reader.put("python", sys.version_info[:2], version)
    try:
        reader.value(function, getattr(function, "__qualname__", repr(function)))
    except RecursionError:
        raise CustomOpError(f"{function!r} reaches sets that hold themselves: say it otherwise") from None
    return reader.hexdigest()


class _ContentReader:
    """Follows values and adds them to a digest. Those met before are there by their number, so that circles end."""

    def __init__(self, lenient: bool) -> None:
        self._total, self._lenient = hashlib.sha256(), lenient
        self._seen: dict[int, tuple[int, Any]] = {}

    def hexdigest(self) -> str:
        return self._total.hexdigest()

    def put(self, kind: str, *parts: object) -> None:
        """Adds what can be written down."""
        text = "\0".join([kind, *map(str, parts)]).encode("utf-8", "surrogatepass")
        self._total.update(len(text).to_bytes(8, "little") + text)

    def value(self, x: Any, where: str) -> None:
        """Adds a value; where: how it was reached, for messages."""
        if isinstance(x, _PLAIN) and type(x) in _PLAIN:
            self.put(type(x).__name__, repr(x))
            return
        if type(x) is float:
            self.put("float", x.hex())
            return
        if type(x) in (tuple, frozenset):  # whether equal ones are one object depends on how the source was read
            self._collection(x, where)
            return
        if id(x) in self._seen:
            self.put("again", self._seen[id(x)][0])
            return
        if len(self._seen) >= _MOST:
            raise CustomOpError(f"{where}: the lowering reaches more than {_MOST} values; give it what it needs alone")
        self._seen[id(x)] = len(self._seen), x  # kept, so that no other object gets the same id
        self._reached(x, where)

    def _reached(self, x: Any, where: str) -> None:
        if isinstance(x, types.ModuleType):
            self.put("module", *library_of(x.__name__) or (x.__name__,))
        elif isinstance(x, (types.FunctionType, type)) and (known := library_of(x.__module__)) is not None:
            self.put("named", *known, x.__qualname__)
        elif isinstance(x, types.FunctionType):
            self._function(x, where)
        elif isinstance(x, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            self.put("built in", getattr(x, "__module__", ""), x.__qualname__)
        elif isinstance(x, enum.Enum):
            self.put("member", type(x).__qualname__, x.name)
            self.value(x.value, f"{where}.value")
            self.value(type(x), where)
        elif isinstance(x, type):
            self._class(x, where)
        elif isinstance(x, types.CodeType):
            self._code(x, where)
        elif not self._collection(x, where) and not self._wrapped(x, where):
            self._object(x, where)

    def _collection(self, x: Any, where: str) -> bool:
        """Whether it is a collection, an array, or derived from a number or a text."""
        if type(x).__module__ in _NUMBERS and hasattr(x, "tobytes") and hasattr(x, "dtype"):
            if x.dtype.hasobject:
                raise CustomOpError(f"{where}: an array of Python objects; give it as an array of numbers")
            self.put("array", *_numpy_type(x.dtype), x.shape, hashlib.sha256(x.tobytes()).hexdigest())
            return True
        if isinstance(x, (tuple, list)):
            self.put(type(x).__name__, len(x))
            for k, each in enumerate(x):
                self.value(each, f"{where}[{k}]")
        elif isinstance(x, (set, frozenset)):
            self.put("set", *sorted(self._apart(each, where) for each in x))
        elif isinstance(x, Mapping):
            self.put("mapping", len(x))
            for key, each in x.items():
                self.value(key, where)
                self.value(each, f"{where}[{key!r}]")
        elif isinstance(x, _BASES):
            base = next(b for b in _BASES if isinstance(x, b))
            self.put(base.__name__, float.hex(x) if isinstance(x, float) else base.__repr__(x))
        else:
            return False
        if library_of(type(x).__module__) is None:  # it may have methods and attributes of its own
            self._derived(x, where)
        return True

    def _derived(self, x: Any, where: str) -> None:
        """Adds the class of an object, and its attributes."""
        self.value(type(x), where)
        for name, each in _attributes(x):
            self.put("attribute", name)
            self.value(each, f"{where}.{name}")

    def _wrapped(self, x: Any, where: str) -> bool:
        """Whether it is something around functions or texts."""
        if isinstance(x, functools.partial):
            self.put("partial")
            self.value((x.func, x.args, x.keywords), where)
        elif isinstance(x, types.MethodType):
            self.put("method")
            self.value((x.__func__, x.__self__), where)
        elif isinstance(x, (staticmethod, classmethod)):
            self.put(type(x).__name__)
            self.value(x.__func__, where)
        elif isinstance(x, property):
            self.put("property")
            self.value((x.fget, x.fset, x.fdel), where)
        elif isinstance(x, functools.cached_property):
            self.put("cached property")
            self.value(x.func, where)
        elif type(x).__name__ == "_tuplegetter":  # a field of a named tuple
            self.put("field", x.__reduce__()[1][0])
        elif top_level(type(x).__module__) == "numpy" and type(x).__name__ == "ufunc":
            self.put("named", *library_of("numpy") or (), x.__name__)
        elif top_level(type(x).__module__) == "numpy" and hasattr(x, "itemsize") and hasattr(x, "descr"):
            self.put("element type", *_numpy_type(x))
        elif isinstance(x, (re.Pattern, pathlib.PurePath)):
            self.put(type(x).__name__, x.pattern if isinstance(x, re.Pattern) else x, getattr(x, "flags", 0))
        elif hasattr(x, "__wrapped__"):  # functools.cache, and decorators as they should be
            self.put("wrapped", type(x).__qualname__)
            self.value(x.__wrapped__, where)
        else:
            return False
        return True

    def _object(self, x: Any, where: str) -> None:
        """Any other object: by its class and its attributes, if those are all there is to it."""
        cls = type(x)
        if callable(say := getattr(cls, "content", None)) and top_level(cls.__module__) in OURS:
            self.put("content", say(x))
            return
        library = library_of(cls.__module__) is not None and top_level(cls.__module__) not in OURS
        if library or not (hasattr(x, "__dict__") or any("__slots__" in vars(c) for c in cls.__mro__)):
            if self._lenient:
                self.put("untold", cls.__module__, cls.__qualname__)
                return
            raise CustomOpError(
                f"{where}: a {cls.__module__}.{cls.__qualname__}, of which nobody can tell whether it has changed "
                "since a recipe was made. Let the lowering use numbers, texts, NumPy arrays, collections and functions "
                "(of a tensor its .numpy()), or say what it depends on with version="
            )
        self.put("object")
        self._derived(x, where)

    def _class(self, x: type, where: str) -> None:
        self.put("class", x.__qualname__, len(x.__bases__))
        for base in x.__bases__:
            self.value(base, where)
        for name, each in sorted(vars(x).items()):
            if name in _OF_CLASSES or isinstance(each, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                continue
            self.put("attribute", name)
            self.value(each, f"{where}.{name}")

    def _function(self, x: types.FunctionType, where: str) -> None:
        self.put("function", x.__code__.co_name)
        self._code(x.__code__, where)
        self.value((x.__defaults__, x.__kwdefaults__), where)
        for name, cell in zip(x.__code__.co_freevars, x.__closure__ or (), strict=True):
            self.put("closes over", name)
            try:
                held = cell.cell_contents
            except ValueError:  # not filled yet
                self.put("empty")
            else:
                self.value(held, f"{where} closes over {name!r}")
        for name, each in sorted(x.__dict__.items()):
            self.put("attribute", name)
            self.value(each, f"{where}.{name}")
        names = frozenset(names_in(x.__code__))
        for name in globals_of(x.__code__):
            if name in x.__globals__:
                self.put("global", name)
                self._named(x.__globals__[name], names, f"{where} uses {name!r}")
        for name, module in imports(x):
            self.put("import", name, module is not None)
            if module is not None:
                self._named(module, names, f"{where} imports {name}")

    def _named(self, x: Any, names: frozenset[str], where: str) -> None:
        """A value that code names; of a module, unless it is a library's, what the code may take out of it."""
        self.value(x, where)
        stack, done = [x], set()
        while stack:
            module = stack.pop()
            if not isinstance(module, types.ModuleType) or module.__name__ in done or library_of(module.__name__):
                continue
            done.add(module.__name__)
            for name in sorted(names & vars(module).keys()):
                self.put("of module", module.__name__, name)
                self.value(vars(module)[name], f"{where} has {name!r}")
                stack.append(vars(module)[name])

    def _code(self, x: types.CodeType, where: str) -> None:
        counts = x.co_argcount, x.co_posonlyargcount, x.co_kwonlyargcount, x.co_flags
        self.put("code", x.co_code.hex(), counts, x.co_names, x.co_varnames, x.co_freevars, x.co_cellvars)
        self.put("handlers", getattr(x, "co_exceptiontable", b"").hex())
        for each in x.co_consts:
            self.value(each, where)

    def _apart(self, x: Any, where: str) -> str:
        """The digest of a value by itself, for collections without order."""
        reader = _ContentReader(self._lenient)
        reader.value(x, where)
        return reader.hexdigest()


_OF_CLASSES = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__abstractmethods__", "_abc_impl", "__annotations__",
     "__orig_bases__", "__parameters__", "__slotnames__",
     "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__firstlineno__",
     "__static_attributes__", "__annotate__", "__annotate_func__", "__annotations_cache__"}
)  # fmt: skip


def _attributes(x: Any) -> Iterator[tuple[str, Any]]:
    """Those of an object itself, in `__dict__` and in slots."""
    yield from sorted(getattr(x, "__dict__", {}).items())
    for cls in type(x).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            known = f"_{cls.__name__.lstrip('_')}{name}" if private else name
            if name not in ("__dict__", "__weakref__") and hasattr(x, known):
                yield known, getattr(x, known)


def _numpy_type(x: Any) -> tuple[str, str]:
    """A NumPy element type, by its layout and its name: those of ml_dtypes share one layout."""
    return str(x.descr), x.name
