"""`out=` and functions that resize, given a part of a tensor: what is written, and the view that is left."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

    Make = Callable[[Any, torch.Tensor], Any]
N = 4
PARTS: dict[str, Callable[[Any], Any]] = {
    "as long": lambda b: b[4 : 4 + N],
    "strided": lambda b: b[::2][:N],
    "of rows": lambda b: b.view(2, -1)[1][:N],
    "empty": lambda b: b[4:4],
    "empty at the start": lambda b: b[:0],
    "another tensor": lambda b: torch.empty(0, device=b.device),
    "longer": lambda b: b[4 : 5 + N],
    "shorter": lambda b: b[2 : 1 + N],
    "transposed": lambda b: b.view(4, -1).t()[:2],
}
"""Parts of a vector of 16."""


def _at(d: Any, *numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, device=d)


FUNCTIONS: dict[str, Make] = {
    "arange": lambda d, o: torch.arange(-4, 0, out=o),
    "arange with a step": lambda d, o: torch.arange(0, 2, 0.5, out=o),
    "linspace": lambda d, o: torch.linspace(0, 1, N, out=o),
    "logspace": lambda d, o: torch.logspace(0, 1, N, out=o),
    "full": lambda d, o: torch.full((N,), 7.0, out=o),
    "zeros": lambda d, o: torch.zeros(N, out=o),
    "eye": lambda d, o: torch.eye(2, out=o),
    "randperm": lambda d, o: torch.randperm(N, out=o).mul_(0),
    "fftfreq": lambda d, o: torch.fft.fftfreq(N, out=o),
    "rfftfreq": lambda d, o: torch.fft.rfftfreq(6, out=o),
    "add": lambda d, o: torch.add(_at(d, 1.0, 2, 3, 4), 1, out=o),
    "cat": lambda d, o: torch.cat([_at(d, 1.0, 2), _at(d, 3.0, 4)], out=o),
    "sum": lambda d, o: torch.sum(torch.ones(N, 3, device=d), 1, out=o),
    "mv": lambda d, o: torch.mv(torch.ones(N, 3, device=d), torch.ones(3, device=d), out=o),
    "gather": lambda d, o: torch.gather(_at(d, 0.0, 1, 2, 3), 0, _at(d, 3, 1, 0, 2).long(), out=o),
    "cumsum": lambda d, o: torch.cumsum(_at(d, 1.0, 1, 1, 1), 0, out=o),
    "triu": lambda d, o: torch.triu(torch.ones(2, 2, device=d), out=o),
    "masked_select": lambda d, o: torch.masked_select(_at(d, 1.0, 0, 2, 3, 4), _at(d, 1, 0, 1, 1, 1).bool(), out=o),
    "histc": lambda d, o: torch.histc(_at(d, 0.0, 1, 2, 3), N, out=o),
    "resize_": lambda d, o: o.resize_(N).fill_(5),
    "resize_as_": lambda d, o: o.resize_as_(torch.ones(2, 2, device=d)).copy_(torch.ones(2, 2, device=d)),
}


def _made(there: str, part: Callable[[Any], Any], function: Make) -> Any:
    """All that can be seen of a vector afterwards, and of its part; the error where there is one."""
    base = torch.full((16,), -9.0, device=there)
    out = part(base)
    try:
        with warnings.catch_warnings(action="ignore"):
            result = function(there, out)
    except RuntimeError as why:
        return str(why)
    view = tuple(out.shape), out.stride(), out.storage_offset(), out.untyped_storage().nbytes()
    return base.tolist(), out.tolist(), view, result.data_ptr() == out.data_ptr(), result is out


@on_device()
def test_what_is_written_into_parts() -> None:
    for name, function in FUNCTIONS.items():
        for form, part in PARTS.items():
            want = _made("cpu", part, function)
            assert repr(_made("hpu", part, function)) == repr(want), f"{name}, {form}: {want}"


@on_device()
def test_frequencies() -> None:
    for n in (1, 4, 5, 16):
        for f in (torch.fft.fftfreq, torch.fft.rfftfreq):
            assert torch.equal(f(n, 0.3, device="hpu").cpu(), f(n, 0.3))


@on_device(modes=("lazy",))
def test_products_are_written_at_any_place() -> None:
    """From the second place on by one program for all."""
    a, x = torch.arange(12.0).view(4, 3), torch.tensor([1.0, 2, 3])
    there, by = a.to("hpu"), x.to("hpu")
    ways: list[Callable[[Any, Any], Any]] = [lambda a, x: a @ x, lambda a, x: torch.addmv(a[:, 0], a, x) + 1]
    for way in ways:
        for place in (4, 2, 8, 1, 0, 12):
            want = torch.zeros(16)
            want[place : place + 4] = way(a, x)
            got = torch.zeros(16, device="hpu")
            got[place : place + 4] = way(there, by)
            assert torch.equal(got.cpu(), want), place
    for rows in (1, 5, 2, 9):
        old = torch.ones(rows, 3)
        assert torch.equal(
            torch.cat([old.to("hpu"), there @ there.t()[:3, :3]]).cpu(), torch.cat([old, a @ a.t()[:3, :3]])
        )


@on_device()
def test_results_of_the_cpu_with_gaps_between_rows() -> None:
    """LAPACK gives the first rows of a larger matrix."""
    a, b = torch.randn(4, 3), torch.randn(4, 2)
    want, got = torch.linalg.lstsq(a, b), torch.linalg.lstsq(a.to("hpu"), b.to("hpu"))
    for mine, theirs in zip(got, want, strict=True):
        assert (mine.shape, mine.stride()) == (theirs.shape, theirs.stride())
    torch.testing.assert_close(got.solution.cpu(), want.solution)
