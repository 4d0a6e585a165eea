"""Bundles: a product with the kernels before and behind it, cut into slices that stay in SRAM.

What: a kernel that reads a product's result belongs to the product's bundle, and so does what follows the kernel. What
is handed on inside a bundle is in SRAM and costs no HBM traffic, unless somebody outside reads it too: then it is
written once, but not read again. Kernels without a product are bundles of their own.

    conv -> sums for batch norm          the sums read slices of the result in SRAM; HBM sees it written once
    scores = q k^T -> softmax            scores never leave SRAM

Slices are along the batch or the rows, so that a bundle fits whatever its tensors' size; `SLICES` of them are in SRAM
at once (double buffering), and a tensor of which even one row does not fit is read from HBM.
"""

from __future__ import annotations

from collections import defaultdict

from ..hardware.chips import Chip
from ..ir import extent as ext
from ..ir.primitives import Node, Program
from .kernels import Unit, nbytes, through_views

SLICES = 2
"""Slices of a tensor in SRAM at once: one that is made while the other is read."""


def bundles(units: list[Unit]) -> list[int]:
    """For each unit the index of the unit that its bundle began with."""
    maker = {n: unit for unit in units for n in unit.results}
    home: list[int] = []
    for unit in units:
        made = [(bytes_, maker[t]) for t, bytes_ in unit.loads.items() if t in maker]
        products = [m.index for _, m in made if m.product]
        if unit.product or not made:
            home.append(unit.index)
        elif products:
            home.append(max(products))
        else:
            home.append(home[max(made, key=lambda pair: pair[0])[1].index])
    return home


def traffic(chip: Chip, program: Program, units: list[Unit], home: list[int]) -> list[int]:
    """For each unit the bytes it moves to and from HBM."""
    maker = {n: unit for unit in units for n in unit.results}
    readers: dict[Node, set[int]] = defaultdict(set)
    for unit in units:
        for tensor in unit.loads:
            readers[tensor].add(home[unit.index])
    leaving = {seen.tensor for n in program.outputs for seen in through_views(n)}
    room = (chip.sram_bytes - chip.sram_reserved_bytes) // SLICES
    out = []
    for unit in units:
        here = home[unit.index]
        total = 0
        for tensor, bytes_ in unit.loads.items():
            made = maker.get(tensor)
            near = made is not None and home[made.index] == here and (made.product or unit.product)
            if not (near and _row(tensor) <= room):
                total += bytes_
        for tensor, bytes_ in unit.stores.items():
            stays = unit.product and tensor not in leaving and readers[tensor] == {here} and _row(tensor) <= room
            total += 0 if stays else bytes_
        out.append(total)
    return out


def _row(n: Node) -> int:
    """Bytes of the smallest slice along the first axis that has several entries."""
    rows = next((ext.nominal(e) for e in n.shape if ext.nominal(e) > 1), 1)
    return nbytes(n) // rows
