"""What is wrong with a machine or its settings is found, each case on a machine that really is so."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from habana_tf import settings
from habana_tf.cache.reader import VERSION
from habana_tf.cli.check import host
from habana_tf.cli.check.finding import Finding
from tests import child

HOLD = """
import sys
from habana_tf.hardware import claim
print(claim.claim().module_id, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in settings.declared():
        for name in (setting.name, *setting.aliases):
            monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", child.machine())


def only(found: Iterator[Finding]) -> Finding:
    (finding,) = found
    return finding


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


# --- the folder of recipes ---


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "recipes"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path))
    return path


def test_a_folder_in_order(folder: Path) -> None:
    assert only(host.recipes()).status == "ok"


def test_without_a_folder_the_variable_is_named() -> None:
    finding = only(host.recipes())
    assert finding.status == "note" and "TF_RECIPE_CACHE_PATH" in finding.remedy


def test_a_folder_that_others_can_write_to(folder: Path) -> None:
    folder.chmod(0o777)
    finding = only(host.recipes())
    assert finding.status == "problem" and "written by others" in finding.fact and "chmod" in finding.fact, finding


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_folder_of_another_user(folder: Path) -> None:
    os.chown(folder, 4321, -1)
    finding = only(host.recipes())
    assert finding.status == "problem" and "4321" in finding.fact, finding


def test_a_damaged_recipe(folder: Path) -> None:
    shard = folder / VERSION / "ab"
    shard.mkdir(mode=0o700, parents=True)
    (folder / VERSION).chmod(0o700)
    (shard / f"dense-{'ab' * 32}.recipe").write_bytes(b"damaged")
    finding = only(host.recipes())
    assert finding.status == "problem" and "dense-abab" in finding.fact and "recipes verify" in finding.remedy, finding


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_this_user_cannot_write_to(folder: Path) -> None:
    folder.chmod(0o500)
    finding = only(host.recipes())
    assert finding.status == "problem" and "writable" in finding.fact and "chmod" in finding.remedy
    folder.chmod(0o700)


def test_little_space(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from habana_tf.cli.recipes import doctor

    monkeypatch.setattr(doctor, "_LITTLE_SPACE", 1 << 60)
    finding = only(host.recipes())
    assert finding.status == "problem" and "free space" in finding.fact and "prune" in finding.remedy


def test_a_cache_that_is_switched_off_is_a_note(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "off")
    finding = only(host.recipes())
    assert finding.status == "note" and "HABANA_SIM_CACHE_MODE" in finding.remedy


def test_a_signing_key_that_gives_none_is_a_problem(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    monkeypatch.setenv("HABANA_SIM_CACHE_SIGNING_KEY", str(key))
    assert "No such file" in only(host.recipes()).fact
    key.write_bytes(b"abc")
    key.chmod(0o600)
    finding = only(host.recipes())
    assert finding.status == "problem" and "fewer than 16 bytes" in finding.fact and finding.remedy
    key.write_bytes(b"0123456789abcdef")
    assert only(host.recipes()).status == "ok"


def test_a_wrong_chip_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CHIP", "gaudi9")
    assert list(host.memory()) == []


def test_a_folder_that_is_not_there_yet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(folder / "a" / "b"))
    assert only(host.recipes()).status == "ok"
    (folder / "file").touch()
    for path in (folder / "file", folder / "file" / "below"):
        monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path))
        finding = only(host.recipes())
        assert finding.status == "problem" and "TF_RECIPE_CACHE_PATH" in finding.remedy, finding
