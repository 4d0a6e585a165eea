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


@pytest.mark.parametrize("section", SECTIONS)
def test_one_section(shell: Shell, idle: str, section: str) -> None:
    words = {"PRODUCT": "HL-225", "POWER": "74 W", "CLOCK": "1650 MHz", "TEMPERATURE": "35 C", "FAN": "N/A",
             "BUS": "0x19", "MEMORY": "97536 MB", "NET": "8, 22, 23", "ROW_REPLACEMENT": "Double Bit ECC"}  # fmt: skip
    text = shell(f"hl-smi -q -d {section} -i 0000:19:00.0", idle)
    assert words[section] in text
    assert sum(word in text for word in words.values()) <= 2  # the address is also in the title


def test_firmware(shell: Shell, idle: str) -> None:
    assert shell("hl-smi --fw-versions | grep -c 'SPI.*simulated by habana_tf'", idle).strip() == "8"
