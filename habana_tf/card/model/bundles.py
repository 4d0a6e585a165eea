"""Bundles: a product with the kernels that take its result from SRAM, slice by slice.

A kernel belongs to the bundle that began last of all that it reads from: one that reads several products belongs to the
last of these, and a kernel of the backward pass belongs to the bundle of the gradient that it reads, whatever it reads
of the forward pass. A kernel that reads no product begins a bundle of its own.

    conv -> sums for batch norm         the sums read slices of the result in SRAM as they are made
    sums -> (y - mean) * scale          same bundle; y is read again after it was summed: from HBM, if it is large
    scores = q k^T -> softmax           sums over rows: scores never leave SRAM
    dy = g w^T -> sums of dy and dy y   dy from SRAM; y, a result of the forward pass, from HBM

What a kernel takes from its own bundle's product costs no HBM traffic. The product is written to HBM, once, if another
bundle reads it or it leaves the launch. Slices are along the batch or the rows, so that tensors of any size fit; SRAM
holds `SLICES` of them at once (double buffering). These are read from HBM:

- what another bundle made;
- the own product's result in a kernel that must wait for all of it (after sums over rows far apart, sorts, scans),
  unless all slices fit, because the first slices are gone by then;
- a tensor of which not even one row fits, but for the scores of a causal attention (`attention`), which is one kernel;
- what a kernel made, because kernels that could exchange slices were fused into one before.

A kernel that reads only its own bundle is assumed to run with it, even if its result is needed much later.
"""

from __future__ import annotations

from collections.abc import Sequence

from habana_tf.card.model.attention import causal
from habana_tf.card.model.kernels import Unit, behind_views, in_slices, nbytes
from habana_tf.hardware.chips import Chip
from habana_tf.ir import extent as ext
from habana_tf.ir.primitives import Node, Program

SLICES = 2
"""Slices of a tensor in SRAM at once: one that is made while the other is read."""


def bundles(units: list[Unit]) -> list[int]:
    """For each unit the index of the unit that its bundle began with."""
    maker = {n: unit.index for unit in units for n in unit.results}
    home: list[int] = []
    for unit in units:
        begun = {home[maker[t]] for t in unit.loads if t in maker}
        if unit.product or not begun:
            home.append(unit.index)
        else:  # what waits for no product can be done before all products
            home.append(max(begun, key=lambda first: (units[first].product, first)))
    return home


def parts(units: list[Unit], home: list[int], starts: Sequence[float], seconds: Sequence[float]) -> list[int]:
    """For each unit the index of the first unit of its part of the bundle. A part is a run of units with hardly a wait
    between them: a unit that waits longer than it works, such as one whose result only the backward pass reads, begins
    a new part. starts, seconds: of each unit."""
    maker = {n: unit.index for unit in units for n in unit.results}
    ends = [at + took for at, took in zip(starts, seconds, strict=True)]
    out = list(range(len(units)))
    for unit in units:
        made = [maker[t] for t in unit.loads if t in maker and home[maker[t]] == home[unit.index]]
        last = max(made, key=lambda k: (ends[k], k), default=unit.index)
        if starts[unit.index] <= ends[last] + seconds[unit.index]:
            out[unit.index] = out[last]
    return out


def room(chip: Chip) -> int:
    """Bytes of SRAM for one slice of a tensor."""
    return (chip.sram_bytes - chip.sram_reserved_bytes) // SLICES


def near(chip: Chip, units: list[Unit], home: list[int]) -> list[set[Node]]:
    """For each unit the tensors that it reads in SRAM, where its bundle's product put them."""
    maker = {n: unit for unit in units for n in unit.results}
    scores = causal(units)[1]
    waits: list[bool] = []  # for what was made of all of its product's result
    out: list[set[Node]] = []
    for unit in units:
        made = [(t, maker[t]) for t in unit.loads if t in maker and home[maker[t].index] == home[unit.index]]
        waits.append(any(waits[m.index] or not in_slices(t) for t, m in made))
        out.append({t for t, m in made if m.product and _stays(chip, t, waits[-1])} | scores & unit.loads.keys())
    return out


def _stays(chip: Chip, n: Node, whole: bool) -> bool:
    """Whether a tensor can be in SRAM for its reader, all of it or slice by slice."""
    return nbytes(n) <= SLICES * room(chip) if whole else _row(n) <= room(chip)


def unwritten(chip: Chip, program: Program, units: list[Unit], home: list[int]) -> set[Node]:
    """The tensors that are never in HBM: results of products that all readers take from SRAM."""
    inside = near(chip, units, home)
    fetched = {t for unit in units for t in unit.loads if t not in inside[unit.index]}
    kept = fetched | behind_views(program.outputs)
    scores = causal(units)[1]
    return {t for u in units for t in u.stores if (u.product or t in scores) and t not in kept}


def traffic(chip: Chip, program: Program, units: list[Unit], home: list[int]) -> list[int]:
    """For each unit the bytes it moves to and from HBM."""
    inside, stays = near(chip, units, home), unwritten(chip, program, units, home)
    return [
        sum(bytes_ for tensor, bytes_ in unit.loads.items() if tensor not in inside[unit.index])
        + sum(bytes_ for tensor, bytes_ in unit.stores.items() if tensor not in stays)
        for unit in units
    ]


def sram_bytes(chip: Chip, n: Node) -> int:
    """Bytes of SRAM that a tensor takes while it is handed on: all of it, or `SLICES` slices of as many whole rows as
    fit."""
    return min(nbytes(n), SLICES * (room(chip) // max(_row(n), 1) * _row(n)))


def _row(n: Node) -> int:
    """Bytes of the smallest slice along the first axis that has several entries."""
    rows = next((ext.nominal(e) for e in n.shape if ext.nominal(e) > 1), 1)
    return nbytes(n) // rows
