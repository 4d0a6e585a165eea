"""A job of many cards as a page: what each rank does and when, who waits, for whom, and where they meet."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from habana_tf.card.prediction.ranks import Collective, Span
from habana_tf.card.prediction.waits import RankTime, Wait, waits
from habana_tf.reports.page import clock
from habana_tf.reports.page.markup import STYLE, Markup, document, table, tag, tiles
from habana_tf.reports.units import brief, size

_KINDS = ("launch", "wait", "compile", "kernel", "cpu")
_LEGEND = (("launch", "launch"), ("wait", "waits for a rank"), ("compile", "waits for the network"),
           ("kernel", "collective"), ("cpu", "message"))  # fmt: skip
_LAUNCH, _FOR_RANK, _FOR_NETWORK, _COLLECTIVE, _MESSAGE = range(5)
_CARD, _NETWORK, _RECEIVED = range(3)
"""The lines of a rank, from above."""
_MOST_ROWS = 40


def page(title: str, seconds: float, skew: float, ranks: Sequence[RankTime], spans: Sequence[Span]) -> str:
    """The document, which loads nothing. title: chip and cards; the rest as RanksPrediction has it."""
    waited = waits(spans)
    by_rank = [wait for wait in waited if wait.other is not None]
    return document(
        title, STYLE + clock.STYLE, clock.POLICY,
        tag("h1", "Who waits for whom"),
        tag("p", f"{title}; a step of {len(ranks)} of them, as predicted.", class_="quiet"),
        tiles([
            (brief(seconds), "a step"), (size(max(rank.memory for rank in ranks)), "of tensors at most"),
            (brief(max(rank.launches for rank in ranks)), "in launches, of the rank with most"),
            (brief(max((_total(by_rank, rank.rank) for rank in ranks), default=0.0)),
             "waiting for other ranks, of the rank that waits most"),
            (brief(skew), "lost to the slowest card, in the mean"),
        ]),
        tag("p", f"A rank has three lines: its card, what it sends or sums, what it receives. {clock.HINT}",
            class_="quiet"),
        clock.legend(_LEGEND),
        clock.clock(0, "Lines join what is one collective or message"),
        tag("noscript", tag("p", "The timeline needs JavaScript; what follows does not.")),
        *_ranks(ranks, waited),
        *_waits(waited),
        *_reads(ranks),
        *_embedded(spans, waited),
    )  # fmt: skip


def _total(found: Sequence[Wait], rank: int) -> float:
    return sum(wait.seconds for wait in found if wait.rank == rank)


def _ranks(ranks: Sequence[RankTime], waited: Sequence[Wait]) -> list[Markup]:
    names = ("rank", "launches", "waits for ranks", "waits for the network", "network", "tensors at most")
    rows = []
    for rank in ranks:
        mine = [wait for wait in waited if wait.rank == rank.rank]
        others, network = ([w for w in mine if (w.other is None) is alone] for alone in (False, True))
        times = (rank.launches, _total(others, rank.rank), _total(network, rank.rank), rank.network)
        rows.append((str(rank.rank), *map(brief, times), size(rank.memory)))
    return [tag("h2", "Ranks"), table(names, set(names), rows)]


def _waits(waited: Sequence[Wait]) -> list[Markup]:
    """The table of waits, those at one line together, the longest first."""
    sums: dict[tuple[int, str, str, str], list[float]] = defaultdict(list)
    for wait in waited:
        other = "the network" if wait.other is None else f"rank {wait.other}"
        sums[wait.rank, other, wait.event.meets, wait.event.line].append(wait.seconds)
    rows = sorted(sums.items(), key=lambda row: -sum(row[1]))
    names = ("rank", "waits for", "at", "line", "times", "together")
    lines = [(str(rank), other, what, line or "of no file", str(len(times)), brief(sum(times)))
             for (rank, other, what, line), times in rows[:_MOST_ROWS]]  # fmt: skip
    more = f"The first {_MOST_ROWS} of {len(rows)}." if len(rows) > _MOST_ROWS else ""
    said = "No card waits." if not rows else f"What the launches of a card waited for. {more}"
    shown = [table(names, {"times", "together"}, lines)] if rows else []
    return [tag("h2", "Waits"), tag("p", said, class_="quiet"), *shown]


def _reads(ranks: Sequence[RankTime]) -> list[Markup]:
    rows = [(str(rank.rank), str(count), line or "of no file")
            for rank in ranks for line, count in rank.reads.items()]  # fmt: skip
    if not rows:
        return []
    said = "In the whole program; each ends the launches before it."
    return [tag("h2", "Values that the host waits for"), tag("p", said, class_="quiet"),
            table(("rank", "times", "line"), {"times"}, rows[:_MOST_ROWS])]  # fmt: skip


def _embedded(spans: Sequence[Span], waited: Sequence[Wait]) -> list[Markup]:
    names: dict[str, int] = {}
    meetings: dict[tuple[Any, ...], int] = {}
    rows: dict[int, list[list[float | int]]] = {span.rank: [] for span in spans}

    def put(rank: int, begin: float, end: float, kind: int, name: str, depth: int, *meeting: int) -> None:
        number = names.setdefault(name, len(names))
        rows[rank].append([round(begin * 1e6, 3), round((end - begin) * 1e6, 3), kind, number, depth, *meeting])

    shown = sorted(spans, key=lambda span: span.begin)[: clock.MOST_SPANS]
    for span in shown:
        if not isinstance(span.event, Collective):
            put(span.rank, span.begin, span.end, _LAUNCH, span.event.name, _CARD)
            continue
        message = span.event.kind in ("send", "recv")
        key = (span.begin, span.end, span.event.group, span.event.ranks)
        put(
            span.rank, span.begin, span.end, _MESSAGE if message else _COLLECTIVE, str(span.event),
            _RECEIVED if span.event.kind == "recv" else _NETWORK, meetings.setdefault(key, len(meetings)),
        )  # fmt: skip
    last = shown[-1].begin if shown else 0.0
    for wait in waited:
        if wait.begin <= last:
            kind = _FOR_NETWORK if wait.other is None else _FOR_RANK
            put(wait.rank, wait.begin, wait.end, kind, f"waits for {wait}", _CARD)
    made = [{"name": f"rank {rank}", "spans": sorted(each)} for rank, each in sorted(rows.items())]
    only = {"title": "Ranks", "rows": made, "cut": len(spans) - len(shown), "show": []}
    return clock.embedded(_KINDS, list(names), [only])
