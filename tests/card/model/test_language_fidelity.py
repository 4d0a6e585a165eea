"""Published training of language models: recordings costed with other parameters, and that the page tells them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.card.model.pages import DOCS
from tests.torch.child import needs_torch, on_device

pytest.importorskip("transformers")
WORST = {"training": 0.25, "fine-tuning": 0.35}


@needs_torch
@on_device(modes=("lazy",))
def test_rows_are_as_near_as_the_page_says() -> None:
    from tests.card.model import language_fidelity as fidelity

    page = (DOCS / "fidelity.md").read_text("utf-8")
    for row in [r for r in fidelity.FITTED_ROWS if r.id in ("L061", "L365", "L364", "L372")]:
        assert abs(fidelity.error(row)) < WORST[row.kind], row
        told = [float(n.replace(",", "")) for n in re.findall(rf"\| {row.figure:,.6g} \| ([\d.,]+) \|", page)]
        assert told == [pytest.approx(fidelity.throughput(row), rel=0.01)], row


@needs_torch
@on_device(modes=("lazy",))
def test_a_recording_costed_again_takes_what_a_new_one_takes() -> None:
    from habana_tf.card.model.parameters import FITTED
    from habana_tf.dry_run.layouts import recorded
    from habana_tf.dry_run.ranks import Jobs
    from tests.card.model import language_fidelity as fidelity

    (row,) = (r for r in fidelity.ROWS if r.id == "L366")
    slower = replace(FITTED, attention=0.7, streamed=0.4, gaudi3=0.3)
    before = fidelity.seconds(row)
    again = fidelity.seconds(row, slower)
    jobs = Jobs(row.chip, None, row.release).by(slower.at(row.release))
    found = recorded(jobs, row.asked.config, row.layout, row.asked.length, fidelity.LAYERS, made=row.asked.made)
    assert again == pytest.approx(found.step(found.points(jobs))[0], rel=1e-9) and again > 1.2 * before


@needs_torch
@on_device(modes=("lazy",))
def test_adapters_alone_are_trained_and_copies_of_a_model_sum_their_gradients_once_a_step() -> None:
    from habana_tf.card.prediction.ranks import Collective
    from tests.card.model import language_fidelity as fidelity

    (row,) = (r for r in fidelity.ROWS if r.id == "L412")
    _, found = fidelity._recorded(row.asked, row.layout, row.chip)
    hidden, rank, trained = 4096, 8, 2
    for layers, (made,) in zip(found.layers, found.ranks, strict=True):
        told = [event for event in made.step(-1).events if isinstance(event, Collective)]
        sums = [event for event in told if event.kind == "all_reduce"]
        assert not any(event.kind in ("all_gather", "reduce_scatter") for event in told)
        assert sum(event.nbytes for event in sums) == 4 * layers * trained * 2 * rank * hidden
