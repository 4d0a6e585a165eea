"""Published training of language models: what predictions of it are made of, and that the page tells them."""

from __future__ import annotations

import pytest

from tests.card.model.pages import DOCS
from tests.torch.child import needs_torch, on_device

pytest.importorskip("transformers")
WORST = {"training": 0.25, "fine-tuning": 0.35}


@needs_torch
@on_device(modes=("lazy",))
def test_layers_add_the_same_each_and_rows_are_as_near_as_the_page_says() -> None:
    from habana_tf.card.model.cluster_time import cluster_time
    from habana_tf.card.model.parameters import FITTED
    from habana_tf.hardware.chips import chip
    from tests.card.model import language_fidelity as fidelity
    from tests.card.model.language_models import Asked, traced

    asked = Asked("LLaMA 2 70B", 1, 1024, tensor=8, fp8=True)
    one, two, four = (fidelity._measured(asked, "gaudi2", n) for n in (1, 2, 4))
    told = one.plus(two.plus(one, -1), 3).seconds(FITTED, 1.0)
    assert told == pytest.approx(four.seconds(FITTED, 1.0), rel=1e-3)
    (each,) = traced(asked, 4).launched
    whole = cluster_time(chip("gaudi2"), each.program, frozenset(each.made.values()), FITTED)
    assert told == pytest.approx(whole.seconds, rel=1e-3)
    page = (DOCS / "fidelity.md").read_text("utf-8")
    for row in [r for r in fidelity.FITTED_ROWS if r.id in ("L059", "L062", "L365", "L364", "L422")]:
        assert abs(fidelity.error(row)) < WORST[row.kind], row
        assert f"| {row.figure:,.6g} | {fidelity.throughput(row):,.5g} |" in page, row
