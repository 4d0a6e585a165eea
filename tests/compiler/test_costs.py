"""Numbers that belong to a CPU stand in `costs` and `product_costs`, each with what it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import habana_tf.compiler

COMPILER = Path(habana_tf.compiler.__file__).parent
COSTS = [COMPILER / "costs.py", COMPILER / "product_costs.py"]
ELSEWHERE = {
    "code_checks.py": "fields of an ELF file",
    "memory_plan.py": "what the runtime promises of addresses",
    "recipe_checks.py": "a recipe with more is none",
    "codegen/circular_math.py": "a quarter of a circle",
    "codegen/float8.py": "codes of the formats",
    "codegen/tiles/tile_engine.py": "the tile engine's registers",
    "codegen/tiles/winograd.py": "the algorithm's tiles",
    "codegen/objects.py": "Python's lock",
    "codegen/philox.py": "the algorithm's constants",
    "codegen/product.py": "the size of a pointer",
    "codegen/worker.py": "how long a process waits for work",
}
"""Modules with numbers of their own, and what decides these."""


def _numbers(path: Path) -> list[tuple[str, ast.stmt | None]]:
    """Names that a module gives to numbers, or to tuples of them, each with the statement behind it."""
    body = ast.parse(path.read_text()).body
    found = []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and any(_numeric(x) for x in ast.walk(node.value)) and _plain(node.value):
            found += [(x.id, after) for target in node.targets for x in ast.walk(target) if isinstance(x, ast.Name)]
    return found


def _numeric(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def _plain(value: ast.expr) -> bool:
    """Whether a value is computed of numbers and names by arithmetic, or is a tuple of such."""
    kinds = (
        ast.Constant,
        ast.BinOp,
        ast.UnaryOp,
        ast.operator,
        ast.unaryop,
        ast.Tuple,
        ast.Name,
        ast.Attribute,
        ast.Load,
    )
    return all(isinstance(x, kinds) and (not isinstance(x, ast.Constant) or _numeric(x)) for x in ast.walk(value))


def test_numbers_of_a_cpu_are_in_one_place() -> None:
    own = {
        path.relative_to(COMPILER).as_posix() for path in COMPILER.rglob("*.py") if path not in COSTS and _numbers(path)
    }
    assert own == set(ELSEWHERE), "put what a CPU decides into costs.py or product_costs.py"


@pytest.mark.parametrize("path", COSTS, ids=lambda path: path.stem)
def test_each_number_says_what_it_is(path: Path) -> None:
    numbers = _numbers(path)
    assert len(numbers) > 50
    for name, after in numbers:
        text = after.value if isinstance(after, ast.Expr) else None
        assert isinstance(text, ast.Constant) and isinstance(text.value, str), f"{path.name}: {name} has no docstring"


def test_one_name_is_one_number() -> None:
    names = [name for path in COSTS for name, _ in _numbers(path)]
    assert len(names) == len(set(names))
