"""Habana's metrics: what was compiled and what ran on the CPU, as numbers since the start or within a context.

They count what `recompilation_report()` and `placement_report()` show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from habana_tf.resolver.placements import placements
from habana_tf.resolver.recompilations import OWN_RECIPE, recompilation_report

__all__ = ["Metric", "MetricNotFound", "metric_global", "metric_localcontext"]


class MetricNotFound(RuntimeError):
    """There is no metric of a name."""


def _recipes() -> tuple[Counter[str], int]:
    """How many recipes came from where, and the microseconds that compiling took; of programs of more than one op, by
    the signatures that are remembered."""
    report = recompilation_report()
    counts: Counter[str] = Counter()
    for each in (*(c.counts for c in report.clusters), *report.one_op.values()):
        counts.update(each)
    seconds = sum(m.seconds for c in report.clusters for m in c.met if m.recipe == "compiled")
    return counts, round(seconds * 1e6)


def _compilations() -> dict[str, int]:
    counts, microseconds = _recipes()
    return {"TotalNumber": counts["compiled"], "TotalTime": microseconds}


def _cache() -> dict[str, int]:
    counts, _ = _recipes()
    missed = counts["compiled"]
    return {"TotalHit": sum(counts[how] for how in OWN_RECIPE) - missed, "TotalMiss": missed}


def _on_cpu() -> dict[str, int]:
    counts: Counter[str] = Counter()
    for each in placements().cpu:
        counts[each.op] += each.count
    return counts


_COUNTED: dict[str, Callable[[], dict[str, int]]] = {
    "graph_compilation": _compilations,
    "recipe_cache": _cache,
    "cpu_fallback": _on_cpu,
}


class Metric:
    """One metric, counted from the time that this was made, or reset, until `stop`."""

    def __init__(self, name: str) -> None:
        if name not in _COUNTED:
            raise MetricNotFound(f"Metric with given name ({name}) doesn't exist; there are {', '.join(_COUNTED)}")
        self._name, self._counted = name, _COUNTED[name]
        self._until: dict[str, int] | None = None
        self._from: dict[str, int] = {}

    def name(self) -> str:
        """graph_compilation, recipe_cache or cpu_fallback."""
        return self._name

    def reset(self) -> None:
        """Counts from now on."""
        self._from = self._counted()

    def start(self) -> None:
        """Goes on counting after `stop`."""
        if self._until is not None:
            now = self._counted()
            self._from = {k: n - self._until.get(k, 0) + self._from.get(k, 0) for k, n in now.items()}
            self._until = None

    def stop(self) -> None:
        """Counts no more."""
        if self._until is None:
            self._until = self._counted()

    def stats(self) -> list[tuple[str, Any]]:
        """Habana's names of the numbers: TotalNumber, TotalTime and AvgTime (microseconds) of compilations; TotalHit
        and TotalMiss of the recipe cache; TotalNumber and FallbackOps, by overload, of calls that the CPU ran."""
        until = self._counted() if self._until is None else self._until
        numbers = {k: n - self._from.get(k, 0) for k, n in until.items()}
        if self._name == "cpu_fallback":
            ops = {k: n for k, n in numbers.items() if n}
            return [("TotalNumber", sum(ops.values())), ("FallbackOps", ops)]
        if self._name == "graph_compilation":
            count = numbers["TotalNumber"]
            return [*numbers.items(), ("AvgTime", numbers["TotalTime"] / count if count else 0)]
        return list(numbers.items())

    def __str__(self) -> str:
        return f"{self._name}: " + ", ".join(f"{k} {n}" for k, n in self.stats())


_global: dict[str, Metric] = {}


def metric_global(name: str) -> Metric:
    """The metric of this name, counted since the start of the process or its `reset`. Raises MetricNotFound."""
    if name not in _global:
        _global[name] = Metric(name)
    return _global[name]


@contextmanager
def metric_localcontext(name: str) -> Iterator[Metric]:
    """A metric counted within. Raises MetricNotFound."""
    metric = Metric(name)
    metric.reset()
    try:
        yield metric
    finally:
        metric.stop()
