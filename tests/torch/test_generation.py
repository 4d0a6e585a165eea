"""Networks of transformers whose lengths and batches change: what is compiled does not grow with them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.torch.child import HAS_TORCH, on_device

pytest.importorskip("transformers")

if HAS_TORCH:
    import torch

_WORDS, _PAD = 61, 60


def _compiled() -> int:
    """Recipes that were compiled or loaded since the last reset of the report."""
    from habana_tf.resolver import recompilations

    clusters = recompilations.recompilation_report().to_dict()["clusters"]
    return sum(n for c in clusters for how, n in c["recipes"].items() if how in ("compiled", "cache"))


def _generated(model: Any, ids: Any, cached: bool, count: int) -> Any:
    return model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False,
        use_cache=cached,
    )  # fmt: skip


@on_device("cached", "whole", modes=("lazy",))
def test_generation_compiles_no_more_for_more_tokens(how: str) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    from habana_tf.resolver import recompilations

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=_WORDS, n_positions=64, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=_PAD,
            pad_token_id=_PAD,
        )
    ).eval()  # fmt: skip
    ids, cached = torch.tensor([[1, 5, 7]]), how == "cached"
    want = _generated(model, ids, cached, 40)
    model = model.to("hpu")
    recompilations.reset()
    torch.testing.assert_close(_generated(model, ids.to("hpu"), cached, 8).cpu(), want[:, :11])
    first = _compiled()
    torch.testing.assert_close(_generated(model, ids.to("hpu"), cached, 40).cpu(), want)
    assert 0 < first == _compiled()


def _losses(model: Any, device: str) -> list[float]:
    """Losses of an epoch of padded batches of several lengths, of which the last is smaller."""
    from torch.nn.utils.rnn import pad_sequence

    import habana_frameworks.torch.core as htcore

    made = torch.Generator().manual_seed(1)
    lengths = [9, 4, 6, 5, 12, 7, 8, 3, 11, 10, 5, 6, 14, 9, 8, 13, 7, 4]
    texts = [torch.randint(1, _PAD, (n,), generator=made) for n in lengths]
    loader = torch.utils.data.DataLoader(
        texts, batch_size=4, collate_fn=lambda batch: pad_sequence(batch, batch_first=True, padding_value=0)  # type: ignore[arg-type]
    )  # fmt: skip
    updates, found = torch.optim.SGD(model.parameters(), lr=0.1), []
    for ids in loader:
        labels, ids = (ids.sum(1) % 2).to(device), ids.to(device)
        loss = model(ids, attention_mask=(ids != 0).long(), labels=labels).loss
        updates.zero_grad()
        loss.backward()
        if device == "hpu":
            htcore.mark_step()
        updates.step()
        if device == "hpu":
            htcore.mark_step()
        found.append(loss.item())
    return found


@on_device(modes=("lazy",))
def test_padded_batches_have_a_recipe_for_all_lengths_and_one_with_the_smaller_last_batch() -> None:
    from transformers import BertConfig, BertForSequenceClassification

    from habana_tf.resolver import recompilations

    config = BertConfig(
        vocab_size=_WORDS, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=32, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = BertForSequenceClassification(config)
    ours = BertForSequenceClassification(config)
    ours.load_state_dict(model.state_dict())
    ours = ours.to("hpu")
    recompilations.reset()
    for epoch in range(2):
        torch.testing.assert_close(_losses(ours, "hpu"), _losses(model, "cpu"), rtol=1e-4, atol=1e-5)
        clusters = recompilations.recompilation_report().to_dict()["clusters"]
        large = [c["recipes"] for c in clusters if c["ops"] > 50]
        compiled = sum(n for recipes in large for how, n in recipes.items() if how in ("compiled", "cache"))
        assert compiled == 3, (epoch, large)  # the first sizes, all lengths, and all batches and lengths
