"""What people see of a prediction, from one made by hand."""

from __future__ import annotations

import re
from dataclasses import replace

from habana_tf.card.model.growth import Growth
from habana_tf.card.model.step_time import StepTime
from habana_tf.card.prediction.layers import Layer
from habana_tf.card.prediction.prediction import HostOp, Prediction
from habana_tf.card.prediction.report import help_lines
from habana_tf.hardware.boxes import box
from habana_tf.hardware.chips import chip
from habana_tf.reports.units import size

GB = 10**9
MEMORY = {"weights": 2 * GB, "optimizer": 4 * GB, "gradients": 2 * GB, "activations": 6 * GB, "workspace": GB,
          "inputs": GB}  # fmt: skip


def prediction(cards: int = 8, copies: float = 0.0, host: tuple[HostOp, ...] = ()) -> Prediction:
    """100 ms of launches, 4 ms of network that is waited for, 2 ms of waiting for cards."""
    step = StepTime(chip("gaudi2"), cards, box(chip("gaudi2")), [], 0.100, 0.010, 0.004, 0.002, copies, dict(MEMORY))
    return Prediction(32, "bf16", step, (), host)


def test_the_first_line_is_the_answer() -> None:
    """8 cards x 32 examples in 106 ms."""
    first = str(prediction()).splitlines()[0]
    assert first == "8 x gaudi2, batch 32 each, bf16: 106 ms a step, 2,415 examples/s"


def test_parts_of_the_step_and_of_memory() -> None:
    shown = str(prediction())
    rows = [re.split(r"  +", line) for line in shown.splitlines()]
    assert ["network alone", "4.00 ms"] in rows and ["waiting for cards", "2.00 ms"] in rows
    assert not any(row[0] == "feeding" for row in rows), "what is nothing is left out"
    assert ["optimizer", size(4 * GB), "25%"] in rows and ["activations", size(6 * GB), "38%"] in rows
    idle = chip("gaudi2").idle_memory_bytes
    assert ["all: fits into 96.0 GiB", size(16 * GB + idle)] in rows


def test_precision_says_why() -> None:
    assert "bf16: asked for" in str(replace(prediction(), precision_why="asked for"))
    assert prediction().to_dict()["precision_why"] == ""


def test_a_batch_far_from_the_predicted_one_is_no_number() -> None:
    small = replace(prediction().step, growth=(Growth((1, 1), ((0, 1),)),))
    found = replace(prediction(), step=small)
    assert found.largest_batch() > 32_000 and "largest batch that fits: more than 32,000" in str(found)


def test_a_remedy_is_said_once_with_its_layers() -> None:
    made = [Layer(f"layer_{k}", 0.1, 0.2, "launch", 1, 0, 0, ("a larger batch",)) for k in range(5)]
    (line,) = help_lines(made)
    assert line == "would help layer_0, layer_1, layer_2 and 2 more (100% of the launches' time): a larger batch"


def test_a_step_that_waits_for_its_data_says_so() -> None:
    rows = str(prediction(copies=0.206)).splitlines()
    assert "206 ms a step" in rows[0]
    assert any("feeding" in row and "100.0 ms" in row for row in rows)


def test_what_does_not_fit_says_so_and_how_much_would() -> None:
    """8 GB stay, 202 GB are for 32 examples."""
    found = prediction()
    found.step.memory["activations"] = 200 * GB
    found = replace(found, step=replace(found.step, growth=(Growth((8 * GB, GB), ((0, 201 * GB),)),)))
    shown = str(found)
    assert "does NOT fit" in shown
    room = chip("gaudi2").hbm_bytes - chip("gaudi2").idle_memory_bytes - 8 * GB
    most = int(room / (202 * GB / 32))
    assert f"largest batch that fits: {most}" in shown.replace(",", "") and f"a batch of {most} at most" in shown


def test_the_host_s_ops_are_named_and_said_not_to_be_counted() -> None:
    host = (HostOp("Unique", "a", 1 << 21), HostOp("Unique", "b", 1 << 21), HostOp("Where", "c", 0))
    found = prediction(host=host)
    shown = str(found)
    assert "2 x Unique, 4,194,304 bytes" in shown and "1 x Where" in shown
    assert "not counted: the time of 3 ops on the CPU; their copies" in shown
    assert found.to_dict()["not_counted"] == found.not_counted and len(found.not_counted) == 2
    assert str(prediction()).count("not counted: the host's own work") == 1
    assert len(prediction().not_counted) == 1
    assert "ops on the CPU, which wait for the card's results: Unique" in shown


def test_a_page_shows_the_same_and_no_markup_of_names() -> None:
    found = replace(prediction(), precision="<i>")
    assert "<i>" not in found._repr_html_() and "&lt;i&gt;" in found._repr_html_()


def test_nothing_over_pcie_is_nothing_waited_for() -> None:
    """The sum of these parts is not exact: what is left of it is no waiting."""
    found = prediction()
    step = replace(found.step, launches=0.1, network_alone=0.0041, waiting=0.0023)
    assert replace(found, step=step).parts["feeding"] == 0 and "PCIe" not in " ".join(replace(found, step=step).advice)
