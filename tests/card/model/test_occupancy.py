"""What is in the card's memories, counted by hand."""

from __future__ import annotations

import pytest

from habana_tf.card.model.bundles import parts
from habana_tf.card.model.cluster_time import cluster_time
from habana_tf.card.model.engine_schedule import EngineSchedule, engine_schedule
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.occupancy import InUse, in_use
from habana_tf.hardware.chips import Chip, chip
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from tests.card.model.programs import MATMUL, MIB, PLAIN, cluster, product_and_relu


def used(lowered: Lowered, on: Chip) -> tuple[list[InUse], EngineSchedule, float]:
    time = cluster_time(on, lowered.program, frozenset(lowered.made.values()), PLAIN)
    placed = engine_schedule(time)
    return in_use(on, lowered, time, placed), placed, time.seconds


def test_a_result_that_stays_in_sram_is_there_only() -> None:
    """x (8 MiB) and w (2 MiB) are fed; y (8 MiB) is handed on, and z (8 MiB) leaves."""
    found, placed, seconds = used(product_and_relu(), chip("gaudi2"))
    assert [(u.hbm // MIB, u.sram // MIB) for u in found] == [(10, 8), (18, 8), (10, 0)]
    assert [u.at for u in found] == [0.0, placed.starts[1], pytest.approx(seconds)]


def test_slices_of_what_is_larger_than_sram() -> None:
    """A result of 128 MiB: of Gaudi's 20 MiB of SRAM less 320 KiB two slices of whole rows of 2 KiB."""
    found, _, _ = used(product_and_relu(rows=65536), chip("gaudi"))
    room = (20 * MIB - (320 << 10)) // 2
    assert max(u.sram for u in found) == 2 * (room // 2048 * 2048)
    assert max(u.hbm for u in found) == (128 + 2 + 128) * MIB


def test_tensors_go_when_they_were_read_and_variables_take_no_second_place() -> None:
    """Sums over columns (4 KiB), their difference from x (16 MiB) in a tensor that a sum reads, and a variable of 4 KiB
    that becomes its sum with them."""
    b = Builder()
    x, variable = b.input((4096, 1024), DType.F32), b.input((1024,), DType.F32)
    total = b.reduce("sum", x, (0,))
    centred = b.binary("sub", x, total)
    last = b.reduce("max", centred, (0,))
    new = b.map("add", variable, last)
    lowered = cluster(b, [total, centred, last, new], [3], updates=[3])
    found, _, seconds = used(lowered, chip("gaudi2"))
    fed, kib = 16 * MIB + 4096, 1024
    assert found[0] == InUse(0.0, fed + 4 * kib, 0)
    assert max(u.hbm for u in found) <= fed + 16 * MIB + 8 * kib
    assert (found[-1].at, found[-1].hbm) == (pytest.approx(seconds), fed)


def test_a_late_reader_of_the_same_bundle_is_a_part_of_its_own() -> None:
    """y is read by a long kernel, on which the next product waits, and by a short one, on which nothing does: that
    comes when the long one is done, and SRAM holds y for the long one alone."""
    b = Builder()
    x, w = b.input((4096, 1024), DType.BF16), b.input((1024, 1024), DType.BF16)
    y = b.contract(x, w, MATMUL)
    z = y
    for _ in range(40):
        z = b.map("tanh", z)
    short = b.map("abs", b.slice(y, (0, 0), (1024, 1024)))
    lowered = cluster(b, [y, z, b.contract(z, w, MATMUL), short], [2, 3])
    time = cluster_time(chip("gaudi2"), lowered.program, frozenset(lowered.made.values()), PLAIN)
    placed = engine_schedule(time)
    units = [u.unit for u in time.units]
    maker = {n: u.index for u in units for n in u.results}
    home = [u.bundle for u in time.units]
    assert home[maker[y]] == home[maker[z]] == home[maker[short]] == maker[y]
    found = parts(units, home, placed.starts, placed.seconds)
    assert found[maker[y]] == found[maker[z]] == maker[y]
    assert found[maker[short]] == maker[short]
