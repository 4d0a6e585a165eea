"""The answer to `plan()` for a language model: how its training may be laid on cards, the fastest way first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from habana_tf.hardware.chips import Chip
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table
from habana_tf.reports.units import brief, size


@dataclass(frozen=True)
class Layout:
    """How a job is laid on cards. tp, pp, dp: cards that share layers, stages, copies of the model; zero: 0 where
    nothing is spread over the copies, 1 where the optimizer's state is and gradients are summed once a step, 2 where
    gradients are, too, 3 where weights are; micro_batch: sequences at once; micro_batches: of them before an
    update; recompute: what of layers is computed again in the backward pass beside attention's weights: "none", "some"
    for all but products and what cards sum, or "all"; precision: "bf16" for
    weights and all, "mixed" for weights of fp32 and products of bf16, "fp8" for "bf16" with
    the linear layers in 8 bits; sequence: whether cards that share layers have a part of the sequence each outside
    attention and MLP."""

    tp: int
    pp: int
    dp: int
    zero: int
    micro_batch: int
    micro_batches: int
    recompute: str
    precision: str
    sequence: bool = False

    @property
    def cards(self) -> int:
        return self.tp * self.pp * self.dp

    @property
    def global_batch(self) -> int:
        """Sequences between two updates."""
        return self.dp * self.micro_batch * self.micro_batches

    def __str__(self) -> str:
        again = "" if self.recompute == "none" else f", {self.recompute} recomputed"
        tokens = " with tokens shared" if self.sequence else ""
        return (
            f"tp {self.tp}{tokens}, pp {self.pp}, dp {self.dp}, ZeRO {self.zero}, {self.micro_batches} x "
            f"{self.micro_batch} sequences, {self.precision}{again}"
        )


@dataclass(frozen=True)
class LayoutRow:
    """A layout that fits. length: tokens of a sequence; seconds: of a step; exposed: of these, in which a card waits
    for the network or for other stages; memory: bytes that the fullest card needs. whole: whether all layers were
    recorded; else it is a line through recordings of three and four."""

    layout: Layout
    length: int
    seconds: float
    exposed: float
    memory: int
    whole: bool = False

    @property
    def tokens_per_second(self) -> float:
        """Of all cards."""
        return self.layout.global_batch * self.length / self.seconds

    def to_dict(self) -> dict[str, Any]:
        found = {**asdict(self), **asdict(self.layout), "tokens_per_second": self.tokens_per_second}
        del found["layout"]
        return found


@dataclass(frozen=True, repr=False)
class LayoutPlan(Report):
    """rows: of each tp, pp and precision the fastest layout that fits, the fastest first; iterate for them. left_out:
    why others are not among them. tried: layouts that were recorded."""

    chip: Chip
    rows: tuple[LayoutRow, ...]
    left_out: tuple[str, ...]
    tried: int

    def __iter__(self) -> Iterator[LayoutRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def best(self) -> LayoutRow | None:
        """The first row; None if nothing fits."""
        return self.rows[0] if self.rows else None

    def to_dict(self) -> dict[str, Any]:
        rows = [row.to_dict() for row in self.rows]
        return {"chip": self.chip.name, "rows": rows, "left_out": list(self.left_out), "tried": self.tried}

    def summary(self) -> str:
        if not self.rows:
            return f"nothing fits {self.chip.product}"
        row = self.rows[0]
        return (
            f"{row.layout.cards:,} x {self.chip.name}: {row.layout}: {row.tokens_per_second:,.0f} tokens/s, "
            f"{brief(row.seconds)} a step, {size(row.memory)} of {size(self.chip.hbm_bytes)}"
        )

    def shown(self) -> list[str | Table]:
        out: list[str | Table] = [self.summary()]
        if self.rows:
            cells = [
                (
                    str(at.tp), "shared" if at.sequence else "whole", str(at.pp), str(at.dp), str(at.zero),
                    f"{at.micro_batches} x {at.micro_batch}", at.recompute, at.precision,
                    f"{row.tokens_per_second:,.0f}", brief(row.seconds), f"{row.exposed / row.seconds:.0%}",
                    size(row.memory),
                )
                for row in self.rows
                for at in [row.layout]
            ]  # fmt: skip
            columns = ">tp tokens >pp >dp >ZeRO >batch again as >tokens/s >step >waits >HBM".split()
            out.append(Table(columns, cells))
        out += [f"left out: {why}" for why in self.left_out]
        return out
