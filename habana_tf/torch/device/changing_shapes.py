"""Which shapes the batches of a data loader have: each is a recompilation on a card that compiles shape by shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

import torch
from torch.utils.data import DataLoader

from habana_tf.reports.report import Report
from habana_tf.reports.table import Table

__all__ = ["const_shape_dataloader", "data_dynamicity", "get_shape"]


def get_shape(item: Any) -> Hashable:
    """The shapes of the tensors in a batch, in its order: (2, 3) of a tensor, a tuple of those in a list or a tuple,
    one of (key, shape) in a dictionary; of anything else itself, or its type's name where it cannot be a key."""
    if isinstance(item, torch.Tensor):
        return tuple(item.shape)
    if isinstance(item, (list, tuple)):
        return tuple(get_shape(each) for each in item)
    if isinstance(item, dict):
        return tuple((key, get_shape(each)) for key, each in item.items())
    try:
        hash(item)
    except TypeError:
        return type(item).__name__
    return item


class _Shapes(Report):
    def __init__(self, counts: Counter[Hashable]) -> None:
        self.counts = counts

    def summary(self) -> str:
        return f"{len(self.counts):,} shapes in {self.counts.total():,} batches"

    def to_dict(self) -> dict[str, Any]:
        return {str(shape): count for shape, count in self.counts.most_common()}

    def shown(self) -> list[str | Table]:
        return [Table((">batches", "shape"), self.counts.most_common()), self.summary()]


def data_dynamicity(dl: Iterable[Any]) -> dict[Hashable, int]:
    """Reads all batches, prints which shapes they have, and returns {shape: batches}."""
    counts = Counter(get_shape(batch) for batch in dl)
    print(_Shapes(counts))
    return dict(counts)


def const_shape_dataloader(dl: Iterable[Any], maxlen: int) -> DataLoader[Any]:
    """At most `maxlen` batches of one shape: the first that has so many, else the one that has most. Raises ValueError
    where there are no batches."""
    found: dict[Hashable, list[Any]] = {}
    for batch in dl:
        alike = found.setdefault(get_shape(batch), [])
        alike.append(batch)
        if len(alike) == maxlen:
            break
    if not found:
        raise ValueError("const_shape_dataloader: the data loader has no batches")
    most: Any = max(found.values(), key=len)
    return DataLoader(most, batch_size=None, collate_fn=None)
