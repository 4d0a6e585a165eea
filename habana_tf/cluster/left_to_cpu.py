"""Counts the signatures of ops that HPU leaves to the CPU, for the placement report.

An op whose value decides its recipe has as many recipes as it meets values. After some it runs on the CPU.
"""

from __future__ import annotations

import threading

_lock = threading.Lock()
_signatures: dict[str, int] = {}


def note(name: str) -> bool:
    """Counts a signature of an op, or of a cluster of this name, that the CPU runs; whether it is the first one."""
    with _lock:
        _signatures[name] = _signatures.get(name, 0) + 1
        return _signatures[name] == 1


def noted() -> dict[str, int]:
    """How many signatures of each were left to the CPU, in the order in which it was found."""
    with _lock:
        return dict(_signatures)


def reset() -> None:
    """Forgets all."""
    with _lock:
        _signatures.clear()
