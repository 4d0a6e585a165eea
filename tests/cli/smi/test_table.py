"""The summary table beside that of a real Gaudi2 server, whose numbers alone differ."""

from __future__ import annotations

import re
import time

from tests.cli.smi.conftest import Busy, Shell

# A server with release 1.14: what hl-smi prints there, cut after its first card.
REAL = """\
+-----------------------------------------------------------------------------+
| HL-SMI Version:                              hl-1.14.0-fw-48.0.1.0          |
| Driver Version:                                     1.15.0-c43dc7b          |
|-------------------------------+----------------------+----------------------+
| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |
|===============================+======================+======================|
|   0  HL-225              N/A  | 0000:09:00.0     N/A |                   0  |
| N/A   26C   N/A    87W / 600W |    768MiB / 98304MiB |     0%           N/A |
|-------------------------------+----------------------+----------------------+
| Compute Processes:                                               AIP Memory |
|  AIP       PID   Type   Process name                             Usage      |
|=============================================================================|
|   0        N/A   N/A    N/A                                      N/A        |
+=============================================================================+
""".splitlines()
MEASURED = r"0000:..:00\.0|\b\d+C|\b\d+W /| hl-\S+|\b1\.\S+"


def _frame(line: str) -> str:
    """A line without what differs between machines, its places kept."""
    line = re.sub(r"( +)(hl-\S+|1\.1\d\.\d-\S+)", lambda m: "#" * len(m[0]), line)
    return re.sub(MEASURED, lambda m: "#" * len(m[0]), line)


def test_an_idle_card_looks_as_on_a_real_server(shell: Shell, idle: str) -> None:
    printed = shell("hl-smi", idle, HABANA_SIM_CARDS="1").splitlines()
    assert [_frame(line) for line in printed] == [_frame(line) for line in REAL]
    assert all(len(line) == 79 for line in printed)


def test_eight_cards(shell: Shell, idle: str) -> None:
    printed = shell("hl-smi", idle).splitlines()
    assert len(printed) == 7 + 8 * 3 + 3 + 8 + 1 and all(len(line) == 79 for line in printed)


def test_a_working_process_is_shown(shell: Shell, busy: Busy) -> None:
    end = time.monotonic() + 60
    while True:
        printed = shell("hl-smi", busy.directory)
        cards = re.findall(r"(\d+)W / 600W \| +(\d+)MiB / 98304MiB \| +(\d+)%", printed)
        powers, used, utilization = zip(*[map(int, card) for card in cards], strict=True)
        if utilization[3] > 60 or time.monotonic() > end:  # a busy host may have stopped the process for a while
            break
    assert all(len(line) == 79 for line in printed.splitlines())
    assert utilization[3] > 60 and set(utilization[:3] + utilization[4:]) == {0}
    assert powers[3] > 350 and set(powers[:3] + powers[4:]) == {74} and set(used) == {768}
    assert re.search(rf"^\|   3 +{busy.pid}   C +\S*python", printed, re.MULTILINE)
    assert printed.count("N/A   N/A    N/A  ") == 7


def test_other_chips(shell: Shell, idle: str) -> None:
    for chip, words in (
        ("gaudi", "HL-205.*102W / 350W.*512MiB / 32768MiB"),
        ("gaudi3", "HL-325L.*226W / 850W.*672MiB"),
    ):
        printed = shell("hl-smi", idle, HABANA_SIM_CHIP=chip)
        assert re.search(words, printed, re.DOTALL)
        assert all(len(line) == 79 for line in printed.splitlines())
