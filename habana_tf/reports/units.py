"""Numbers with their units, as all reports, commands and pages write them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


def size(number: float) -> str:
    """Bytes, in the binary unit that suits."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def operations(number: float) -> str:
    """A number of operations, in the decimal unit that suits."""
    for unit in ("", " K", " M", " G"):
        if number < 1000:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g} T"


def duration(seconds: float) -> str:
    """A time span in milliseconds, seconds, or minutes and more."""
    if seconds < 120:
        return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 120 else f"{minutes / 60:.1f} h"


def between(least: float, most: float) -> str:
    """A band of time spans, as roughly as it is known: about 0.4 to 4.8 s, about 1.2 to 14 min."""
    units = (("ms", 1e3, 1.0), ("s", 1.0, 90.0), ("min", 1 / 60, 5400.0), ("h", 1 / 3600, float("inf")))
    unit, factor = next((unit, factor) for unit, factor, end in units if most < end)
    low, high = (f"{float(f'{seconds * factor:.2g}'):g}" for seconds in (least, most))
    return f"about {low} {unit}" if low == high else f"about {low} to {high} {unit}"


Units = tuple[tuple[str, float], ...]
"""Names with what a number is multiplied with, the smallest unit first."""

_SHORT: Units = (("ns", 1e9), ("µs", 1e6), ("ms", 1e3))
BYTES: Units = (("B", 1.0), ("KiB", 2.0**-10), ("MiB", 2.0**-20), ("GiB", 2.0**-30))
OPERATIONS: Units = (("", 1.0), ("K", 1e-3), ("M", 1e-6), ("G", 1e-9), ("T", 1e-12))


def briefly(times: Sequence[float]) -> list[str]:
    """Times in one unit, that of the longest."""
    return alike(times, (*_SHORT, ("s", 1.0)))


def alike(numbers: Sequence[float], units: Units) -> list[str]:
    """Numbers of a column in one unit, that of the largest, with as many decimals; what is too small is "<0.01 ms"."""
    most = max(map(abs, numbers), default=0.0)
    unit, factor = next(((u, f) for u, f in units if most * f < 999.5), units[-1])
    decimals = 0 if factor == 1.0 and unit != "s" else max(0, 2 - (len(str(int(most * factor))) - 1))
    least = 10.0**-decimals
    texts = [
        f"<{least:.{decimals}f}" if 0 < abs(n) * factor < least / 2 else f"{n * factor:,.{decimals}f}" for n in numbers
    ]
    return [f"{text} {unit}".rstrip() for text in texts]


def brief(seconds: float) -> str:
    """A time that is short, in nanoseconds to seconds, to three digits."""
    for unit, factor in _SHORT:
        if abs(float(f"{seconds * factor:.3g}")) < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def amount(value: int | str, form: Callable[[float], str]) -> str:
    """A number in the form of a function above; the text that stands for one over open sizes as it is."""
    return form(value) if isinstance(value, int) else value


def counted(counts: Mapping[str, int]) -> str:
    """2 MatMul, Relu"""
    return ", ".join(name if n == 1 else f"{n} {name}" for name, n in counts.items())


def few(texts: Sequence[str], most: int, what: str = "") -> str:
    """The first `most` of some, and how many more there are: a, b and 3 more ops"""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more {what}".rstrip() if len(texts) > most else "")
