"""HBM by category against sums of the shapes, by hand."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from habana_tf.card.model.cluster_time import cluster_time
from habana_tf.card.model.memory import CATEGORIES, hbm_by_category, held_bytes
from habana_tf.card.model.parameters import FITTED
from habana_tf.card.model.roles import Roles
from habana_tf.card.model.step_time import step_time
from habana_tf.card.prediction.prediction import Prediction
from habana_tf.hardware.chips import chip
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from tests.card.model.test_kernels import launched
from tests.child import on_hpu

KIB, MIB = 1 << 10, 1 << 20


def memory(fn: Any, *shapes: tuple[int, ...], roles: Roles | None = None) -> dict[str, int]:
    lowered = launched(fn, *shapes)
    time = cluster_time(chip("gaudi2"), lowered.program, frozenset(lowered.made.values()), FITTED)
    return hbm_by_category(chip("gaudi2"), lowered, time, roles or Roles())


@on_hpu
def test_a_tensor_that_a_later_kernel_reads_is_there_with_its_sums_and_the_result() -> None:
    """256 x 1024 in fp32 is 1 MiB: x, sums over columns (4 KiB), and x over them."""
    found = memory(lambda x: x / tf.reduce_sum(x, 0), (256, 1024))
    assert set(found) == set(CATEGORIES)
    assert found["inputs"] == MIB
    assert found["activations"] + found["workspace"] == MIB + 4 * KIB
    assert found["weights"] == found["optimizer"] == found["gradients"] == 0


def test_a_widened_tensor_takes_the_bytes_of_the_narrow_one() -> None:
    b = Builder()
    narrow = b.map("stored", b.input((256, 1024), DType.F32), dtype=DType.BF16)
    assert held_bytes(b.cast(narrow, DType.F32)) == held_bytes(narrow) == 256 * 1024 * 2


@on_hpu
def test_what_waits_for_a_later_unit_is_an_activation() -> None:
    """A product that is there early is added to what comes of a sort, which needs more memory than any other unit."""

    def f(a: Any, b: Any, wide: Any) -> Any:
        h = tf.matmul(a, b)
        middle = tf.reduce_sum(tf.sort(tf.matmul(h, wide), -1), -1, keepdims=True)
        return tf.matmul(h, b) + middle

    found = memory(f, (256, 256), (256, 256), (256, 8192))
    assert found["inputs"] == 2 * 256 * KIB + 8 * MIB
    # the gather of the sort: values and order in, values out, 8 MiB each; the last product's 256 KiB wait
    assert found["workspace"] == 24 * MIB
    assert found["activations"] == 256 * KIB


@on_hpu
def test_scores_that_stay_in_sram_need_no_hbm() -> None:
    """Softmax takes the product's slices from SRAM: of both only its result is written, 8 MiB."""
    found = memory(lambda q, k: tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), (8, 512, 64), (8, 512, 64))
    assert found["activations"] + found["workspace"] == 8 * MIB
    assert found["inputs"] == 2 * MIB


@on_hpu
def test_roles_name_what_is_weight_and_what_is_state() -> None:
    lowered = launched(lambda x, w, m: tf.matmul(x, w) + m, (64, 64), (64, 64), (64, 64))
    time = cluster_time(chip("gaudi2"), lowered.program, frozenset(lowered.made.values()), FITTED)
    by_name = {arg.name: lowered.made[-1, k] for k, arg in enumerate(lowered.cluster.inputs)}
    _, w, m = (by_name[name] for name in sorted(by_name))
    found = hbm_by_category(chip("gaudi2"), lowered, time, Roles({w}, {m}))
    assert (found["weights"], found["optimizer"], found["inputs"]) == (16 * KIB, 16 * KIB, 16 * KIB)


@on_hpu
def test_the_peak_has_an_owner_and_the_curve_of_the_step_has_its_height() -> None:
    """The sort of the wide product: values and order in, values out, 8 MiB each; the last product's 256 KiB wait."""

    def f(a: Any, b: Any, wide: Any) -> Any:
        h = tf.matmul(a, b)
        with tf.name_scope("net/ordered"):
            middle = tf.reduce_sum(tf.sort(tf.matmul(h, wide), -1), -1, keepdims=True)
        with tf.name_scope("net/last"):
            return tf.matmul(h, b) + middle

    lowered = launched(f, (256, 256), (256, 256), (256, 8192))
    step = step_time(chip("gaudi2"), [lowered])
    found = Prediction(256, "fp32", step, (lowered,), ())
    assert found.peak is not None and found.peak.nbytes == 24 * MIB + 256 * KIB
    assert next(iter(found.peak.layers)) == "net/ordered" and found.peak.layers["net/last"] == 256 * KIB
    assert found.peak.op.startswith("net/ordered/")
    assert max(found.hbm_over_step) == step.hbm_bytes and len(found.hbm_over_step) == len(step.units)
    shown = found.text(200)
    assert (
        f"the peak is at {found.peak.op}, with 24.2 MiB of tensors: net/ordered 24.0 MiB, net/last 256.0 KiB" in shown
    )
    assert "HBM over the step: " in shown and "█" in shown
