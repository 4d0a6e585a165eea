"""Products of whole numbers: programs where these are faster than the CPU's kernels, exact as these."""

from __future__ import annotations

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch

SIZES = ((5, 7, 3), (16, 16, 16), (1, 9, 4), (4, 9, 1), (3, 0, 2), (0, 3, 2), (2, 3, 0), (90, 90, 90))
TYPES = ("int64", "int32", "int16", "int8", "uint8")


@on_device(*TYPES)
def test_products_of_whole_numbers_are_the_cpus(name: str) -> None:
    dtype = getattr(torch, name)
    for m, k, n in SIZES:
        a, b, c = (torch.randint(-(1 << 40), 1 << 40, s).to(dtype) for s in ((m, k), (k, n), (m, n)))
        there = [t.to("hpu") for t in (a, b, c)]
        for of in (
            lambda a, b, c: a @ b, lambda a, b, c: b.t() @ a.t(), lambda a, b, c: torch.addmm(c, a, b, beta=3, alpha=2),
            lambda a, b, c: torch.addmm(c, a, b, beta=0), lambda a, b, c: a.expand(2, *a.shape) @ torch.stack([b, b]),
            lambda a, b, c: torch.baddbmm(c[None], a[None], b[None], alpha=3),
            lambda a, b, c: torch.einsum("ij,jk->ki", a, b),
        ):  # fmt: skip
            assert torch.equal(of(*there).cpu(), of(a, b, c)), (dtype, m, k, n)
        if n:
            for of in (
                lambda a, b, c: a @ b[:, 0], lambda a, b, c: torch.addmv(c[:, 0], a, b[:, 0], beta=2, alpha=5),
                lambda a, b, c: b[:, 0].dot(b[:, -1]),
            ):  # fmt: skip
                assert torch.equal(of(*there).cpu(), of(a, b, c)), (dtype, m, k, n)


@on_device(modes=("lazy",))
def test_products_of_int64_are_programs() -> None:
    from habana_tf.resolver import placements

    x = torch.ones(90, 90, dtype=torch.int64, device="hpu")
    placements.reset()
    for made in (
        x @ x,
        x @ x[0],
        x[0].dot(x[1]),
        x[None] @ x[None],
        torch.addmm(x, x, x),
        (x[:9, :9].int() @ x[:9, :9].int()),
    ):
        assert made.max() in (9, 90, 91)
    assert not placements.placements().cpu


@on_device()
def test_what_the_cpu_refuses_of_whole_numbers() -> None:
    def said(device: str) -> list[str]:
        x, flags = torch.ones(2, 2, dtype=torch.int64, device=device), torch.ones(2, 2, dtype=torch.bool, device=device)
        found = []
        for call in (
            lambda: torch.addmm(x, x, x, alpha=0.5), lambda: flags @ flags, lambda: x @ x.int(), lambda: x @ x.float(),
            lambda: x[0].dot(x[0].float()), lambda: flags[0].dot(flags[0]),
        ):  # fmt: skip
            try:
                found.append(str(call().tolist()))
            except Exception as why:
                found.append(type(why).__name__)
        return found

    assert said("hpu") == said("cpu")
