"""An overload of the table as the recorder calls it, with its row and schema; and what an entry of a call is made
of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from habana_tf.torch.ops import own_ops
from habana_tf.torch.ops.row import OverloadRow

MOST_RUN_TIME_NUMBERS = 1 << 14
"""Numbers of each kind that one program may read at run time."""
WHOLE = "whole"
"""In an entry, in the place of contents that are overwritten and not read."""
EntryOperand = Any
"""A tensor in an entry: the contents of its storage; with shape, strides and offset where it is a view of them."""
Where = int | str | tuple[int | str, int]
"""An argument of a call: its position or its name; for an element of a list of tensors, with its position in the
list."""


class Number(NamedTuple):
    """In an entry, a number that is read at run time. kind: float or integer. position: in the vector of that kind.
    dtype: of the tensor of the CPU that held it, None for a number of Python."""

    kind: str
    position: int
    dtype: torch.dtype | None = None


class PartOfStorage(NamedTuple):
    """In an entry, a part of a storage that is an input by itself (`view_inputs`). op: -1, as of all inputs. number: of
    the input. shape: of the part. first: whether it was not an input before."""

    op: int
    number: int
    shape: tuple[int, ...]
    dtype: torch.dtype
    first: bool


class Drawn(int):
    """A number that is another one each time that a recorded program is replayed. again: gives the next one."""

    again: Callable[[], int]

    @classmethod
    def of(cls, value: int, again: Callable[[], int]) -> Drawn:
        """value: of the first run."""
        made = cls(value)
        made.again = again
        return made


class NotRecorded(Exception):
    """A call that no program can have, for the reason in the message. It runs on the CPU."""


class Unsettled(Exception):
    """A call sees memory as another type than what is recorded and has not run. After a flush it can be recorded."""


@dataclass(frozen=True)
class Overload:
    """An overload with its row. overload, stock: the overload itself, and the one that other devices have in its place.
    runtime: positions of arguments that are read at run time. names: of all arguments. writes: names of those that it
    writes; targets: their positions and names. returns: for each result the argument that it is, None for a new one."""

    row: OverloadRow
    overload: Any
    stock: Any
    runtime: frozenset[int]
    names: tuple[str, ...]
    writes: tuple[str, ...]
    targets: frozenset[int | str]
    returns: tuple[str | None, ...]

    @classmethod
    def of(cls, row: OverloadRow) -> Overload:
        """The overload of a row. Raises AttributeError for one that this PyTorch does not have."""
        overload = overload_of(row.name)
        schema = overload._schema
        names = tuple(a.name for a in schema.arguments)
        written = [a for a in schema.arguments if is_written(a)]
        aliases = [None if r.alias_info is None else r.alias_info.before_set for r in schema.returns]
        returns = tuple(
            None if alias is None else next((a.name for a in written if a.alias_info.before_set == alias), None)
            for alias in aliases
        )
        runtime = frozenset(k for k, name in enumerate(names) if name in row.runtime)
        stock = overload_of(row.stock) if row.stock else overload
        writes = (*(a.name for a in written), *row.writes)
        targets = frozenset((*writes, *map(names.index, writes)))
        return cls(row, overload, stock, runtime, names, writes, targets, returns)

    def on_others(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
        """The arguments of a call of `stock`."""
        return (args, kwargs) if self.row.given is None else (self.row.given(*args, **kwargs), {})

    def written(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Where, ...]:
        """The tensors that a call writes."""
        found: list[Where] = []
        for name in self.writes:
            where = self.where(name, args, kwargs)
            if where is None:
                continue
            value = args[where] if isinstance(where, int) else kwargs[where]
            found += [(where, k) for k in range(len(value))] if isinstance(value, (list, tuple)) else [where]
        return tuple(found)

    def where(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> int | str | None:
        """Where a call has an argument; None where it has none or None."""
        at = self.names.index(name)
        if at < len(args):
            return at if args[at] is not None else None
        return name if kwargs.get(name) is not None else None


def is_written(argument: Any) -> bool:
    """Whether a call writes into an argument of a schema."""
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def tensor_at(where: Where, args: Sequence[Any], kwargs: dict[str, Any]) -> torch.Tensor:
    """A tensor among the arguments of a call."""
    if isinstance(where, tuple):
        where, k = where
        found: torch.Tensor = (args[where] if isinstance(where, int) else kwargs[where])[k]
        return found
    found = args[where] if isinstance(where, int) else kwargs[where]
    return found


def overload_of(name: str) -> Any:
    """The overload of a row's name. Raises AttributeError for one that this PyTorch has not."""
    if name in own_ops.OPS:
        return own_ops.OPS[name]
    space, _, rest = name.rpartition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space or "aten"), packet), overload or "default")
