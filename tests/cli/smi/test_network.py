"""Links: three to each peer on Gaudi2, one on Gaudi, and none to cards that are not there."""

from __future__ import annotations

import re

import pytest

from tests.cli.smi.conftest import Shell


@pytest.mark.parametrize(
    ("chip", "cards", "up"),
    [("gaudi2", 8, 168), ("gaudi2", 4, 36), ("gaudi2", 1, 0), ("gaudi", 8, 56), ("gaudi3", 2, 6)],
)
def test_links_within_the_machine(shell: Shell, idle: str, chip: str, cards: int, up: int) -> None:
    line = "hl-smi -n link | grep -c UP; true"
    assert int(shell(line, idle, HABANA_SIM_CHIP=chip, HABANA_SIM_CARDS=str(cards))) == up


def test_ports(shell: Shell, idle: str) -> None:
    link = shell("hl-smi -n link -i 19:00.0", idle)
    assert re.fullmatch(r"(port [ \d]\d:\s+UP\n){21}", link) and "port  8" not in link
    kinds = shell("hl-smi -n ports -i 19:00.0", idle)
    assert re.findall(r"port +(\d+):\s+external", kinds) == ["8", "22", "23"] and kinds.count("internal") == 21
    assert shell("hl-smi -n link -P 0,8 -i 19:00.0", idle).split() == ["port", "0:", "UP", "port", "8:", "DOWN"]


def test_topology(shell: Shell, idle: str) -> None:
    rows = shell("hl-smi topo -c", idle).splitlines()
    assert rows[0].split() == ["modID", "CPU", "Affinity", "NUMA", "Affinity"] and len(rows) == 10
