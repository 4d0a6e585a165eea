"""CSV for scripts: units, header, and the same numbers in every form."""

from __future__ import annotations

import csv
import io
import re

from habana_tf.cli.smi.fields import NAMES
from tests.cli.smi.conftest import Busy, Shell

ROW = (
    "index,uuid,name,driver_version,memory.total,memory.used,memory.free,power.draw,power.max,temperature.aip,"
    "utilization.aip"
)


def test_a_row_has_the_form_of_a_real_one(shell: Shell, idle: str) -> None:
    """That of an HL-325L ends in `131072 MiB, 672 MiB, 130400 MiB, 226 W, 850 W, 36 C, 0 %`."""
    row = shell(f"hl-smi -Q {ROW} -f csv,noheader | head -1", idle, HABANA_SIM_CHIP="gaudi3").strip()
    tail = "131072 MiB, 672 MiB, 130400 MiB, 226 W, 850 W, 36 C, 0 %"
    assert re.fullmatch(rf"0, [\w-]+, HL-325L, [\w.-]+, {tail}", row), row


def test_the_header_names_units_and_nounits_drops_them_from_the_rows(shell: Shell, idle: str) -> None:
    header, first, *_ = shell("hl-smi -Q name,power.draw,memory.used -f csv,nounits", idle).splitlines()
    assert header == "name, power.draw [W], memory.used [MiB]"
    assert first == "HL-225, 74, 768"


def test_every_field_has_a_value(shell: Shell, busy: Busy) -> None:
    text = shell(f"hl-smi -Q {','.join(NAMES)} -f csv", busy.directory)
    rows = list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
    assert len(rows) == 8 and all(value for row in rows for value in row.values())
    assert [name.split(" ")[0] for name in rows[0]] == list(NAMES)
    for row in rows:
        memory = {kind: int(row[f"memory.{kind} [MiB]"].removesuffix(" MiB")) for kind in ("total", "used", "free")}
        assert memory["used"] + memory["free"] == memory["total"] == 98304


def test_rows_that_were_replaced(shell: Shell, idle: str) -> None:
    names = "uuid,replaced_rows.address,replaced_rows.cause"
    assert shell(f"hl-smi --query-row-replacement {names}", idle) == names.replace(",", ", ") + "\n"
    assert shell(f"hl-smi --query-row-replacement={names} -f csv,noheader -i 19:00.0", idle) == ""
    wrong = shell("hl-smi --query-row-replacement rows", idle, check=False)
    assert wrong.startswith("2: ") and "replaced_rows.cause" in wrong
