"""All that the compiler is given is in the key, but what is left out by name: a forgotten field costs a miss."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from habana_tf.compiler.compile import compile_program
from habana_tf.compiler.generic_products import generic_product
from habana_tf.hardware.cpu import Isa, Target, host, target
from habana_tf.ir import extent as ext
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from habana_tf.ir.loop_nest import LoopNest
from habana_tf.ir.primitives import Contraction, Custom, IndexCheck, Loop, Node, Op, Program, Random, Scan, Sort
from habana_tf.resolver.key_text import ARGUMENTS_LEFT_OUT, LEFT_OUT, names, program_text
from habana_tf.resolver.keys import program_key, target_parts
from habana_tf.resolver.provenance import Provenance


def _input(index: int = 0, shape: tuple[Any, ...] = (4,)) -> Node:
    return Node(Op.INPUT, (), shape, DType.F32, index)


X = _input()
EXP = Node(Op.MAP, (X,), (4,), DType.F32, "exp")
PROGRAM = Program([X], [EXP])
LOOP = Loop(3, PROGRAM, 1)
S0 = ext.sym(0)
assert isinstance(S0, ext.Expr)


def _walk() -> LoopNest:
    b = Builder()
    x, y = b.input((64, 32), DType.F32), b.input((32, 48), DType.F32)
    out = b.contract(x, y, Contraction((0, 1), (1, 2), (0, 2)))
    found = generic_product(Program([x, y], [out]), Target(Isa.AVX512, False, "x86-64-v4", ""))
    assert found is not None
    walk = found.program.outputs[0].arg
    assert isinstance(walk, LoopNest)
    return walk


CHANGED: list[tuple[Any, Mapping[str, Any]]] = [
    (PROGRAM, {"inputs": [X, _input(1)], "outputs": [EXP, X], "states": [2], "conditions": (S0,),
               "updates": ((0, 0),), "checks": (IndexCheck(0, "indices", 4, 2),)}),
    (IndexCheck(0, "indices", 4, 2), {"origin": 1, "argument": "labels", "bound": 5, "count": 3, "refused": True}),
    (EXP, {"op": Op.REDUCE, "src": (_input(1),), "shape": (5,), "dtype": DType.F64, "arg": "log"}),
    (Contraction((0, 1), (1, 2), (0, 2)), {"a": (0,), "b": (2, 1), "out": (2, 0), "accumulator": DType.F64,
                                            "largest": 240.0}),
    (Random(), {"run": 2, "skip": 3}),
    (Scan("sum", 0, False, False), {"kind": "prod", "axis": 1, "exclusive": True, "reverse": True}),
    (Sort(0), {"axis": 1, "descending": True, "first": 3}),
    (Custom("A", "ab", (), (), 1, 0), {"op": "B", "library": "cd", "attrs": (("n", "int", (1,)),), "items": 2,
                                       "outputs": ((DType.F32, (4,)),), "workspace": 64}),
    (LOOP, {"trips": 4, "body": Program([X], [X]), "carried": 0, "sliced": ((0, 1),), "stacked": ((0, -1),),
            "blocks": 2, "apart": (True,)}),
]  # fmt: skip


def _text(value: Any) -> str:
    """The text of a program that has a value in it."""
    if isinstance(value, Program):
        return program_text(value)
    if isinstance(value, Node):
        return program_text(Program([X], [value]))
    return program_text(Program([X], [replace(EXP, arg=(value, 0))]))


@pytest.mark.parametrize(("value", "changed"), CHANGED, ids=lambda x: type(x).__name__)
def test_each_field_is_in_the_text(value: Any, changed: Mapping[str, Any]) -> None:
    assert set(changed) == set(names(type(value))), "a new field: say here what another value of it is"
    before = _text(value)
    assert before == _text(replace(value))
    for name, other in changed.items():
        assert _text(replace(value, **{name: other})) != before, name


def test_each_number_of_a_walk_is_in_the_text() -> None:
    walk = _walk()
    before = _text(walk)
    for f in fields(walk):
        assert _text(replace(walk, **{f.name: "another"})) != before, f.name


@dataclass(eq=False)
class _MoreToldProgram(Program):
    hint: int = 0


@dataclass(frozen=True)
class _MoreToldSort(Sort):
    hint: int = 0


def test_a_field_that_is_added_is_in_the_text() -> None:
    assert program_text(_MoreToldProgram([X], [EXP], hint=1)) != program_text(_MoreToldProgram([X], [EXP], hint=2))
    assert _text(_MoreToldSort(0, hint=1)) != _text(_MoreToldSort(0, hint=2))


def test_what_is_no_plain_data_is_refused_and_not_guessed() -> None:
    with pytest.raises(TypeError, match="a set in a program has no text for the recipe key"):
        _text({1, 2})


def test_constants_that_look_alike_are_told_apart() -> None:
    values = [0, 0.0, -0.0, False, "0", b"0", (0,), None, S0, 1, 1.0, True, b"1", Op.MAP, "MAP"]
    assert len({_text(v) for v in values}) == len(values)


def test_names_and_origins_are_not_in_it() -> None:
    assert _text(replace(EXP, origin=7)) == _text(EXP)


def test_only_fields_and_arguments_that_exist_are_left_out() -> None:
    for kind, left in LEFT_OUT.items():
        assert set(left) <= {f.name for f in fields(kind)}
        assert all(len(reason) > 10 for reason in left.values())
    given = set(inspect.signature(compile_program).parameters)
    assert given - set(ARGUMENTS_LEFT_OUT) == {"program", "target"} and set(ARGUMENTS_LEFT_OUT) < given


def test_each_field_of_a_target_is_in_the_key() -> None:
    goal = Target(Isa.AVX2, False, "x86-64-v3", "+a")
    changed: dict[str, Any] = {"isa": Isa.AVX512, "avx512_bf16": True, "llvm_cpu": "znver5", "llvm_features": "-a"}
    assert set(changed) == set(names(Target)), "a new field: say here what another value of it is"
    before = target_parts(goal, bf16=False)
    for name, other in changed.items():
        assert target_parts(replace(goal, **{name: other}), bf16=False) != before, name


def test_each_field_of_what_was_met_is_in_the_key_of_a_cluster() -> None:
    """`resolve` makes the parts: cluster, inputs, fixed."""
    assert set(names(Provenance)) == {"cluster", "shapes", "values"}, "a new field: put it into a cluster's key"


def _updating(updates: tuple[tuple[int, int], ...]) -> Program:
    b = Builder()
    v, x = b.input((1 << 23,), DType.F32), b.input((1 << 23,), DType.F32)
    return Program([v, x], [b.map("add", v, x)], updates=updates)


def test_a_sum_that_updates_a_variable_is_another_recipe() -> None:
    """It is written over the old value, by other stores: not the recipe that a plain sum was compiled to before."""
    goal = target()
    plain, updating = _updating(()), _updating(((0, 0),))
    made = [compile_program(p, "sum", goal) for p in (plain, updating)]
    assert made[0].in_place != made[1].in_place or made[0].code != made[1].code
    assert program_key(plain, goal).digest != program_key(updating, goal).digest


def test_no_chip_and_no_name_of_what_the_cpu_has_anyway_is_in_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_ISA", "auto")
    program = _updating(())
    keys = set()
    for chip in ("gaudi", "gaudi2", "gaudi3"):
        monkeypatch.setenv("HABANA_SIM_CHIP", chip)
        for isa in ("auto", host().isa.name.lower()):
            monkeypatch.setenv("HABANA_SIM_ISA", isa)
            keys.add(program_key(program, target()).digest)
    assert len(keys) == (1 if host().isa is not Isa.PORTABLE else 2)
    if host().isa is not Isa.PORTABLE:
        monkeypatch.setenv("HABANA_SIM_ISA", "portable")
        assert program_key(program, target()).digest not in keys
