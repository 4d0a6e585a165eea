"""`hl-smi` as scripts call it: the one-liners of Habana's own scripts, wrong usage, and how long it takes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.child import environment, python
from tests.cli.smi.conftest import Busy, Shell


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        # hvd_common.sh: cards per node, one line of it being the header
        ("echo $(( $(hl-smi -Q bus_id --format=csv | wc -l) - 1 ))", "8"),
        ("hl-smi -Q bus_id -f csv,noheader | head -1", "0000:19:00.0"),
        ("hl-smi -Q index,module_id -f csv,noheader | tail -1", "7, 7"),
        ("hl-smi -L | grep 'Bus Id' | awk '{print $4}' | wc -l", "8"),
        ("hl-smi -L | grep 'Bus Id' | awk '{print $4}' | head -1", "0000:19:00.0"),
        ("hl-smi -L | grep 'Module ID' | awk '{print $4}' | tail -1", "7"),
        ("for b in $(hl-smi -Q bus_id -f csv,noheader); do hl-smi -i $b -n link; done | grep UP | wc -l", "168"),
        ("hl-smi -n link | grep UP | wc -l", "168"),
        ("hl-smi --query-aip name --format=csv,nounits | sort -u | head -1", "HL-225"),
        ("hl-smi | grep 'Driver Version' | awk '{print $4}' | cut -d- -f1", "1.14.0"),
    ],
)
def test_one_liners(shell: Shell, idle: str, line: str, printed: str) -> None:
    assert shell(line, idle).strip() == printed


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("-i 0000:ff:00.0", 1, "0000:19:00.0"),
        ("-Q speed", 2, "memory.total"),
        ("-Q name -f json", 2, "csv,noheader"),
        ("-n link -P 24", 2, "0 to 23"),
        ("-n stats", 1, "-n link"),
        ("-d EVERYTHING -q", 2, "POWER"),
        ("-r -i 19:00.0", 1, "end the process"),
        ("-p 500", 1, "no power limit"),
        ("-l -1", 2, "--loop"),
        ("-f csv", 2, "needs -Q"),
        ("-P 1", 2, "needs -n"),
        ("-c", 2, "needs topo"),
    ],
)
def test_what_cannot_be_shown_is_an_error(shell: Shell, idle: str, options: str, code: int, words: str) -> None:
    answer = shell(f"hl-smi {options}", idle, check=False)
    assert answer.startswith(f"{code}: ") and words in answer


def test_a_wrong_setting_is_named(shell: Shell, idle: str) -> None:
    assert "HABANA_SIM_CARDS" in shell("hl-smi", idle, check=False, HABANA_SIM_CARDS="many")
    assert "did you mean HABANA_SIM_CARDS?" in shell("hl-smi", idle, check=False, HABANA_SIM_CARD="4")


def test_looking_creates_nothing_and_needs_no_right_to_write(shell: Shell, busy: Busy, tmp_path: Path) -> None:
    assert "N/A" in shell("hl-smi", str(tmp_path / "nobody"))
    assert not (tmp_path / "nobody").exists()
    if os.geteuid() == 0:
        os.chmod(busy.directory, 0o755)
        for parent in Path(busy.directory).parents:
            if parent.name.startswith("habana-tests-"):
                parent.chmod(0o755)
        script = "import os\nfrom habana_tf.hardware import telemetry\nos.setgid(65534); os.setuid(65534)\n"
        done = python(script + "print(telemetry.holder(3).pid)", check=False, HABANA_SIM_STATE_DIR=busy.directory)
        assert done.stdout.strip() == str(busy.pid), done.stderr


def test_the_loop_goes_on_until_its_reader_leaves(shell: Shell, idle: str) -> None:
    assert shell("hl-smi -Q index -f csv,noheader -i 19:00.0 -l 0.05 | head -3", idle).split() == ["0"] * 3


def test_versions_and_help(shell: Shell, idle: str) -> None:
    assert "simulated by habana_tf" in shell("hl-smi -v", idle)
    text = shell("hl-smi -h", idle)
    assert all(option in text for option in ("--list-aips", "--query-aip", "--network", "--loop", "ecc.errors"))


def test_it_is_fast(idle: str) -> None:
    """150 ms on a quiet machine, where a bare interpreter takes 20 ms: compared with it, so that load is no matter."""
    script = """
    import os, resource, subprocess, sys
    def spent(code):
        def once():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return min(once() for _ in range(8))
    print(spent("from habana_tf.cli.smi.main import main; main([])") / spent("pass"))
    """
    done = python(script, HABANA_SIM_STATE_DIR=idle, PYTHONPYCACHEPREFIX=idle, PYTHONDONTWRITEBYTECODE="")
    assert float(done.stdout) < 150 / 20


def test_it_imports_nothing_heavy(idle: str) -> None:
    code = "import sys; from habana_tf.cli.smi.main import main; main([]); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(HABANA_SIM_STATE_DIR=idle), capture_output=True, text=True
    )
    assert not re.search(r"\b(tensorflow|numpy|rich|keras|llvmlite|_bridge)\b", done.stderr)
