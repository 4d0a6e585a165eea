"""Measures how many examples per second an input pipeline gives on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from habana_tf.card.model.host import UNKNOWN, Host
from habana_tf.card.prediction.foreseen import PredictionError

SECONDS = 3.0
"""How long a pipeline is measured for, at most by one batch longer."""
WARM_UP = 0.5
"""Seconds at the beginning that do not count: threads start, buffers fill. At most half of the batches."""


def fed_by(host: Host | None, dataset: Any, specs: tuple[Any, ...]) -> Host:
    """The host of a prediction: as given, with the speed of the dataset where there is one.

    Raises PredictionError where both say how fast the input is, and what `input_rate` raises.
    """
    if dataset is None:
        if host is not None and host.loaders is not None and host.input_rate is None:
            raise PredictionError(
                f"{host.loaders} loaders of unknown speed: give dataset=, or input_rate= of one of them"
            )
        return host or UNKNOWN
    if host is not None and host.input_rate is not None:
        raise PredictionError("both dataset= and host=Host(input_rate=...) say how fast the input is: give one of them")
    import tensorflow as tf

    rank = next((len(spec.shape) for spec in tf.nest.flatten(specs) if spec.shape.rank), 1)
    rate, source = input_rate(dataset, rank)
    return replace(host or Host(), input_rate=rate, source=source)


def input_rate(
    dataset: Iterable[Any], rank: int, seconds: float = SECONDS, clock: Callable[[], float] | None = None
) -> tuple[float, str]:
    """(examples per second, how they were counted). One that ends is begun anew, as for another epoch, which counts; an
    iterator cannot be, and the count stops.

    dataset: a `tf.data.Dataset`, a loader, any iterable of batches. rank: of the step's first input, batch included;
    elements of one axis less are single examples.

    Raises PredictionError if it gives fewer than two batches, or elements without a size.
    """
    clock = clock or time.perf_counter
    start = clock()
    at: list[float] = []
    examples: list[int] = []
    for element in _again(dataset):
        at.append(clock() - start)
        examples.append(_examples(element, rank))
        if at[-1] >= seconds:
            break
    if len(at) < 2:
        raise PredictionError(
            f"the dataset gave {len(at)} batches and ended: its speed takes two at least. Give more, or "
            "host=habana_tf.Host(input_rate=...)"
        )
    first = min(next(k for k, t in enumerate(at) if t >= min(WARM_UP, at[-1])), (len(at) - 1) // 2)
    counted, took = sum(examples[first + 1 :]), max(at[-1] - at[first], 1e-9)
    return counted / took, f"measured here: {counted:,} examples in {took:.3g} s"


def _again(dataset: Iterable[Any]) -> Iterator[Any]:
    """Its elements, pass after pass, until one is empty."""
    while True:
        elements, some = iter(dataset), False
        for element in elements:
            some = True
            yield element
        if not some or elements is dataset:
            return


def _examples(element: Any, rank: int) -> int:
    """Of a batch: the first size of its first array."""
    for leaf in _leaves(element):
        shape = leaf.shape
        if len(shape) == rank - 1:
            return 1
        if len(shape):
            return int(shape[0])
    raise PredictionError(
        f"the dataset gives {type(element).__name__} without an array of several examples: give batches as the step "
        "takes them"
    )


def _leaves(element: Any) -> Iterator[Any]:
    if hasattr(element, "shape"):
        yield element
    elif isinstance(element, dict):
        for value in element.values():
            yield from _leaves(value)
    elif isinstance(element, (tuple, list)):
        for value in element:
            yield from _leaves(value)
