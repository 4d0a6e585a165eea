"""Copies between the host and the device, and results of ops on the CPU: elements and strides are the CPU's."""

from __future__ import annotations

from tests.torch.child import HAS_TORCH, on_device

if HAS_TORCH:
    import torch


def _layouts() -> list[torch.Tensor]:
    x, pairs = torch.randn(6, 8), torch.randn(3, 4, dtype=torch.complex64)
    big = torch.randn(600, 700)  # more than one thread copies
    return [
        x, x.t(), x[1:4, 2:5], x[::2], x[0], x[2, 3], x[:0], x[:, :0].t(), x[:, :1].expand(6, 8), x[:1], x[:, 1:2],
        x.view(2, 3, 4, 2).contiguous(memory_format=torch.channels_last), x.t().unsqueeze(1),
        pairs, pairs.t(), pairs.conj(), pairs.conj().imag, big, big.t(), big[:, 1:],
    ]  # fmt: skip


@on_device()
def test_a_copy_is_as_the_cpus() -> None:
    for x in _layouts():
        there, like = x.to("hpu"), x.to("cpu", copy=True)
        assert there.stride() == like.stride() and torch.equal(there.cpu(), x), (x.shape, x.stride())
        assert torch.equal(torch.zeros_like(x).copy_(there), x)
        assert torch.equal(torch.zeros(x.shape, dtype=x.dtype, device="hpu").copy_(x).cpu(), x)


@on_device()
def test_copies_into_views_and_other_types() -> None:
    x = torch.randn(6, 8)
    for to in (torch.float32, torch.bfloat16, torch.float64, torch.int64):
        here, there = torch.zeros(8, 12, dtype=to), torch.zeros(8, 12, dtype=to, device="hpu")
        for t in (here, there):
            t[:6, :8].copy_(x)
            t.t()[2:8, 6:8].copy_(x[:, :2])
            t[7].copy_(x[0, 0])
        assert torch.equal(there.cpu(), here)
        assert torch.equal(torch.zeros(6, 8).copy_(there[:6, :8]), here[:6, :8].float())


@on_device()
def test_an_op_on_the_cpu_gives_the_cpus_strides() -> None:
    x = torch.randn(4, 6, dtype=torch.float64)
    for made in (x, x.t(), x[1:3, 2:5], x[:, :1].expand(4, 6), x[0]):
        here, there = made * 2, made.to("hpu") * 2
        if not made.is_contiguous():
            there = x.to("hpu").as_strided(made.shape, made.stride(), made.storage_offset()) * 2
        assert there.stride() == here.stride() and torch.equal(there.cpu(), here)


@on_device(modes=("eager",))
def test_the_layer_of_an_op_on_the_cpu_is_asked_at_first_only() -> None:
    from habana_tf.resolver import placements

    asked = []
    for _ in range(2 * placements.MOST_ASKED):
        placements.note_call("an op", "a reason", lambda: (str(asked.append(0)), "a line"))
    placements.reset()
    assert len(asked) == placements.MOST_ASKED


@on_device()
def test_casts_and_clones_are_as_the_cpus() -> None:
    x = torch.randn(4, 6)
    pair = torch.complex(x, x).conj()
    for of in (
        lambda t: t.bfloat16(), lambda t: t.long(), lambda t: t.double(), lambda t: t.half(), lambda t: t.bool(),
        lambda t: t.t().bfloat16(), lambda t: t.t().clone(), lambda t: t.t().contiguous(), lambda t: t[:0].bfloat16(),
        lambda t: t[::2, 1:].bfloat16(), lambda t: t[0, 0].to(torch.int64), lambda t: t[:, :1].expand(4, 6).clone(),
        lambda t: t[:, :1].expand(4, 6).bfloat16(), lambda t: t.to(torch.int32, copy=True),
        lambda t: t.unfold(1, 4, 1).clone(),
        lambda t: t.view(1, 2, 3, 4).clone(memory_format=torch.channels_last),
        lambda t: t.view(1, 2, 3, 4).to(torch.bfloat16, memory_format=torch.channels_last),
    ):  # fmt: skip
        here, there = of(x), of(x.to("hpu"))
        assert (here.dtype, here.stride()) == (there.dtype, there.stride()) and torch.equal(here, there.cpu())
    for of in (
        lambda t: t.clone(),
        lambda t: t.imag.clone(),
        lambda t: t.to(torch.complex128),
        lambda t: t.imag.bfloat16(),
    ):
        assert torch.equal(of(pair), of(torch.complex(x, x).to("hpu").conj()).cpu())


@on_device(modes=("lazy",))
def test_a_cast_or_a_clone_is_one_recorded_op() -> None:
    from habana_tf.torch import loader

    recorder, x = loader.load(), torch.randn(4, 6, device="hpu")
    for of in (torch.Tensor.bfloat16, torch.Tensor.clone, lambda t: t.t().contiguous()):
        before = recorder.node.index
        of(x)
        assert recorder.node.index == before + 1


@on_device(modes=("eager",))
def test_what_the_cpu_makes_of_nothing_is_made_again_in_a_compiled_graph() -> None:
    def of(x: torch.Tensor) -> torch.Tensor:
        return x + torch.linspace(0, 5, 6, dtype=torch.int64, device=x.device)

    compiled = torch.compile(of, backend="hpu_backend")
    for k in range(4):
        used = [torch.full((6,), 77, dtype=torch.int64, device="hpu") for _ in range(5)]
        torch.hpu.synchronize()
        del used
        assert compiled(torch.full((6,), float(k), device="hpu")).tolist() == [k + n for n in range(6)]
