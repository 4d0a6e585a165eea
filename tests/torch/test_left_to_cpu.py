"""What programs for generation, detection, segmentation and translation call is not left to the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F


@contextmanager
def _none_left(*known: str) -> Iterator[None]:
    from habana_tf.resolver import placements

    torch.hpu.synchronize()
    placements.reset()
    yield
    torch.hpu.synchronize()
    assert {each.op for each in placements.placements().cpu} <= set(known)


@on_device()
def test_sampling_of_the_next_token() -> None:
    """Penalty of repetitions, temperature, top k, top p, a draw, stop tokens."""
    logits, ids = torch.randn(2, 50, device="hpu"), torch.randint(0, 50, (2, 7), device="hpu")
    with _none_left():
        score = torch.gather(logits, 1, ids)
        logits = logits.scatter(1, ids, torch.where(score < 0, score * 1.2, score / 1.2)) / 0.8
        logits = logits.masked_fill(logits < torch.topk(logits, 10)[0][..., -1, None], -float("inf"))
        ordered, places = torch.sort(logits)
        removed = ordered.softmax(-1).cumsum(-1) <= 0.1
        removed[..., -1:] = False
        p = logits.masked_fill(removed.scatter(1, places, removed), -float("inf")).softmax(-1)
        drawn = torch.multinomial(p, 1).squeeze(1)
        done = torch.isin(drawn, torch.tensor([3, 4], device="hpu"))
        ids = torch.cat([ids, (drawn * ~done + 2 * done)[:, None]], 1)
        ids[ids == 1] = 0
    assert (p.gather(1, drawn[:, None]) > 0).all() and ids.shape == (2, 8)


@on_device(modes=("lazy",))
def test_a_transformer_trains_and_answers() -> None:
    model = torch.nn.Transformer(32, 4, 2, 2, 64, 0.1, batch_first=True).to("hpu")
    updates = torch.optim.AdamW(model.parameters())
    x = torch.randn(3, 9, 32, device="hpu")
    empty = torch.zeros(3, 9, dtype=torch.bool, device="hpu")
    mask = model.generate_square_subsequent_mask(9, device="hpu")
    with _none_left():
        for clip in (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_):
            model(x, x, tgt_mask=mask, src_key_padding_mask=empty).square().mean().backward()
            clip(model.parameters(), 1.0)
            updates.step()
            updates.zero_grad()
        model.eval()
        with torch.no_grad():
            there = model(x, x, tgt_mask=mask, src_key_padding_mask=empty)
    here = model.cpu()(x.cpu(), x.cpu(), tgt_mask=mask.cpu(), src_key_padding_mask=empty.cpu())
    torch.testing.assert_close(there.cpu(), here, rtol=2e-5, atol=2e-5)


@on_device(modes=("lazy",))
def test_segmentation_and_detection() -> None:
    x = torch.randn(2, 8, 8, 8, device="hpu", requires_grad=True)
    box, score = (torch.randn(2, 20, n, device="hpu", requires_grad=True) for n in (4, 5))
    up = torch.nn.ConvTranspose2d(8, 8, 2, 2).to("hpu")
    labels, target = torch.randint(0, 8, (2, 8, 8), device="hpu"), torch.randint(0, 5, (2, 20), device="hpu")
    with _none_left():
        made = up(F.avg_pool2d(F.group_norm(x, 4), 2)) + F.interpolate(
            F.max_pool2d(x, 2), scale_factor=2, mode="bilinear"
        )
        F.cross_entropy(made, labels).backward()
        found = target > 0
        near = (F.smooth_l1_loss(box, torch.zeros_like(box), reduction="none").sum(-1) * found).sum(1)
        hard = F.cross_entropy(score.transpose(1, 2), target, reduction="none")
        others = hard.detach().clone()
        others[found] = 0
        rank = others.sort(1, descending=True)[1].sort(1)[1]
        chosen = found | (rank < (3 * found.sum(1, keepdim=True)).clamp(max=20))
        ((hard * chosen).sum(1) + near).mean().backward()


@needs_torch
def test_a_setting_keeps_ops_on_the_cpu() -> None:
    python(
        """
        import torch
        import habana_frameworks.torch.core as htcore
        from habana_tf.resolver import placements
        x = torch.ones(3, device="hpu")
        assert torch.equal((x.tanh() + x * 2).cpu(), torch.ones(3).tanh() + 2)
        kept = {each.op: each.reason for each in placements.placements().cpu}
        assert set(kept) == {"aten.tanh.default", "aten.add.Tensor"}, kept
        assert all("PT_HPU_PLACE_ON_CPU" in reason for reason in kept.values())
        """,
        imported=True, PT_HPU_PLACE_ON_CPU="tanh,aten::add.Tensor",
    )  # fmt: skip


@on_device()
def test_numbers_that_begin_elsewhere_are_the_same_program() -> None:
    from habana_tf.torch import loader

    recorder = loader.load()

    def made(start: int) -> None:
        assert torch.equal(torch.arange(start, start + 4, device="hpu").cpu(), torch.arange(start, start + 4))
        torch.rand(40, device="hpu").sum().item()

    made(0)
    before = recorder.programs
    torch.manual_seed(9)
    made(5)
    assert recorder.programs == before


@on_device()
def test_windows_whose_function_a_device_in_python_has_not() -> None:
    for options in ({}, {"periodic": False}, {"periodic": True, "beta": 8.0}, {"dtype": torch.float64}):
        for length in (0, 1, 10):
            made = torch.kaiser_window(length, device="hpu", **options)
            expected = torch.kaiser_window(length, **options)
            assert made.device.type == "hpu" and made.dtype is expected.dtype
            torch.testing.assert_close(made.cpu(), expected)


@on_device()
def test_quantiles_and_lerp_by_a_tensor() -> None:
    x, y, w = torch.randn(5, 8), torch.randn(5, 8), torch.rand(8)
    a, b, v = (t.to("hpu") for t in (x, y, w))
    with _none_left():
        got = [a.quantile(0.3), a.quantile(v[:3], 1), a.nanquantile(0.4, 0), torch.lerp(a, b, v), a.clone().lerp_(b, v)]
        torch._foreach_lerp_(lists := [a.clone(), b.clone()], [b, a], [v, v])
    want = [x.quantile(0.3), x.quantile(w[:3], 1), x.nanquantile(0.4, 0), torch.lerp(x, y, w), torch.lerp(x, y, w)]
    for here, there in zip([*want, want[-1], torch.lerp(y, x, w)], [*got, *lists], strict=True):
        torch.testing.assert_close(there.cpu(), here)


@needs_torch
def test_a_result_whose_shape_depends_on_values_is_said_so() -> None:
    """PyTorch's own words advise a setting of its compiler, which would be wrong here."""
    program = """
        import torch
        import habana_frameworks.torch.core
        x = torch.ones(3, device="hpu")
        x[x > 0], torch.nonzero(x), torch.unique(x), x.masked_select(x > 0)
    """
    said = python(program, imported=True).stderr
    assert "aten.index.Tensor runs on the CPU: the shape of its result depends on values" in said
    assert "meta_nonzero_assume_all_nonzero" not in said
