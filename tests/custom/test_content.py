"""The digest of a lowering: equal for equal computations, another for any change of what it reaches."""

from __future__ import annotations

import copy
import enum
import functools
import importlib
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from habana_tf.custom import CustomOpError, content, wrap
from tests.child import python

BEFORE = """
import functools, math
import numpy as np
from dataclasses import dataclass
import beside
from beside import third as imported
from habana_tf.custom import wrap, FLOATS

TABLE = {"a": [1, 2.5], "b": {3, 4}}
ARRAY = np.arange(4.0)

@dataclass
class Settings:
    beta: float = 1.0
    def scale(self):
        return self.beta * 2

SETTINGS = Settings()

def inner(x, by=2.0):
    return x * by

def outer(factor):
    add = functools.partial(inner, by=7.0)
    def lower(c):
        from beside import local
        x = wrap(c.b, c.inputs[0])
        if c.attr("mode") in {"one", "two", "three"}:
            x = x + TABLE["a"][1]
        x = add(x) + float(ARRAY[1]) + SETTINGS.scale() + beside.first(3) + imported(2) + local() + math.pi
        return (inner(x) * factor).done(FLOATS[0])
    return lower

print(__import__("habana_tf.custom.content", fromlist="x").digest(outer(3.0)))
"""
BESIDE = """
def first(n): return second(n) + 1
def second(n): return n * 2
def third(n): return n - 1
def local(): return 0.5
def unused(): return 1
"""
CHANGES = [
    ("TABLE = {\"a\": [1, 2.5]", "TABLE = {\"a\": [1, 2.25]", ""),
    ("{3, 4}", "{3, 5}", ""),
    ("np.arange(4.0)", "np.arange(4.0) + 1", ""),
    ("beta: float = 1.0", "beta: float = 1.25", ""),
    ("self.beta * 2", "self.beta * 3", ""),
    ("by=2.0", "by=2.5", ""),
    ("by=7.0", "by=7.5", ""),
    ("outer(3.0)", "outer(3.5)", ""),
    ('"two", "three"', '"two", "four"', ""),
    ("return x * by", "return x / by", ""),
    ("beside", "return second(n) + 1", "return second(n) + 2"),
    ("beside", "return n * 2", "return n * 4"),
    ("beside", "return n - 1", "return n - 2"),
    ("beside", "return 0.5", "return 0.75"),
]  # fmt: skip


def digest(folder: Path, program: str, beside: str, seed: str = "0") -> str:
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "beside.py").write_text(beside)
    script = f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}"
    return python(script, imported=True, PYTHONHASHSEED=seed, PYTHONDONTWRITEBYTECODE="1").stdout.strip()


def run_here(folder: Path, program: str, beside: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> str:
    """As `digest`, in this process."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "beside.py").write_text(beside)
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop("beside", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names: dict[str, Any] = {"__name__": "program"}
    module = sys.modules["program"] = type(sys)("program")  # where dataclasses look
    module.__dict__.update(names)
    exec(compile(program, "program.py", "exec"), module.__dict__)
    sys.modules.pop("beside", None)
    return str(capsys.readouterr().out.strip())


def test_two_processes_and_two_places_have_one_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_here(tmp_path / "a", BEFORE, BESIDE, monkeypatch, capsys)
    assert len(first) == 64
    moved = "\n\n# another line\n" + BEFORE.replace("def outer", "\n\ndef outer")
    assert digest(tmp_path / "b", moved, BESIDE.replace("return 1\n", "return 2\n"), "1234") == first


def test_every_change_of_what_it_reaches_is_another_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = {run_here(tmp_path / "same", BEFORE, BESIDE, monkeypatch, capsys)}
    assert run_here(tmp_path / "again", BEFORE, BESIDE, monkeypatch, capsys) in seen
    for k, (old, new, last) in enumerate(CHANGES):
        program, beside = (BEFORE, BESIDE.replace(new, last)) if old == "beside" else (BEFORE.replace(old, new), BESIDE)
        assert (program, beside) != (BEFORE, BESIDE), (old, new)
        found = run_here(tmp_path / str(k), program, beside, monkeypatch, capsys)
        assert found not in seen, (old, new, last)
        seen.add(found)


def test_circles_methods_and_wrapped_functions() -> None:
    class Node:
        def __init__(self) -> None:
            self.me, self.scale = self, 2.0

        def lower(self, c: Any) -> Any:
            return wrap(c.b, c.inputs[0]) * self.scale

    node, other = Node(), Node()
    other.scale = 3.0
    assert content.digest(node.lower) == content.digest(Node().lower) != content.digest(other.lower)

    def plain(c: Any) -> Any:
        return c.inputs[0]

    assert content.digest(functools.cache(plain)) == content.digest(functools.cache(plain))


def test_what_cannot_be_told_is_an_error_that_says_where() -> None:
    lock, number = threading.Lock(), 3.0

    def lower(c: Any) -> Any:
        with lock:
            return wrap(c.b, c.inputs[0]) * number

    with pytest.raises(CustomOpError, match=r"closes over 'lock': a _thread.lock.*version="):
        content.digest(lower)
    one = content.digest(lower, version="1")
    assert one == content.digest(lower, version="1") != content.digest(lower, version="2")
    number = 4.0
    assert content.digest(lower, version="1") != one  # what can be told still counts


def test_a_tensor_is_no_content() -> None:
    import tensorflow as tf

    weights = tf.constant([1.0])

    def lower(c: Any) -> Any:
        return weights

    with pytest.raises(CustomOpError, match=r"\.numpy\(\)"):
        content.digest(lower)


def test_arrays_of_objects_and_endless_sets() -> None:
    array = np.array([object()], object)

    def lower(c: Any) -> Any:
        return array

    with pytest.raises(CustomOpError, match="array of Python objects"):
        content.digest(lower)


class Number(int):
    pass


class Rows(list[int]):
    def most(self) -> int:
        return max(self)


class Mode(enum.Enum):
    FAST = 1

    def factor(self) -> int:
        return 2


class Hidden:
    __slots__ = ("__scale",)

    def __init__(self, scale: float) -> None:
        self.__scale = scale

    def scale(self) -> float:
        return self.__scale


class Pair(NamedTuple):
    first: float
    second: float


def lower_with(value: Any) -> Any:
    def lower(c: Any) -> Any:
        return value

    return lower


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (Number(3), Number(4)),
        (Hidden(1.0), Hidden(2.0)),
        (Pair(1.0, 2.0), Pair(1.0, 3.0)),
        (np.dtype("f4"), np.dtype("f8")),
        (np.zeros(2, ml_dtypes.float8_e5m2), np.zeros(2, ml_dtypes.float8_e4m3fn)),
        (ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(2)),
        (np.exp, np.sin),
    ],
)
def test_values_of_classes_of_the_program_and_of_numpy(value: Any, other: Any) -> None:
    assert content.digest(lower_with(value)) == content.digest(lower_with(copy.copy(value)))
    assert content.digest(lower_with(value)) != content.digest(lower_with(other))


@pytest.mark.parametrize(
    ("value", "owner", "method"), [(Rows([1]), Rows, "most"), (Mode.FAST, Mode, "factor"), (Pair, Pair, "__repr__")]
)
def test_methods_of_collections_and_members_count(
    value: Any, owner: type, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content.digest(lower_with(value))
    monkeypatch.setattr(owner, method, lambda self: 7)
    assert content.digest(lower_with(value)) != before


def test_modules_that_are_imported_within_a_lowering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lowerings"
    package.mkdir()
    (package / "__init__.py").write_text(
        "SCALE = 1.0\n"
        "def by_name(c):\n    from . import helper\n    return helper.K\n"
        "def by_path(c):\n    import lowerings.helper\n    return lowerings.SCALE\n"
        "def perhaps(c):\n    try:\n        import lowerings.missing\n    except ImportError:\n        pass\n"
    )
    (package / "helper.py").write_text("K = 3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "lowerings", raising=False)
    lowerings = importlib.import_module("lowerings")
    assert len(content.digest(lowerings.perhaps)) == 64
    first, path = content.digest(lowerings.by_name), content.digest(lowerings.by_path)
    assert content.digest(lowerings.by_name) == first  # before and after the first import of what it names
    monkeypatch.setattr(sys.modules["lowerings.helper"], "K", 4)
    assert content.digest(lowerings.by_name) != first
    monkeypatch.setattr(lowerings, "SCALE", 2.0)
    assert content.digest(lowerings.by_path) != path
