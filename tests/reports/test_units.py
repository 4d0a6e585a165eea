"""Numbers carry units that suit; a column of times has one unit."""

from __future__ import annotations

import pytest

from habana_tf.reports.units import between, brief, briefly, duration, operations, size


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (3 << 20, "3.0 MiB"), (96 << 30, "96.0 GiB")],
)
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.0, "0 ms"), (0.0214, "21 ms"), (1.26, "1.3 s"), (150, "2.5 min"), (9000, "2.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("least", "most", "text"),
    [
        (0.003, 0.05, "about 3 to 50 ms"), (0.0001, 1.0, "about 0.0001 to 1 s"), (4.02, 48.24, "about 4 to 48 s"),
        (72, 840, "about 1.2 to 14 min"), (9.6, 160, "about 0.16 to 2.7 min"), (6000, 1e6, "about 1.7 to 280 h"),
        (2.0, 2.01, "about 2 s"), (0.0, 0.0, "about 0 ms"),
    ],
)  # fmt: skip
def test_bands(least: float, most: float, text: str) -> None:
    assert between(least, most) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ns"), (6.2e-9, "6.2 ns"), (9.999e-7, "1 µs"), (1.5e-6, "1.5 µs"), (0.0123, "12.3 ms"), (2.5, "2.5 s")],
)
def test_times_that_are_short(seconds: float, text: str) -> None:
    assert brief(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0"), (999, "999"), (65_536, "65.5 K"), (2.5e12, "2.5 T")])
def test_operations(number: float, text: str) -> None:
    assert operations(number) == text


@pytest.mark.parametrize(
    ("times", "texts"),
    [
        ([54.2e-6, 6.02e-6, 0.0, 0.2e-9], ["54.2 µs", "6.0 µs", "0.0 µs", "<0.1 µs"]),
        ([1.49e-3, 3e-6, -0.02e-3], ["1.49 ms", "<0.01 ms", "-0.02 ms"]),
        ([255e-6, -21.9e-6], ["255 µs", "-22 µs"]),
        ([2.5], ["2.50 s"]),
        ([], []),
    ],
)
def test_times_of_a_column(times: list[float], texts: list[str]) -> None:
    assert briefly(times) == texts
