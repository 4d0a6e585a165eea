"""BERT: hidden words are learnt, phases and fine-tuning go on from checkpoints, two cards train as one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.examples.programs import all_on_hpu, losses, train
from tests.versions import examples_run

pytestmark = examples_run
PROGRAM = "bert/run_pretraining.py"
SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
SHORT = ("--tales", "200", "--train_batch_size", "16", "--num_warmup_steps", "5", "--log_every", "10")


@pytest.fixture
def small(tmp_path: Path) -> tuple[str, str]:
    """The argument for a small network."""
    file = tmp_path / "small.json"
    file.write_text(json.dumps(SIZES))
    return "--bert_config_file", str(file)


def hidden_words(printed: str) -> list[float]:
    """Accuracies on held-out text in percent, the first one before training."""
    return [float(each) for each in re.findall(r"held-out text: hidden words ([\d.]+) %", printed)]


def test_learns(small: tuple[str, str]) -> None:
    """In two micro-batches a step."""
    line = (*SHORT, *small, "--num_train_steps", "40", "--num_accumulation_steps", "2")
    printed = train(PROGRAM, *line, "--learning_rate", "0.05")
    assert all_on_hpu(printed) and re.search(r"\d+ sequences/s on 1 card", printed)
    assert losses(printed)[40] < losses(printed)[1] - 0.5


def test_a_configuration_that_it_does_not_know(tmp_path: Path) -> None:
    file = tmp_path / "bert.json"
    file.write_text(json.dumps({"hidden_size": 32, "embedding_size": 16}))
    with pytest.raises(AssertionError, match=r"bert\.json: this BERT knows nothing of embedding_size"):
        train(PROGRAM, *SHORT, "--bert_config_file", str(file))


@pytest.mark.rest
def test_two_cards_train_as_one(small: tuple[str, str]) -> None:
    """With the same batch over all cards: only rounding differs. Accumulation does not change the numbers either."""
    line = (PROGRAM, *SHORT, *small, "--num_train_steps", "30", "-d", "fp32")
    one, two = losses(train(*line)), losses(train(*line, "--num_accumulation_steps", "2", cards=2))
    assert one.keys() == two.keys() and len(one) == 4
    assert all(abs(one[step] - two[step]) < 2e-3 for step in one), (one, two)


@pytest.mark.rest
def test_trains_as_stock_tensorflow(small: tuple[str, str]) -> None:
    line = (PROGRAM, *SHORT, *small, "--num_train_steps", "30", "-d", "fp32")
    ours, stock = losses(train(*line)), losses(train(*line, "--no_hpu"))
    assert len(ours) == 4 and all(abs(ours[step] - stock[step]) < 2e-3 for step in stock), (ours, stock)


@pytest.mark.rest
def test_a_second_run_compiles_nothing(small: tuple[str, str], tmp_path: Path) -> None:
    line = (PROGRAM, *SHORT, *small, "--num_train_steps", "3", "--recipe_cache", str(tmp_path / "recipes"))
    train(*line)
    made = sorted(path.name for path in (tmp_path / "recipes").rglob("*.recipe"))
    printed = train(*line)
    assert made and sorted(path.name for path in (tmp_path / "recipes").rglob("*.recipe")) == made
    assert losses(printed).keys() == {1, 3}


@pytest.mark.rest
def test_two_phases_and_fine_tuning(small: tuple[str, str], tmp_path: Path) -> None:
    """Phase 2 begins where phase 1 ended, with longer sequences; a classifier with the encoder of either."""
    first, second = str(tmp_path / "phase_1"), str(tmp_path / "phase_2")
    line = (*SHORT, *small, "--num_train_steps", "150", "--learning_rate", "0.02")
    printed = train(PROGRAM, *line, "--model_dir", first)
    start, *_, end = hidden_words(printed)
    guess = float(re.findall(r"always guessing .* hidden words ([\d.]+) %", printed)[0])
    assert end > 2 * start and end > guess
    longer = ("--max_seq_length", "48", "--max_predictions_per_seq", "7", "--init_checkpoint", first)
    printed = train(PROGRAM, *SHORT, *small, *longer, "--num_train_steps", "10", "--model_dir", second)
    assert "Begins with ckpt-150" in printed and hidden_words(printed)[0] > 2 * start
    tuned = ("bert/run_classifier.py", *small, "--tales", "200", "--pairs", "64", "--num_train_epochs", "2")
    printed = train(*tuned, "--init_checkpoint", second)
    assert all_on_hpu(printed) and "Begins with ckpt-10" in printed
    assert re.search(r"test accuracy: [\d.]+ %", printed)


@pytest.mark.rest
def test_fine_tuning_needs_a_checkpoint(small: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"no checkpoint in .*run_pretraining\.py --model_dir writes one"):
        train("bert/run_classifier.py", *small, "--tales", "200", "--init_checkpoint", str(tmp_path))
