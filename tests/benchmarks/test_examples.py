"""The arithmetic of the comparison of the examples, and one run of a small one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.benchmarks import examples
from tests.child import machine
from tests.versions import examples_run


def noted(step: float, first: float, **more: Any) -> dict[str, Any]:
    """Ten steps: the first with the start of the process, the second slow, as it belongs to the warm-up."""
    return {
        "seconds": [9.0, 8.0, *[step] * 8],
        "processor": [9.0, 8.0, *[step * 1.5] * 8],
        "first": first,
        "launches": list(range(50, 70, 2)),
        **more,
    }


def test_summary_and_table() -> None:
    hpu = {"cpu": {"Unique": 3}, "cpu_eager": ["Unique", "Where"]}
    runs = {
        "cold": noted(0.011, 4.0, compiled=12, written=10, **hpu),
        "warm": noted(0.010, 1.5, compiled=1, written=0, **hpu),
        "stock": noted(0.025, 0.5),
    }
    line = examples.summary("vit", "bf16", runs)
    assert line["ratio"] == 2.5 and line["steps"] == 10 and line["launches_per_step"] == 2
    assert (
        line["warm"] == {"step_ms": 10.0, "first_step_s": 1.5, "processor_ms": 15.0} and line["cold"]["step_ms"] == 11.0
    )
    assert line["recipes_written"] == [10, 0] and line["compiled"] == [12, 1]
    assert line["ops_on_cpu"] == {"Unique": 3, "Where": 1}
    console = Console(width=200)
    with console.capture() as shown:
        console.print(examples.table([line]))
    row = [cell.strip() for cell in shown.get().splitlines()[-2].strip("│").split("│")]
    assert row == [
        "vit",
        "bf16",
        "10.0",
        "25.0",
        "2.50 (2.50)",
        "4.0",
        "1.5",
        "0.5",
        "10",
        "0",
        "2",
        "3 Unique, 1 Where",
    ]


def test_a_program_that_does_not_say_its_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "quiet.py").write_text("print('step 1/4, loss 1.0, first step 0.1 s')\n")
    with pytest.raises(SystemExit, match="said 1 of 4 steps"):
        examples.run(examples.Program(str(tmp_path / "quiet.py"), "--steps"), [], 4, str(tmp_path))


@pytest.mark.rest
@examples_run
@pytest.mark.parametrize("name", examples.PROGRAMS)
def test_the_second_run_writes_no_recipe(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", machine())
    examples.main(["--programs", name, "--dtype", "bf16", "--steps", "4"])
    line = json.loads(capsys.readouterr().out.splitlines()[0])
    assert line["recipes_written"][0] > 0 and line["recipes_written"][1] == 0
    assert line["ops_on_cpu"] == {} and line["launches_per_step"] == 1
    assert line["stock"]["step_ms"] > 0
