"""An op of the namespace `hpu`, and the decorator with which a family module adds one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_Formula = TypeVar("_Formula", bound=Callable[..., Any])


@dataclass(frozen=True)
class HpuOp:
    """schema: without the namespace. formula: of tensors on any device, those without memory included. row: says of a
    call's arguments whether the device records it as one op, by a row of the table of overloads; None if never."""

    schema: str
    formula: Callable[..., Any]
    row: Callable[..., bool] | None

    @property
    def name(self) -> str:
        """With the overload's, as in cast_to_fp8_v2.scalar."""
        return self.schema.partition("(")[0]


OPS: list[HpuOp] = []
"""Of the modules imported so far."""


def always(*args: Any, **kwargs: Any) -> bool:
    """For an op that is recorded whatever its arguments are."""
    return True


def op(*schemas: str, row: Callable[..., bool] | None = None) -> Callable[[_Formula], _Formula]:
    """Adds an op for each schema, with one formula. row: see `HpuOp`."""

    def add(formula: _Formula) -> _Formula:
        OPS.extend(HpuOp(schema, formula, row) for schema in schemas)
        return formula

    return add
