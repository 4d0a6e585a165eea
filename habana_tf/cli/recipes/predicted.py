"""How long a launch of a recipe would take on real cards, for `show` and `report`, computed from the stored cluster.

Reading a cluster of TensorFlow's takes TensorFlow, which is imported only for a recipe that has one. A recipe that
cannot be predicted has a reason instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from habana_tf.cli.recipes import contents

if TYPE_CHECKING:
    from habana_tf.cache.entry import Entry
    from habana_tf.card.clock.predicted import LaunchPrediction

NOTE = "predicted: one launch, kernels fused and sliced as the card would; docs/fidelity.md says how near that comes"


def predictions(entry: Entry, sizes: Sequence[int]) -> tuple[dict[str, LaunchPrediction], str]:
    """({chip: prediction}, "") for every chip, or ({}, why there is none).

    sizes: of those that the recipe leaves open, all or none.
    """
    if "cluster" not in entry.sections:
        return {}, "it does not say what it was compiled from"
    wanted = contents.symbols(entry)
    if len(sizes) != wanted:
        return {}, f"it depends on {', '.join(f's{k}' for k in range(wanted))}; pass --sizes to see it"
    try:
        read = contents.cluster_reader(entry)
    except ImportError as error:
        return {}, f"it takes TensorFlow, which cannot be imported: {error}"
    from habana_tf.card.clock.predicted import of_cluster
    from habana_tf.hardware.chips import chips
    from habana_tf.resolver.provenance import Provenance

    try:
        met = Provenance.of(entry.sections, read)
    except (KeyError, ValueError) as error:
        return {}, f"its cluster cannot be read: {error}"
    shapes = [[_number(n, sizes) for n in shape] for shape in met.shapes]
    values = [
        None if value is None else _numbers(value, sizes, arg.dtype.numpy)
        for value, arg in zip(met.values, met.cluster.inputs, strict=True)
    ]
    found = {chip.name: of_cluster(chip, met.cluster, shapes, values) for chip in chips()}
    why = next((p.why for p in found.values() if p.seconds is None), "")
    return ({}, why) if why else (found, "")


def as_json(found: dict[str, LaunchPrediction]) -> dict[str, dict[str, Any]]:
    """{chip: {seconds, mme_seconds, tpc_seconds, units, bound}}"""
    return {
        chip: {"seconds": p.seconds, "mme_seconds": p.matrix, "tpc_seconds": p.vector, "units": p.units,
               "bound": p.bound}
        for chip, p in found.items()
    }  # fmt: skip


def _number(extent: Any, sizes: Sequence[int]) -> int:
    from habana_tf.ir import extent as ext

    return ext.evaluate(extent, list(sizes))


def _numbers(value: Any, sizes: Sequence[int], dtype: Any) -> Any:
    """A value that fixes a shape, with numbers of its input's type in the place of symbols. A `Count` stays one."""
    import numpy as np

    if value.dtype != object:
        return value
    numbers = np.array([_number(n, sizes) for n in value.reshape(-1)], dtype).reshape(value.shape)
    return numbers.view(type(value))
