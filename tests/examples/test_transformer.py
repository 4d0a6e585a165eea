"""The Transformer: it learns to translate, its beam search is one launch and tells what stock TensorFlow tells."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.examples.programs import EXAMPLES, all_on_hpu, losses, train
from tests.versions import examples_run

sys.path.append(str(EXAMPLES / "transformer"))
from language import sentence

pytestmark = examples_run
PROGRAM = "transformer/translate.py"
SMALL = ("--hidden_size", "32", "--num_hidden_layers", "1", "--num_heads", "2", "--filter_size", "64", "-b", "16",
         "--learning_rate_warmup_steps", "40", "--log_every", "10", "--eval_batch_size", "8")  # fmt: skip


def test_sentences_agree() -> None:
    """What a subject is, its verb and its adjectives are too: counted in the words of the other language."""
    for k in range(200):
        english, other = sentence((k,))
        assert english[-1] == other[-1] == "." and len(english) <= 22 and len(other) <= 22
        assert other[-2].rpartition("-")[2] in ("e", "en", "it", "int")
        if "who" not in english:
            noun = other[1] if other[0] in ("ieri", "tum", "odi", "nun") else other[0]
            assert noun.endswith("i") == (other[-2].rpartition("-")[2] in ("en", "int")), (english, other)


@pytest.mark.rest
def test_learns_and_translates() -> None:
    printed = train(PROGRAM, *SMALL, "--train_steps", "60", "--eval_sentences", "8", "--learning_rate", "2")
    assert all_on_hpu(printed), "the loop over the words too"
    assert losses(printed)[60] < losses(printed)[1] - 1
    assert re.search(r"^8 held-out sentences, 4 beam\(s\): [\d.]+ % exactly right, BLEU [\d.]+$", printed, re.MULTILINE)


@pytest.mark.rest
def test_two_cards_train_as_one() -> None:
    """With the same batch over all cards: only rounding differs. Accumulation does not change the numbers either."""
    line = (PROGRAM, *SMALL, "--train_steps", "20", "--eval_sentences", "8", "--beam_size", "1", "-d", "fp32")
    one, two = losses(train(*line)), losses(train(*line, "--gradient_accumulation_steps", "2", cards=2))
    assert one.keys() == two.keys() and len(one) == 3
    assert all(abs(one[step] - two[step]) < 2e-3 for step in one), (one, two)


@pytest.mark.rest
def test_translates_as_stock_tensorflow(tmp_path: Path) -> None:
    """From one checkpoint, with one beam and with several."""
    line = (
        PROGRAM,
        *SMALL,
        "-d",
        "fp32",
        "--train_steps",
        "200",
        "--eval_sentences",
        "24",
        "--model_dir",
        str(tmp_path),
    )
    train(*line, "--learning_rate", "2")
    for beams in ("1", "3"):
        ours, stock = (train(*line, "--beam_size", beams, *more) for more in ([], ["--no_hpu"]))
        assert "Goes on from ckpt-200" in ours and not losses(ours)
        told = [re.findall(r"^-> .*|^24 held-out.*", each, re.MULTILINE) for each in (ours, stock)]
        assert len(told[0]) == 2 and told[0] == told[1]
        assert len(set(told[0][0].split()) - {"->"}) > 1, "a sentence that could differ"


@pytest.mark.rest
def test_a_second_run_compiles_nothing(tmp_path: Path) -> None:
    line = (PROGRAM, *SMALL, "--train_steps", "3", "--eval_sentences", "8", "--recipe_cache", str(tmp_path))
    train(*line)
    made = sorted(path.name for path in tmp_path.rglob("*.recipe"))
    train(*line)
    assert made and sorted(path.name for path in tmp_path.rglob("*.recipe")) == made
