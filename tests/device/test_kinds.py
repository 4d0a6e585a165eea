"""What a size that changes costs, by kind of layer: the table in docs/recompilations.md, measured; every size is right.

Each kind takes a step of training at five sizes one after the other, on HPU and by stock TensorFlow on the CPU.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.child import on_hpu
from tests.device.kinds import KINDS, Kind
from tests.effort import THOROUGH, some
from tests.versions import KERAS_3

PAGE = Path(__file__).parents[2] / "docs" / "recompilations.md"
COLUMNS = ("batch", "length", "image")

pytestmark = pytest.mark.skipif(
    KERAS_3, reason="the page is measured with Keras 2.15; Keras 3 traces TimeDistributed and UpSampling2D otherwise"
)


def data(kind: Kind, shape: tuple[int, ...]) -> Any:
    rng = np.random.default_rng(sum(shape))
    return rng.integers(0, kind.ids, shape).astype(np.int32) if kind.ids else rng.normal(size=shape).astype(np.float32)


def steps(kind: Kind, what: str) -> list[list[Any]]:
    """Per size the loss, the result and all gradients of a step, under the present device."""
    tf.keras.utils.set_random_seed(1)
    forward = kind.build()
    with tf.GradientTape() as tape:
        forward(tf.constant(data(kind, kind.shape)))  # makes the weights
    weights = tape.watched_variables()
    for k, w in enumerate(weights):  # from NumPy: initializers may differ in the last place
        w.assign(np.random.default_rng(k).normal(0, 0.3, w.shape).astype(np.float32))
    kind_of_input = tf.int32 if kind.ids else tf.float32

    @tf.function(input_signature=[tf.TensorSpec(kind.spec(what), kind_of_input)])
    def step(x: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            if not kind.ids:
                tape.watch(x)
            y = tf.cast(forward(x), tf.float32)
            loss = tf.reduce_mean(tf.square(y) + y)
        found = tape.gradient(loss, [*weights] if kind.ids else [*weights, x])
        return [loss, y, *(tf.convert_to_tensor(g) for g in found if g is not None)]

    return [[np.asarray(v) for v in step(tf.constant(data(kind, s)))] for s in kind.shapes(what)]


@contextmanager
def counted() -> Iterator[dict[str, set[int]]]:
    """Per cluster the recipes that served it, also those that another one had compiled."""
    from habana_tf.resolver import ranged, recompilations, resolve

    served: dict[str, set[int]] = {}
    bind, record = resolve.bind_recipe, resolve.record
    last: dict[int, Any] = {}  # per thread: launches come from several
    kept: list[Any] = []

    def binding(recipe: Any, *rest: Any) -> int:
        last[threading.get_ident()] = recipe
        return bind(recipe, *rest)

    def recording(known: Any, met: Any) -> None:
        assert met.recipe != "interpreted", f"{known.name}: {met.reason}"
        recipe = last[threading.get_ident()]
        kept.append(recipe)  # its id is that of no other
        served.setdefault(known.name, set()).add(id(recipe))
        record(known, met)

    recompilations.reset()
    ranged.reset()
    resolve.bind_recipe, resolve.record = binding, recording
    try:
        yield served
    finally:
        resolve.bind_recipe, resolve.record = bind, record


def measured(kind: Kind, what: str) -> int:
    """The most recipes that a cluster of a kind needs; every number is compared with stock TensorFlow's."""
    with tf.device("/CPU:0"):
        want = steps(kind, what)
    with counted() as served, tf.device("/HPU:0"):
        got = steps(kind, what)
    for shape, ours, theirs in zip(kind.shapes(what), got, want, strict=True):
        for g, w in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(g, w, rtol=2e-3, atol=2e-4, err_msg=f"{kind.name}, {what}, {shape}")
    return max(map(len, served.values()), default=0)


def table() -> dict[tuple[str, str], int]:
    """What the page says, by kind and what changes."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [c.strip().replace("`", "") for c in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 1 + len(COLUMNS):
            found.update({(cells[0], w): int(c) for w, c in zip(COLUMNS, cells[1:], strict=True) if c.isdigit()})
    return found


def taken(what: str) -> list[Kind]:
    """The kinds that `make test` measures: every second, by one of what it varies; every fourth by its batch."""
    batches = some(KINDS, 4)
    if what == "batch":
        return [kind for kind in some(KINDS, 2) if kind in batches or kind.vary == ("batch",)]
    return [kind for kind in some(KINDS, 2) if kind not in batches]


def as_the_page_says(what: str) -> None:
    said = {name: n for (name, column), n in table().items() if column == what}
    kinds = [kind for kind in KINDS if what in kind.vary]
    assert said.keys() == {kind.name for kind in kinds}
    found = {kind.name: measured(kind, what) for kind in kinds if THOROUGH or kind in taken(what)}
    said = {name: said[name] for name in found}
    assert found == said, sorted(found.items() ^ said.items())


@pytest.mark.rest
@on_hpu
def test_batches_of_any_size_cost_what_the_page_says() -> None:
    as_the_page_says("batch")


@pytest.mark.rest
@on_hpu
def test_sequences_of_any_length_cost_what_the_page_says() -> None:
    as_the_page_says("length")


@pytest.mark.part
@on_hpu
def test_images_of_any_size_cost_what_the_page_says() -> None:
    as_the_page_says("image")


def test_batch_and_length_cost_at_most_two_recipes() -> None:
    assert len({name for name, _ in table()}) > 80
    assert {n for (_, what), n in table().items() if what != "image"} <= {1, 2}
