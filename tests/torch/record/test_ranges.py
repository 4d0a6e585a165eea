"""Sizes that change in a program of PyTorch: a step has a recipe for its first sizes, and one more for all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device

if HAS_TORCH:
    import torch
    from torch.nn import functional as F

    class _Language(torch.nn.Module):
        """A transformer's layer with a causal mask."""

        function = staticmethod(F.gelu)

        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = torch.nn.Embedding(50, 16), torch.nn.Linear(16, 50)
            self.inner, self.outer, self.norm = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.table(x)
            batch, length, width = h.shape
            q, k, v = self.inner(h).view(batch, length, 3, 2, 8).permute(2, 0, 3, 1, 4)
            mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)
            return self.head(self.function(self.norm(h + self.outer(mixed.reshape(batch, length, width)))))

    class _Other(_Language):
        """Of another structure, so that it has met no size before."""

        function = staticmethod(torch.tanh)

    class _Pictures(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
            self.head = torch.nn.Linear(8 * 16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(1))

    class _Sequences(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = torch.nn.LSTM(12, 16, batch_first=True), torch.nn.Linear(16, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(x)[0][:, -1])

    def _dense() -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 10)
        )

    def _wide(width: int = 40) -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(12, width), torch.nn.Tanh(), torch.nn.LayerNorm(width), torch.nn.Linear(width, 10)
        )

    def _narrow() -> torch.nn.Module:
        return _wide(24)


Made = Callable[[], Any]


def _batch(shape: Sequence[int], words: bool) -> tuple[Any, Any]:
    made = torch.Generator().manual_seed(sum(shape))
    if words:
        return tuple(torch.randint(0, 50, tuple(shape), generator=made) for _ in range(2))
    return torch.randn(*shape, generator=made), torch.randint(0, 10, (shape[0],), generator=made)


def _trained(made: Made, shapes: Sequence[Sequence[int]], device: str, compiled: bool = False) -> list[Any]:
    """The losses of a step for each shape, and the weights after them."""
    import habana_frameworks.torch.core as htcore

    torch.manual_seed(0)
    model = made().to(device)
    call = torch.compile(model, backend="hpu_backend") if compiled else model
    updates, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    for shape in shapes:
        x, labels = (t.to(device) for t in _batch(shape, made in (_Language, _Other)))
        scores = call(x)
        loss = F.cross_entropy(scores.reshape(-1, scores.shape[-1]), labels.reshape(-1))
        updates.zero_grad()
        loss.backward()
        if device == "hpu":
            htcore.mark_step()
        updates.step()
        if device == "hpu":
            htcore.mark_step()
        losses.append(loss.detach().cpu())
    return [*losses, *(p.detach().cpu() for p in model.parameters()), *(b.cpu() for b in model.buffers())]


def _met(made: Made, shapes: Sequence[Sequence[int]], compiled: bool = False) -> list[dict[str, Any]]:
    """What the report has of the steps' forward and backward, whose numbers are compared with the CPU's."""
    from habana_tf.resolver import recompilations

    recompilations.reset()
    ours = _trained(made, shapes, "hpu", compiled)
    clusters: list[dict[str, Any]] = recompilations.recompilation_report().to_dict()["clusters"]
    for mine, theirs in zip(ours, _trained(made, shapes, "cpu"), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=2e-5, atol=2e-5)
    return [c for c in clusters if c["ops"] > 10]


def _recipes(clusters: Sequence[dict[str, Any]]) -> int:
    return sum(n for c in clusters for how, n in c["recipes"].items() if how in ("compiled", "cache"))


@on_device(modes=("lazy",))
def test_the_last_batch_of_an_epoch_has_the_recipe_of_all_further_sizes() -> None:
    first, others = _met(_dense, [(8, 12), (8, 12), (5, 12), (8, 12), (3, 12), (6, 12)])
    assert first["recipes"] == {"compiled": 1} and others["recipes"] == {"compiled": 1, "known": 2}
    assert [m["range"] for m in others["signatures"]] == [{"s0": 5}, {"s0": 3}, {"s0": 6}]
    assert "axis 0: 8 -> 5" in others["signatures"][0]["because"]


@on_device(modes=("lazy",))
def test_a_transformer_has_two_recipes_for_five_lengths() -> None:
    clusters = _met(_Language, [(4, n) for n in (9, 12, 7, 15, 10)])
    assert _recipes(clusters) == 2 and [m["range"] for m in clusters[-1]["signatures"]][-1] == {"s0": 10}


@on_device(modes=("lazy",))
def test_a_transformer_has_two_recipes_for_batches_and_lengths() -> None:
    assert _recipes(_met(_Other, [(4, 9), (3, 13), (6, 7), (2, 15), (5, 11)])) == 2


@on_device(modes=("lazy",))
def test_a_network_with_convolutions_and_batch_norm_has_two_for_batches() -> None:
    assert _recipes(_met(_Pictures, [(n, 3, 8, 8) for n in (8, 5, 3, 7)])) == 2


@on_device(modes=("lazy",))
def test_a_recurrent_layer_has_two_for_batches_and_the_reason_why_not_for_lengths() -> None:
    assert _recipes(_met(_Sequences, [(n, 6, 12) for n in (4, 3, 5)])) == 2
    clusters = _met(_Sequences, [(4, n, 12) for n in (5, 8, 11)])
    assert _recipes(clusters) == 3
    assert all("not for a range: " in m["reason"] for m in clusters[-1]["signatures"])


@on_device(modes=("lazy",))
def test_layers_of_other_widths_are_no_range() -> None:
    clusters = [c for made in (_wide, _narrow) for c in _met(made, [(8, 12)])]
    assert [c["recipes"] for c in clusters] == [{"compiled": 1}] * 2
    assert not any(m["range"] or m["reason"] for c in clusters for m in c["signatures"])


@on_device(modes=("lazy",))
def test_an_argument_that_is_no_size_is_no_symbol() -> None:
    from habana_tf.resolver import recompilations

    recompilations.reset()
    x = torch.arange(64.0).reshape(4, 4, 4)
    for axis in (1, 2):
        made = (x.to("hpu") * 2).cumsum(axis).cpu()
        torch.testing.assert_close(made, (x * 2).cumsum(axis))
    met = [m for c in recompilations.recompilation_report().to_dict()["clusters"] for m in c["signatures"]]
    assert len(met) == 2 and not any(m["range"] or m["reason"] for m in met)


@on_device(modes=("lazy",))
def test_places_of_views_are_sizes() -> None:
    from habana_tf.resolver import recompilations

    recompilations.reset()
    x = torch.randn(9, 4, 5, generator=torch.Generator().manual_seed(0))
    ours = x.to("hpu")
    written = torch.zeros(9, 4, 5).to("hpu")
    for k in range(9):
        written[k] = ours[k].exp() - 1
        torch.testing.assert_close(written.cpu(), torch.cat([x[: k + 1].exp() - 1, torch.zeros(8 - k, 4, 5)]))
    clusters = recompilations.recompilation_report().to_dict()["clusters"]
    assert _recipes(clusters) <= 4, clusters


@on_device(modes=("lazy",))
def test_more_sizes_than_a_range_has_are_told() -> None:
    from habana_tf.resolver import recompilations

    recompilations.reset()
    for more in (2, 3):
        parts = [torch.arange(float(n + more)) for n in range(70)]
        ours = sum(p.to("hpu").sqrt().sum() for p in parts)
        torch.testing.assert_close(ours.cpu(), sum(p.sqrt().sum() for p in parts))
    _, last = [m for c in recompilations.recompilation_report().to_dict()["clusters"] for m in c["signatures"]]
    assert last["reason"].startswith("not for a range: 70 sizes change")


@on_device(modes=("lazy",))
def test_padding_has_a_range_and_numbers_that_change_with_a_size_are_no_symbols() -> None:
    """A number of an op that happens to change as a size did, in each op where no symbol can stand for it."""
    from habana_tf.resolver import recompilations

    recompilations.reset()
    steps: list[Callable[[Any, int], Any]] = [
        lambda x, n: F.pad(x * 2, (1, 2)), lambda x, n: (x * 2).topk(n, 1)[0], lambda x, n: (x * 2) ** n,
        lambda x, n: (x * 2).tril(n), lambda x, n: (x * 2).roll(n, 1), lambda x, n: (x * 2).var(1, correction=n),
        lambda x, n: F.pad(x * 2, (n, n)), lambda x, n: (x * 2).repeat(1, n), lambda x, n: (x * 9).long() // n,
        lambda x, n: torch.linalg.vector_norm(x * 2, n, 1), lambda x, n: F.pad(x * 2, (1, 1), value=n),
    ]  # fmt: skip
    for step in steps:
        for n in (2, 3, 5, 4):
            x = torch.rand(n, 6, generator=torch.Generator().manual_seed(n)) + 0.5
            torch.testing.assert_close(step(x.to("hpu"), n).cpu(), step(x, n), rtol=1e-4, atol=1e-5)
    met = [m for c in recompilations.recompilation_report().to_dict()["clusters"] for m in c["signatures"]]
    assert [m["range"] for m in met[1:4]] == [{"s0": n} for n in (3, 5, 4)], met[:4]
    assert not any("defect" in m["reason"] for m in met), met


@on_device(modes=("eager",))
def test_compiled_calls_share_ranges() -> None:
    clusters = _met(_Language, [(4, n) for n in (9, 12, 7, 15, 10)], compiled=True)
    assert {tuple(c["recipes"].values()) for c in clusters if len(c["signatures"]) > 1} >= {(1, 3)}


_TRAINS = """
    import torch
    import habana_frameworks.torch.core as htcore
    from habana_tf.hardware import telemetry

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3)).to("hpu")
    for n in (8, 5, 3, 6):
        loss = torch.nn.functional.cross_entropy(model(torch.ones(n, 12).to("hpu")), torch.zeros(n).long().to("hpu"))
        loss.backward()
        htcore.mark_step()
    print("recipes", telemetry.holder(telemetry.held_here()).telemetry.recipes)
"""


@needs_torch
def test_a_second_process_compiles_nothing_and_ranges_can_be_turned_off(tmp_path: Path) -> None:
    path = str(tmp_path)
    made = [python(_TRAINS, imported=True, TF_RECIPE_CACHE_PATH=path, PT_HPU_LAZY_MODE="1").stdout for _ in range(2)]
    made.append(python(_TRAINS, imported=True, TF_ENABLE_DYNAMIC_SHAPES="0", PT_HPU_LAZY_MODE="1").stdout)
    first, second, without = (int(text.split()[-1]) for text in made)
    assert second == 0 < first < without
