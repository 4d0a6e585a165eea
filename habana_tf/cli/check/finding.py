"""`Finding`: what one check says, and how a check is run so that its own failure is a finding, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "note", "problem"]


@dataclass(frozen=True)
class Finding:
    """The answer of one check.

    status: "note" is something to know that fails nothing, "problem" something to mend. fact: what was found. remedy:
    one sentence that says what to do, "" where there is nothing. public: `fact` as it may stand in a bug report, where
    the fact itself names programs of the user's; None where it is the same.
    """

    name: str
    status: Status
    fact: str
    remedy: str = ""
    public: str | None = None


Check = Callable[[], Iterable[Finding]]


def tried(name: str, check: Check) -> Iterator[Finding]:
    """What a check finds. Where it fails itself, a finding under `name` says so: `habana-tf check` is for machines on
    which anything may be broken, and a traceback helps no user."""
    try:
        yield from check()
    except Exception as error:
        yield Finding(
            name, "problem", f"this check failed: {type(error).__name__}: {error}",
            "Report it with the lines at the end.",
        )  # fmt: skip
