"""The table of overloads for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from habana_tf.cli.main import main
from habana_tf.torch.ops.table import rows
from tests.documentation.op_pages import torch_page

PAGE = Path(__file__).parents[3] / "docs" / "torch-ops.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not here")
def test_the_page_is_what_the_table_says() -> None:
    assert PAGE.read_text() == torch_page(PAGE.read_text()), "the table of overloads has changed: run make docs"


def test_the_command_lists_overloads_by_name_and_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--framework", "torch", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {each["overload"] for each in found} == set(rows())
    assert main(["ops", "--framework", "torch", "upsample", "GRU"]) == 0
    shown = capsys.readouterr().out
    assert "upsample_bilinear2d" in shown and "_thnn_fused_gru_cell" in shown and "add.Tensor" not in shown


def test_what_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--framework", "torch", "nothing_like_it"]) != 0
    assert capsys.readouterr().err
