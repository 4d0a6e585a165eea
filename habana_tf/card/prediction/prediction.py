"""A prediction: how long a step takes on so many cards of a chip, where the time goes, and how much memory it needs."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from habana_tf.card.model.growth import largest
from habana_tf.card.model.host import UNKNOWN, Host
from habana_tf.card.model.lowered import Lowered
from habana_tf.card.model.memory import Peak
from habana_tf.card.model.parameters import LATEST, SPREAD
from habana_tf.card.model.step_time import StepTime
from habana_tf.card.prediction import report
from habana_tf.card.prediction.layers import Layer, layers
from habana_tf.card.prediction.limits import Limits, limits
from habana_tf.reports.report import Report
from habana_tf.reports.table import Table


@dataclass(frozen=True)
class HostOp:
    """An op that would run on the CPU. nbytes: of its inputs and outputs that cross to or from the card."""

    op: str
    name: str
    nbytes: int


@dataclass(frozen=True)
class Transfer:
    """A tensor that crosses PCIe in each step. name: the argument's, or the op's on the CPU; to: "card" or "host"."""

    name: str
    to: str
    nbytes: int


@dataclass(frozen=True, repr=False)
class Prediction(Report):
    """Of one step of a function or a training step, `batch` examples on each of `cards` cards of a chip, in each of
    `accumulate` micro-batches.

    print(it) shows tables; a notebook shows them too. `layers` are sorted, the costliest first. Times are seconds,
    sizes bytes.
    """

    batch: int
    precision: str
    step: StepTime = field(repr=False)
    launched: tuple[Lowered, ...] = field(repr=False)
    host: tuple[HostOp, ...] = field(repr=False)
    precision_why: str = ""
    """Why it is this precision, and what the program itself computes in."""
    fed_by: Host = UNKNOWN
    """What the hosts give to the cards."""
    release: str = LATEST
    """Of Habana's software, that the prediction stands for."""
    accumulate: int = 1
    """Micro-batches of a step."""
    transfers: tuple[Transfer, ...] = field(default=(), repr=False)
    resident: tuple[str, ...] = ()
    """Arguments that are on the card already, as the caller says."""
    assumed: tuple[str, ...] = ()
    """Sizes and numbers that depend on values, and what is counted for them."""

    @property
    def chip(self) -> str:
        return self.step.chip.name

    @property
    def cards(self) -> int:
        return self.step.cards

    @property
    def step_seconds(self) -> float:
        return self.limits.seconds

    @cached_property
    def limits(self) -> Limits:
        """What the step waits for: the cards, the input pipeline or Python."""
        host = replace(self.fed_by, python_seconds=self.accumulate * self.fed_by.python_seconds)
        return limits(self.step, self.batch * self.accumulate, host)

    @property
    def bound(self) -> str:
        """What a step waits for most: compute, memory, launch, network, waiting for cards, PCIe, input or Python."""
        return self.limits.bound

    @property
    def input_bound(self) -> bool:
        """Whether the input pipeline gives fewer examples than the cards could take."""
        return self.limits.input_bound

    @property
    def examples_per_second(self) -> float:
        """Of all cards together."""
        return self.batch * self.accumulate * self.cards / self.step_seconds if self.step_seconds else 0.0

    @property
    def range(self) -> tuple[float, float]:
        """Examples per second that a run may get: nine of ten published rows lie within `SPREAD` of a prediction that
        was made without them (docs/fidelity.md)."""
        return self.examples_per_second / (1 + SPREAD), self.examples_per_second * (1 + SPREAD)

    @property
    def launches(self) -> int:
        """Recipes that are launched in one step."""
        return len(self.launched)

    @property
    def memory(self) -> dict[str, int]:
        """HBM of one card by category: weights, optimizer, gradients, activations, workspace, inputs."""
        return dict(self.step.memory)

    @property
    def peak(self) -> Peak | None:
        """The moment of the step with most tensors in HBM: the op that works then, and whose tensors they are."""
        return max(self.step.peaks, key=lambda p: p.nbytes, default=None)

    @property
    def hbm_over_step(self) -> list[int]:
        """HBM of each moment of the step, launch by launch, without the firmware's: when each unit works."""
        always = sum(sum(g.always) for g in self.step.growth)
        return [always + fixed + growing for g in self.step.growth for fixed, growing in g.moments]

    @property
    def hbm_bytes(self) -> int:
        """HBM that one card needs, what its firmware keeps included."""
        return self.step.hbm_bytes + self.step.chip.idle_memory_bytes

    @property
    def fits(self) -> bool:
        """Whether that is no more than the card has."""
        return self.hbm_bytes <= self.step.chip.hbm_bytes

    def largest_batch(self) -> int:
        """Examples per card that fit, told from what grows with the batch and what does not (`card.model.growth`). A
        prediction for that batch needs as much memory within 3 % (tests/card/model/test_growth.py)."""
        kept = self.step.gradient_bytes if self.accumulate > 1 else 0
        room = self.step.chip.hbm_bytes - self.step.chip.idle_memory_bytes - kept
        return largest(self.step.growth, self.batch, room)

    @cached_property
    def engines(self) -> dict[str, float]:
        """Share of the step in which each is at work: MME, TPC, HBM (what products and kernels read and write), DMA
        (copies between host and card), network."""
        whole = self.step_seconds or 1.0
        units, each = self.step.units, self.accumulate / whole
        return {
            "MME": sum(u.busy for u in units if u.unit.product) * each,
            "TPC": sum(u.busy for u in units if not u.unit.product) * each,
            "HBM": sum(u.memory for u in units) * each,
            "DMA": self.step.copies / whole,
            "network": self.step.network / whole,
        }

    @property
    def mme_utilisation(self) -> float:
        """Operations of products, of those that the matrix engines could do in bf16 in the time of the step."""
        flops = self.accumulate * sum(u.flops for u in self.step.units)
        return flops / (self.step.chip.peak_bf16_flops * self.step_seconds) if self.step_seconds else 0.0

    @cached_property
    def parts(self) -> dict[str, float]:
        """The step's seconds: products, kernels, less what is hidden, the sums of micro-batches less the updates that
        they spare, the network alone, waiting for other cards, and for the host."""
        clusters, times = self.step.clusters, self.accumulate
        return {
            "products (MME)": times * sum(c.matrix for c in clusters),
            "kernels (TPC)": times * sum(c.vector for c in clusters),
            "done side by side": -times * sum(c.hidden for c in clusters),
            "micro-batches": self.step.launches - times * sum(c.seconds for c in clusters) if times > 1 else 0.0,
            "network alone": self.step.network_alone,
            "waiting for cards": self.step.waiting,
            "feeding": max(0.0, self.step.copies - self.step.working),
            "waiting for the host": self.step_seconds - self.step.seconds,
        }

    @cached_property
    def layers(self) -> list[Layer]:
        """Where the launches' time goes, the costliest first."""
        return layers(self.step, self.launched)

    @property
    def pcie(self) -> list[dict[str, Any]]:
        """What crosses PCIe in each step, the largest first: {name, to, nbytes, seconds}; nbytes: of a micro-batch. The
        step takes at least the sum of the seconds; up to that they are hidden behind the launches."""
        ordered = sorted(self.transfers, key=lambda t: (-t.nbytes, t.name))
        return [{**asdict(t), "seconds": self.accumulate * t.nbytes / self.step.chip.pcie_bandwidth} for t in ordered]

    @property
    def host_ops(self) -> list[dict[str, Any]]:
        """Ops that would run on the CPU: {op, count, nbytes}. Their copies are in the step; their own time is not: it
        depends on the host."""
        counts = Counter(h.op for h in self.host)
        return [
            {"op": op, "count": n, "nbytes": sum(h.nbytes for h in self.host if h.op == op)}
            for op, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ]

    @property
    def not_counted(self) -> list[str]:
        """What a real step has besides, and `step_seconds` has not."""
        own = ["its input pipeline"] if self.fed_by.input_rate is None else []
        own += [] if self.fed_by.python_seconds else ["Python"]
        out = [f"the host's own work: {', '.join([*own, 'compiling recipes before the first step'])}"]
        if self.host:
            out.append(f"the time of {len(self.host)} ops on the CPU; their copies to and from the card are counted")
        return out

    @property
    def advice(self) -> list[str]:
        """What would make the step faster, beyond single layers."""
        out = []
        if not self.fits:
            out.append(f"a batch of {self.largest_batch()} at most fits the card's HBM")
        if not self.fed_by.prefetch and self.step_seconds > self.step.seconds:
            out.append("loading the next batch while the card computes (tf.data: prefetch)")
        large = [row for row in self.host_ops if row["nbytes"] > 1 << 20]
        if large:
            out.append(f"ops on the CPU, which wait for the card's results: {', '.join(row['op'] for row in large)}")
        if self.parts["feeding"] > 0:
            fed = ", ".join(t["name"] for t in self.pcie[:3])
            out.append(f"less over PCIe, which the step waits for: {fed}; resident= names what is on the card already")
        if self.launches > 1:
            out.append(f"one cluster instead of {self.launches}: see habana_tf.explain() for what stands between them")
        return out

    def to_dict(self) -> dict[str, Any]:
        first = "chip cards batch accumulate release precision precision_why step_seconds examples_per_second".split()
        first += "range bound input_bound".split()
        first += ["hbm_bytes", "fits"]
        then = "launches mme_utilisation engines parts memory".split()
        return {
            **{name: getattr(self, name) for name in first},
            "limits": self.limits.to_dict(),
            "host": asdict(self.fed_by),
            "largest_batch": self.largest_batch(),
            "peak": None if self.peak is None else asdict(self.peak),
            "hbm_over_step": self.hbm_over_step,
            **{name: getattr(self, name) for name in then},
            "layers": [layer.to_dict() for layer in self.layers],
            "resident": [*self.resident],
            **{name: getattr(self, name) for name in ("pcie", "host_ops", "assumed", "not_counted", "advice")},
        }

    def summary(self) -> str:
        return report.summary(self)

    def shown(self) -> list[str | Table]:
        return report.shown(self)
