"""`-q` and its sections: name and value in two columns, and the holder's own figures."""

from __future__ import annotations

import re

import pytest

from habana_tf.cli.smi.details import SECTIONS
from tests.cli.smi.conftest import Busy, Shell


def test_everything_of_one_card(shell: Shell, busy: Busy) -> None:
    text = shell("hl-smi -q -i 34:00.0", busy.directory)
    values = dict(re.findall(r"^ *([^:\n]*\S) +: (.*)$", text, re.MULTILINE))
    assert (values["Attached AIPs"], values["Module ID"], values["Bus Id"]) == ("8", "3", "0000:34:00.0")
    assert (values["Total"], values["Product Name"]) == ("98304 MB", "HL-225")
    assert int(values["Launches"]) > 5 and float(values["Busy"].removesuffix(" s")) > 0.5
    assert "HL-SMI Version" in values and text.count("[3] AIP (accel3)") == 1


def test_what_is_not_measured_is_marked_and_its_lines_are_those_of_a_card(shell: Shell, idle: str) -> None:
    lines = shell("hl-smi -q -i 0000:19:00.0", idle).splitlines()
    for section, line in [("Power Readings", "Power Draw"), ("Temperature", "On Chip 0"), ("Clocks", "[1] mme")]:
        at = next(place for place, text in enumerate(lines) if text.strip().startswith(f"{section} ("))
        assert "modelled" in lines[at] or "not measured" in lines[at]
        assert any(re.fullmatch(rf" +\S*.*{re.escape(line)} +: \d+ \S+", text) for text in lines[at : at + 4])
    memory = next(text for text in lines if "Memory Usage" in text)
    assert memory.strip() == "Memory Usage", "it is measured"


@pytest.mark.parametrize("section", SECTIONS)
def test_one_section(shell: Shell, idle: str, section: str) -> None:
    words = {"PRODUCT": "HL-225", "POWER": "74 W", "CLOCK": "1650 MHz", "TEMPERATURE": "35 C", "FAN": "N/A",
             "BUS": "0x19", "MEMORY": "97536 MB", "NET": "8, 22, 23", "ROW_REPLACEMENT": "Double Bit ECC"}  # fmt: skip
    text = shell(f"hl-smi -q -d {section} -i 0000:19:00.0", idle)
    assert words[section] in text
    assert sum(word in text for word in words.values()) <= 2  # the address is also in the title


def test_firmware(shell: Shell, idle: str) -> None:
    assert shell("hl-smi --fw-versions | grep -c 'SPI.*simulated by habana_tf'", idle).strip() == "8"
