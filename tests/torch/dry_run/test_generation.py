"""Generation that is predicted: bytes and operations by arithmetic, words as transformers finds them on the CPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.child import python
from tests.torch.child import HAS_TORCH, needs_torch, on_device, raises

pytest.importorskip("transformers")

if HAS_TORCH:
    import torch

    import habana_tf
    from habana_tf.torch.dry_run import forward_passes
    from habana_tf.torch.dry_run.forward_passes import Meter
    from habana_tf.torch.dry_run.generation import Forward, Model, Setting

LAZY = ("lazy",)
WIDTH, INNER, LAYERS, HEADS, SHARED, WORDS = 64, 96, 6, 8, 4, 128
SIZE = WIDTH // HEADS
LINEAR = LAYERS * (2 * WIDTH * WIDTH + 2 * WIDTH * SHARED * SIZE + 3 * WIDTH * INNER)
"""Weights of the decoder's linear layers."""


def config(**more: Any) -> Any:
    from transformers import LlamaConfig

    given = {
        "vocab_size": WORDS, "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": SHARED, "max_position_embeddings": 512,
    }  # fmt: skip
    return LlamaConfig(**{**given, **more})


@on_device("bf16", "fp8", "fp32", modes=LAZY)
def test_weights_and_cache_are_as_large_as_arithmetic_says(precision: str) -> None:
    wide = {"bf16": 2, "fp8": 2, "fp32": 4}[precision]
    narrow = 1 if precision == "fp8" else wide
    for tp in (1, 2, 4):
        found = habana_tf.predict_generation(config(), 24, 8, batch=3, tp=tp, precision=precision, chip="gaudi2")
        norms, table, inverse = (2 * LAYERS + 1) * WIDTH, WORDS * WIDTH, SIZE // 2 * 4
        kept = wide * (norms + table) + 2 * inverse  # positions' frequencies, and those that they began with
        assert found.weights == kept + narrow * (LINEAR + table) // tp
        assert found.cached == 3 * 2 * (24 + 8) * LAYERS * SHARED * SIZE * narrow // tp
        assert found.memory == found.weights + found.cached + found.activations + found.graphs


@on_device("1", "2", modes=LAZY)
def test_operations_of_a_prompt_and_of_a_token_are_as_many_as_arithmetic_says(cards: str) -> None:
    from habana_tf.card.model.lowered import launch_time
    from habana_tf.hardware.chips import chip
    from habana_tf.torch.dry_run.generation import record
    from habana_tf.torch.record.program import cluster_of, signature

    batch, tokens, room = 2, 32, 48
    prompt, token = Forward(batch, tokens, 0, room), Forward(batch, 1, 40, room)
    found, _ = record(Setting(config(), int(cards)), None, [prompt, token])
    for each, rows, read in ((prompt, tokens, tokens), (token, 1, room)):
        sums = 2 * LAYERS + 1 if cards == "2" else 0  # each of which ends a program; the last gathers
        assert len(found[each].programs) == sums + 1 and len(found[each].asked) == sums
        made = 0
        for program in found[each].programs:
            shapes = [shape for _, shape, _ in signature(program.recording)]
            _, time = launch_time(chip("gaudi2"), cluster_of(program.recording), shapes, [None] * len(shapes))
            made += sum(u.flops for u in time.units)
        head = 2 * batch * WORDS * WIDTH  # of the last token alone
        attention = LAYERS * 4 * batch * rows * read * WIDTH
        assert made == (2 * batch * rows * LINEAR + attention + head) // int(cards)


def mixture(**more: Any) -> Any:
    """Mixtral, with eight experts of which a token goes to two."""
    from transformers import MixtralConfig

    return MixtralConfig(**{**config().to_diff_dict(), "sliding_window": None, "model_type": "mixtral", **more})


@on_device(modes=LAZY)
def test_as_many_experts_are_read_as_are_drawn_on_average() -> None:
    from habana_tf.torch.dry_run.experts import experts_read

    generator = torch.Generator().manual_seed(0)
    for experts, of_token in ((8, 2), (128, 8), (4, 4)):
        for tokens in (1, 2, 5, 40, 1000):
            drawn = [
                torch.rand(tokens, experts, generator=generator).topk(of_token).indices.unique().numel()
                for _ in range(300)
            ]
            assert experts_read(experts, of_token, tokens) == pytest.approx(sum(drawn) / 300, abs=0.75)


@on_device("bf16", "fp8", modes=LAZY)
def test_experts_multiply_their_tokens_and_are_read_if_they_have_any(precision: str) -> None:
    from habana_tf.card.model.lowered import launch_time
    from habana_tf.hardware.chips import chip
    from habana_tf.torch.dry_run.generation import record
    from habana_tf.torch.record.program import cluster_of, signature

    wide = 1 if precision == "fp8" else 2
    passes = [Forward(2, 32, 0, 48), Forward(2, 1, 40, 48), Forward(1, 1, 40, 48)]
    found, weights = record(Setting(mixture(), precision=precision), None, passes)
    norms, table, routers, inverse = (2 * LAYERS + 1) * WIDTH, WORDS * WIDTH, LAYERS * 8 * WIDTH, SIZE // 2 * 4
    attention, expert = LAYERS * (2 * WIDTH * WIDTH + 2 * WIDTH * SHARED * SIZE), LAYERS * 3 * WIDTH * INNER
    assert weights == 2 * (norms + table + routers) + 2 * inverse + wide * (attention + 8 * expert + table)
    for each, read in zip(passes, (32, 48, 48), strict=True):
        (program,) = found[each].programs
        recording = program.recording
        shapes = [shape for _, shape, _ in signature(recording)]
        _, time = launch_time(chip("gaudi2"), cluster_of(recording), shapes, [None] * len(shapes))
        tokens = each.batch * each.tokens
        head, scores = 2 * each.batch * WORDS * WIDTH, LAYERS * 4 * tokens * read * WIDTH
        products = 2 * tokens * (attention + routers + 2 * expert)
        assert sum(u.flops for u in time.units) == products + scores + head


@on_device(modes=LAZY)
def test_a_token_reads_the_experts_that_its_batch_has() -> None:
    """Twice as wide experts take as much longer as the bytes of those that are read, at the card's bandwidth."""
    from habana_tf.hardware.chips import chip

    inner, wide = 14336, {"hidden_size": 4096, "num_hidden_layers": 32}
    for batch, read in ((1, 2), (64, 8)):
        narrow, twice = (
            habana_tf.predict_generation(
                mixture(intermediate_size=inner * k, **wide), 8, 2, batch=batch, chip="gaudi2"
            ).token[8]
            for k in (1, 2)
        )  # fmt: skip
        more = 32 * read * 3 * 4096 * inner * 2 / chip("gaudi2").hbm_bandwidth
        assert more < twice - narrow < 1.15 * more, (batch, narrow, twice, more)  # less than all of it is reached


@on_device(modes=LAZY)
def test_cards_share_the_middle_of_each_expert() -> None:
    from habana_tf.torch.dry_run.generation import record

    found, weights = record(Setting(mixture(), tp=2), None, [token := Forward(3, 1, 40, 48)])
    assert found[token].asked.count(("all_reduce", 3 * WIDTH * 2)) == 2 * LAYERS
    _, whole = record(Setting(mixture()), None, [token])
    attention, experts = 2 * WIDTH * WIDTH + 2 * WIDTH * SHARED * SIZE, 8 * 3 * WIDTH * INNER
    assert whole - weights == 2 * (LAYERS * (attention + experts) + WORDS * WIDTH) // 2


@on_device("static", "growing", modes=LAZY)
def test_words_are_those_that_transformers_finds_on_the_cpu(how: str) -> None:
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    theirs = LlamaForCausalLM(config(num_hidden_layers=2)).eval()
    ids, count = torch.randint(0, WORDS, (2, 9)), 12
    want = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count, do_sample=False,
        pad_token_id=0,
    )  # fmt: skip
    model = Model(Setting(config(num_hidden_layers=2), precision="fp32"))
    model.module.load_state_dict(theirs.state_dict())
    model.module.model.rotary_emb.inv_freq.copy_(theirs.model.rotary_emb.inv_freq)
    cache, words = model.cache(2, 0, 9 + count if how == "static" else 0), [ids]
    now, begin = ids.to("hpu"), 0
    for _ in range(count):
        positions = torch.arange(begin, begin + now.shape[1]).reshape(1, -1).to("hpu")
        begin += now.shape[1]
        now = model(now, positions, cache).reshape(2, 1)
        words.append(now.cpu())
    assert torch.cat(words, 1).tolist() == want.tolist()


@on_device(modes=LAZY)
def test_attention_in_8_bits_is_near_that_of_the_same_numbers_in_float32() -> None:
    from habana_tf.torch.dry_run.generation import attend

    torch.manual_seed(0)
    query, key, value = (torch.randn(2, heads, 16, 8) for heads in (4, 2, 2))
    narrow = [t.to(torch.float8_e4m3fn) for t in (query, key, value)]
    wide = [t.float() for t in narrow]
    want = torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=True, enable_gqa=True)
    kept = [t.to("hpu") for t in narrow[1:]]
    made, _ = attend(None, query.to("hpu"), *kept, None)
    assert (made.cpu() - want.transpose(1, 2)).abs().max() < 0.08
    last, _ = attend(None, query[:, :, -1:].to("hpu"), *kept, torch.ones(2, 1, 1, 16, dtype=torch.bool, device="hpu"))
    assert (last.cpu() - want[:, :, -1:].transpose(1, 2)).abs().max() < 0.08


@on_device(modes=LAZY)
def test_as_many_programs_are_compiled_as_were_predicted() -> None:
    from habana_tf.resolver import recompilations

    found = habana_tf.predict_generation(config(), 16, 8, batch=2, buckets=[16, 24], batch_buckets=[4], chip="gaudi2")
    model = Model(Setting(config()))
    recompilations.reset()
    for batch in (2, 4):
        for each in (Forward(batch, 16, 0, 24), Forward(batch, 1, 17, 24)):
            cache = model.cache(batch, 0, each.room)
            ids, positions = (torch.zeros(n, each.tokens, dtype=torch.int64).to("hpu") for n in (batch, 1))
            torch.hpu.synchronize()
            model(ids, positions, cache).cpu()
    clusters = recompilations.recompilation_report().to_dict()["clusters"]
    large = [c for c in clusters if c["ops"] > 20]
    assert sum(sum(c["recipes"].values()) for c in large) == found.programs == 4


@on_device("1", "2", "1, and most is words", modes=LAZY)
def test_few_layers_say_what_all_of_them_take(how: str) -> None:
    """Also where the words' weights are what bounds few layers, and not all."""
    from habana_tf.card.model.parameters import LATEST_FITTED
    from habana_tf.hardware.boxes import box
    from habana_tf.hardware.chips import chip

    passes = [Forward(4, 32, 0, 64), Forward(4, 1, 40, 64), Forward(4, 1, 40, 0)]
    known = chip("gaudi2")
    cards, words = int(how[0]), WORDS
    if how not in "12":
        passes, words = [Forward(4, 1, 40, 64)], 8_000_000
    setting = Setting(config(num_hidden_layers=9, vocab_size=words), cards)
    meters = [Meter(setting, known, box(known), LATEST_FITTED) for _ in "12"]
    few = meters[0](passes)
    before, forward_passes.RECORDED = forward_passes.RECORDED, (9, 9, 9)
    try:
        whole = meters[1](passes)
    finally:
        forward_passes.RECORDED = before
    for each in passes:
        assert few[each].seconds() == pytest.approx(whole[each].seconds(), rel=1e-6)
        assert (few[each].summing > 0) == (cards == 2)
        assert (few[each].cached, few[each].weights) == (whole[each].cached, whole[each].weights)
        assert few[each].activations == pytest.approx(whole[each].activations, rel=1e-6)
    assert meters[0].programs(passes) == meters[1].programs(passes)


@on_device(modes=LAZY)
def test_the_largest_batch_fits_and_a_longer_answer_leaves_room_for_fewer() -> None:
    small = config(hidden_size=4096, intermediate_size=11008, num_attention_heads=32, num_key_value_heads=32)
    found = habana_tf.predict_generation(small, 128, 128, chip="gaudi2")
    full = habana_tf.predict_generation(small, 128, 128, batch=found.largest_batch, chip="gaudi2")
    assert full.fits and full.largest_batch >= full.batch
    assert full.memory + full.chip.idle_memory_bytes <= full.chip.hbm_bytes
    more = habana_tf.predict_generation(small, 128, 128, batch=full.largest_batch + 1, chip="gaudi2")
    assert not more.fits and "does not fit" in str(more)
    longer = habana_tf.predict_generation(small, 128, 1920, chip="gaudi2")
    assert longer.largest_batch < found.largest_batch / 4
    eighths = habana_tf.predict_generation(small, 128, 128, chip="gaudi2", precision="fp8")
    assert eighths.largest_batch > 1.5 * found.largest_batch


@on_device(modes=LAZY)
def test_tokens_take_longer_with_more_before_them_and_answers_add_up() -> None:
    found = habana_tf.predict_generation(config(), 64, 193, batch=8, buckets=64, chip="gaudi3", release="1.18")
    assert list(found.token) == [64, 160, 255] and len(set(found.token.values())) == 3
    assert list(found.token.values()) == sorted(found.token.values())
    each = {128: found.token[64], 192: found.token[160], 256: found.token[255]}  # by what a bucket reads
    want = found.first_token + sum(each[-(-(before + 1) // 64) * 64] for before in range(64, 256))
    assert found.seconds == pytest.approx(want) and found.tokens_per_second == pytest.approx(8 * 193 / want)
    alone = habana_tf.predict_generation(config(), 64, 1, chip="gaudi3")
    assert alone.token == {} and alone.seconds == alone.first_token
    grown = habana_tf.predict_generation(config(), 64, 193, kv_cache="growing", chip="gaudi3")
    assert grown.programs == 193 and grown.cached == 2 * 256 * LAYERS * SHARED * SIZE * 2


@on_device(modes=LAZY)
def test_parts_of_a_batch_take_turns_with_less_alive_and_sums_beside_work() -> None:
    def asked(**given: Any) -> Any:
        wide = config(hidden_size=1024, intermediate_size=4096)
        return habana_tf.predict_generation(wide, 512, 2, batch=65, chip="gaudi2", tp=2, **given)

    whole, parts = asked(), asked(batch_split=4)
    assert parts.first_token < whole.first_token and parts.token == whole.token
    assert parts.activations < 0.7 * whole.activations and parts.largest_batch > whole.largest_batch
    assert (parts.weights, parts.cached) == (whole.weights, whole.cached)


@on_device(modes=LAZY)
def test_what_cannot_be_is_refused() -> None:
    from transformers import GPT2Config, GptOssConfig

    def asked(words: str, model: Any = None, **given: Any) -> None:
        made = {"input_length": 8, "output_length": 8, "chip": "gaudi2", **given}
        raises(words, lambda: habana_tf.predict_generation(model or config(), **made), ValueError)

    for name in ("input_length", "output_length", "batch", "tp", "batch_split"):
        asked("at least 1", **{name: 0})
    asked("tp=3 does not divide 8 heads, 4 of keys and values", tp=3)
    asked("precision='int4'", precision="int4")
    asked("kv_precision='bf16'", precision="fp32", kv_precision="bf16")
    asked("kv_cache='paged'", kv_cache="paged")
    asked("has no 8-bit floats", precision="fp8", chip="gaudi")
    asked("none has room for 16 tokens", buckets=[8])
    asked("tp=4 does not divide the 6 values", mixture(intermediate_size=6), tp=4)
    asked("GptOssExperts is not predicted", GptOssConfig(num_hidden_layers=1), attention="eager")
    asked("GPT2Config has no plan of tensor parallelism", GPT2Config(n_layer=1, n_embd=8, n_head=2), tp=2)


@needs_torch
def test_a_configuration_from_the_command_line(tmp_path: Path) -> None:
    config().save_pretrained(tmp_path)
    words = ["predict-generation", "--input-length", "16", "--output-length", "4", "--chip", "gaudi2", "--json"]
    run = "import sys; from habana_tf.cli.main import main; sys.exit(main({}))"
    found = json.loads(python(run.format([*words, str(tmp_path)])).stdout)
    assert found["chip"] == "gaudi2" and found["tokens_per_second"] > 0 and found["fits"] is True
    wrong = [*words, "--tp", "3", str(tmp_path)], [*words, str(tmp_path / "none")]
    done = python(f"from habana_tf.cli.main import main; print(*map(main, {wrong}))")
    assert done.stdout.split() == ["2", "2"]
    assert "does not divide" in done.stderr and f"no configuration '{tmp_path}/none'" in done.stderr
