"""A record of what is compiled: equal for equal sources, and told apart where one instruction is another."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.child import PATH, python
from tests.ir_digests.__main__ import HOOK, Row, main, rows

COMPILES = """
    import os
    from habana_tf.compiler.compile import compile_program
    from habana_tf.hardware.cpu import target
    from habana_tf.ir.builder import Builder
    from habana_tf.ir.dtypes import from_label
    from habana_tf.ir.primitives import Program

    b = Builder()
    x = b.input((8, 4), from_label("float32"))
    made = b.map(os.environ["FUNCTION"], x, x)
    compile_program(Program(b.inputs, [made, b.reduce("sum", made, (1,))]), "square", target())
"""


def record(path: Path, function: str) -> list[Row]:
    path.mkdir()
    hooked = os.pathsep.join([str(HOOK), PATH])
    python(COMPILES, PYTHONPATH=hooked, IR_RECORD=str(path), IR_LABEL="small", FUNCTION=function)
    return rows(path)


def test_two_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, same, other = (
        record(tmp_path / name, function) for name, function in (("before", "mul"), ("same", "mul"), ("other", "add"))
    )
    assert len(before) == 1 and before == same and before[0][:2] == ("small", "square")
    assert before[0].ir != other[0].ir
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "same")]) == 0
    assert capsys.readouterr().out == "1 programs: IR and plans are equal\n"
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "other")]) == 1
    shown = capsys.readouterr().out
    assert "small: square" in shown and " fmul " in shown and " fadd " in shown


def test_a_program_that_is_gone_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, programs in (("before", 2), ("after", 1)):
        (tmp_path / name).mkdir()
        lines = [json.dumps(["a test", f"program {k}", "ir", "plan"]) for k in range(programs)]
        (tmp_path / name / "programs-1.jsonl").write_text("\n".join(lines))
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after")]) == 1
    assert "1 of 2 programs differ or are gone, 0 of 1 differ or are new" in capsys.readouterr().out


def test_no_record(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds no record"):
        main(["compare", str(tmp_path), str(tmp_path)])
