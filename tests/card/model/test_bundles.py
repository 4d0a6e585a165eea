"""Bundles and their traffic, by bytes that stand in the test."""

from __future__ import annotations

import pytest

from habana_tf.card.model.bundles import SLICES, bundles, near, room, sram_bytes, traffic, unwritten
from habana_tf.card.model.kernels import Unit, cut
from habana_tf.card.model.lowered import Lowered
from habana_tf.hardware.chips import chip, chips
from habana_tf.ir.builder import Builder
from habana_tf.ir.dtypes import DType
from tests.card.model.programs import MATMUL, MIB, cluster, product_and_relu

GAUDI2 = chip("gaudi2")


def units(lowered: Lowered) -> list[Unit]:
    return cut(lowered.program, set(lowered.made.values()))


def test_a_kernel_belongs_to_the_product_it_reads() -> None:
    lowered = product_and_relu()
    found = units(lowered)
    assert [u.product for u in found] == [True, False]
    assert bundles(found) == [0, 0]
    y = lowered.made[0, 0]
    assert near(GAUDI2, found, [0, 0]) == [set(), {y}]
    assert unwritten(GAUDI2, lowered.program, found, [0, 0]) == {y}
    assert traffic(GAUDI2, lowered.program, found, [0, 0]) == [(8 + 2) * MIB, 8 * MIB]


def test_what_leaves_the_cluster_is_written_but_not_read_again() -> None:
    b = Builder()
    x, w = b.input((4096, 1024), DType.BF16), b.input((1024, 1024), DType.BF16)
    y = b.contract(x, w, MATMUL)
    z = b.map("tanh", y)
    lowered = cluster(b, [y, z], [0, 1])
    found = units(lowered)
    assert unwritten(GAUDI2, lowered.program, found, [0, 0]) == set()
    assert traffic(GAUDI2, lowered.program, found, [0, 0]) == [(8 + 2 + 8) * MIB, 8 * MIB]


def test_kernels_without_a_product_are_bundles_of_their_own() -> None:
    """Sums over columns end a kernel; what takes them off again follows it, from HBM."""
    b = Builder()
    x, other = b.input((4096, 1024), DType.F32), b.input((512, 512), DType.F32)
    total = b.reduce("sum", x, (0,))
    centred = b.binary("sub", x, total)
    lonely = b.map("exp", other)
    lowered = cluster(b, [total, centred, lonely], [1, 2])
    found = units(lowered)
    home = bundles(found)
    assert [u.product for u in found] == [False] * 3
    assert home == [0, 0, 2] and near(GAUDI2, found, home) == [set()] * 3
    assert traffic(GAUDI2, lowered.program, found, home) == [16 * MIB + 4096, 16 * MIB + 4096 + 16 * MIB, 2 * MIB]


def test_the_later_of_two_products_has_what_reads_both() -> None:
    b = Builder()
    x, w = b.input((512, 512), DType.BF16), b.input((512, 512), DType.BF16)
    one, two = b.contract(x, w, MATMUL), b.contract(w, x, MATMUL)
    both = b.map("add", one, two)
    lowered = cluster(b, [one, two, both], [2])
    found = units(lowered)
    assert bundles(found) == [0, 1, 1]
    assert near(GAUDI2, found, [0, 1, 1])[2] == {two}
    half = MIB // 2
    assert traffic(GAUDI2, lowered.program, found, [0, 1, 1]) == [3 * half, 2 * half, half + half]


def batch_norm(rows: int) -> Lowered:
    """x w in fp32 with rows x 1024, sums over its columns, and what is left when they are taken off."""
    b = Builder()
    x, w = b.input((rows, 1024), DType.F32), b.input((1024, 1024), DType.F32)
    y = b.contract(x, w, MATMUL)
    total = b.reduce("sum", y, (0,))
    return cluster(b, [y, total, b.binary("sub", y, total)], [2])


def test_a_norm_over_the_batch_reads_the_result_as_it_is_made_and_once_more() -> None:
    """64 MiB of result are more than Gaudi2's 48 of SRAM: they are written, and read again when they are summed."""
    lowered = batch_norm(16384)
    found = units(lowered)
    y = lowered.made[0, 0]
    assert [u.product for u in found] == [True, False, False] and bundles(found) == [0, 0, 0]
    assert near(GAUDI2, found, [0, 0, 0]) == [set(), {y}, set()]
    moved = traffic(GAUDI2, lowered.program, found, [0, 0, 0])
    assert moved == [(64 + 4 + 64) * MIB, 4096, (64 + 64) * MIB + 4096]


def test_a_norm_of_what_fits_never_leaves_sram() -> None:
    lowered = batch_norm(4096)
    found = units(lowered)
    assert traffic(GAUDI2, lowered.program, found, [0, 0, 0]) == [(16 + 4) * MIB, 4096, 16 * MIB + 4096]
    gaudi = chip("gaudi")  # 20 MiB less 320 KiB
    assert traffic(gaudi, lowered.program, found, [0, 0, 0])[0] == (16 + 4) * MIB
    larger = batch_norm(8192)
    assert traffic(gaudi, larger.program, units(larger), [0, 0, 0])[0] == (32 + 4 + 32) * MIB


def test_a_residual_sum_joins_the_later_branch() -> None:
    """Two products, each with a norm of its own; the sum is one kernel with both norms, which nothing else reads."""
    b = Builder()
    x, w, v = b.input((16384, 1024), DType.F32), b.input((1024, 1024), DType.F32), b.input((1024, 1024), DType.F32)
    one, two = b.contract(x, w, MATMUL), b.contract(x, v, MATMUL)
    sums = [b.reduce("sum", y, (0,)) for y in (one, two)]
    norms = [b.binary("sub", y, s) for y, s in zip((one, two), sums, strict=True)]
    both = b.map("add", *norms)
    lowered = cluster(b, [one, two, *sums, *norms, both], [6])
    found = units(lowered)
    maker = {n: u.index for u in found for n in u.results}
    home, inside = bundles(found), near(GAUDI2, found, bundles(found))
    assert maker[one] < maker[two] and set(norms) < found[maker[both]].inside
    assert home[maker[sums[0]]] == maker[one]
    assert [home[maker[n]] for n in (sums[1], both)] == [maker[two]] * 2
    assert inside[maker[sums[1]]] == {two} and inside[maker[both]] == set()


def test_the_backward_pass_reads_a_result_of_the_forward_pass_from_hbm() -> None:
    """y is handed to tanh. Sums of a gradient come much later, and what takes them from y with them: it belongs to the
    gradient's bundle, and SRAM has not kept y, which would fit."""
    b = Builder()
    x, w, g = b.input((1024, 1024), DType.F32), b.input((1024, 1024), DType.F32), b.input((2048, 1024), DType.F32)
    y = b.contract(x, w, MATMUL)
    z = b.map("tanh", y)
    dy = b.contract(g, b.map("neg", z), MATMUL)
    total = b.reduce("sum", dy, (0,))
    dx = b.binary("mul", y, total)
    lowered = cluster(b, [y, z, dy, total, dx], [4])
    found = units(lowered)
    maker = {n: u.index for u in found for n in u.results}
    home = bundles(found)
    assert home[maker[z]] == maker[y] and home[maker[total]] == home[maker[dx]] == maker[dy]
    inside = near(GAUDI2, found, home)
    assert (inside[maker[z]], inside[maker[total]], inside[maker[dx]]) == ({y}, {dy}, set())
    assert unwritten(GAUDI2, lowered.program, found, home) == {dy}
    moved = traffic(GAUDI2, lowered.program, found, home)
    assert moved[maker[y]] == (4 + 4 + 4) * MIB and moved[maker[dx]] == (4 + 4) * MIB + 4096


def test_what_waits_for_no_product_draws_no_kernel_from_its_bundle() -> None:
    """A bias that is made smaller first: behind the product in the order, but it can be done before."""
    b = Builder()
    x, w = b.input((1024, 1024), DType.F32), b.input((1024, 1024), DType.F32)
    bias = b.cast(b.input((1024,), DType.F32), DType.BF16)
    y = b.contract(x, w, MATMUL)
    z = b.binary("add", y, b.cast(bias, DType.F32))
    lowered = cluster(b, [y, bias, z], [2])
    found = units(lowered)
    maker = {n: u.index for u in found for n in u.results}
    home = bundles(found)
    assert maker[y] < maker[bias] < maker[z] and home == [0, 1, 0]
    assert near(GAUDI2, found, home)[maker[z]] == {y}


@pytest.mark.parametrize("known", chips(), ids=lambda known: known.name)
def test_slices_of_a_tensor_fit_and_a_row_too_many_does_not(known: object) -> None:
    known = next(each for each in chips() if each is known)
    least = room(known)
    assert SLICES * least <= known.sram_bytes - known.sram_reserved_bytes
    b = Builder()
    small, rows = b.input((16, 1024), DType.F32), b.input((1 << 20, 1024), DType.F32)
    assert sram_bytes(known, small) == 64 << 10
    assert least - 4096 < sram_bytes(known, rows) / SLICES <= least and sram_bytes(known, rows) % 4096 == 0
    wide = b.input((4, least), DType.F32)  # four times too wide
    assert sram_bytes(known, wide) == 0


def test_a_result_of_which_no_row_fits_goes_through_hbm() -> None:
    gaudi = chip("gaudi")
    wide = 4 * MIB  # of fp32: rows of 16 MB, where there is room for slices of 10
    b = Builder()
    x, w = b.input((2, 128), DType.F32), b.input((128, wide), DType.F32)
    y = b.contract(x, w, MATMUL)
    z = b.map("tanh", y)
    lowered = cluster(b, [y, z], [1])
    found = units(lowered)
    assert near(gaudi, found, [0, 0])[1] == set()
    assert traffic(gaudi, lowered.program, found, [0, 0])[1] == 2 * 2 * wide * 4
