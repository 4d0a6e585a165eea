"""What is wrong with a machine or its settings is found, each case on a machine that really is so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from habana_tf.cli.check import host
from tests import child
from tests.cli.check.conftest import only

HOLD = """
import sys
from habana_tf.hardware import claim
print(claim.claim().module_id, flush=True)
sys.stdin.read()
"""


# --- settings ---


@pytest.mark.parametrize("name, value", [("HABANA_SIM_CARDS", "9"), ("HABANA_SIM_CRADS", "4"),
                                         ("TF_CPU_RUNTIME_FALLBACK", "perhaps"),
                                         ("TF_RECIPE_CACHE_PAHT", "/recipes")])  # fmt: skip
def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    finding = next(host.variables())
    assert finding.status == "problem" and name in finding.fact and "habana-tf settings" in finding.remedy


def test_what_is_set_is_listed_and_what_is_set_in_vain_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CHIP", "gaudi3")
    monkeypatch.setenv("LOG_LEVEL_ALL", "3")
    own, vain = host.variables()
    assert own.status == "ok" and "HABANA_SIM_CHIP" in own.fact
    assert vain.status == "note" and "LOG_LEVEL_ALL" in vain.fact


# --- the compiled part ---


def test_the_native_part_is_there() -> None:
    assert only(host.native()).status == "ok"


def test_a_native_part_for_another_python_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    import habana_tf._native
    from habana_tf import loader  # noqa: F401  # before nothing can be imported any more
    from habana_tf.hardware import chips  # noqa: F401

    monkeypatch.delitem(sys.modules, "habana_tf._native._bridge", raising=False)
    monkeypatch.delattr(habana_tf._native, "_bridge", raising=False)
    monkeypatch.setattr(sys, "meta_path", [])
    finding = only(host.native())
    assert finding.status == "problem" and "cannot be loaded" in finding.fact and "pip install" in finding.remedy
    assert list(host.memory()) == []


# --- cards ---


def test_a_held_card_is_named_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CARDS", "2")
    assert only(host.cards()).fact == "2 of 2 free (gaudi2)"
    environment = {**child.environment(), **{name: os.environ[name] for name in ("HABANA_SIM_STATE_DIR",)}}
    holder = subprocess.Popen([sys.executable, "-c", HOLD, "--token=hunter2"], env=environment, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "0\n"
        finding = only(host.cards())
        assert finding.status == "ok" and f"card 0: pid {holder.pid}" in finding.fact
        assert finding.public == "1 of 2 free (gaudi2)"
        monkeypatch.setenv("HABANA_VISIBLE_MODULES", "0")
        finding = only(host.cards())
        assert finding.status == "problem" and str(holder.pid) in finding.fact and "hl-smi" in finding.remedy
        assert "hunter2" not in (finding.public or finding.fact)
    finally:
        holder.communicate()


@pytest.mark.parametrize("name, value", [("HLS_MODULE_ID", "8"), ("HABANA_SIM_STATE_DIR", "/dev/null/machine")])
def test_a_card_or_a_machine_that_cannot_be(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    finding = only(host.cards())
    assert finding.status == "problem" and name in finding.fact


# --- memory ---


def test_a_limit_of_this_process_is_told_from_the_hosts_memory() -> None:
    """Under ulimit -v, which a container's limit is read beside."""
    limited = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30));"
        "from habana_tf.cli.check import host; (found,) = host.memory(); print(found.status, found.fact)"
    )
    done = subprocess.run([sys.executable, "-c", limited], env=child.environment(), capture_output=True, text=True)
    assert done.stdout.startswith("problem "), done
    assert "of 1.0 GiB, the limit of this process" in done.stdout


def test_memory_beside_the_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_LITTLE_MEMORY", 1)
    finding = only(host.memory())
    assert finding.status in ("ok", "note") and "the card has 96.0 GiB" in finding.fact


def test_shared_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(host, "_SHARED", str(tmp_path))
    assert only(host.shared_memory()).status == "ok"
    monkeypatch.setattr(host, "_LITTLE_SHARED", 1 << 60)
    assert "--shm-size" in only(host.shared_memory()).remedy
    monkeypatch.setattr(host, "_SHARED", str(tmp_path / "none"))
    finding = only(host.shared_memory())
    assert finding.status == "note" and "No such file" in finding.fact


def test_a_wrong_chip_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CHIP", "gaudi9")
    assert list(host.memory()) == []
