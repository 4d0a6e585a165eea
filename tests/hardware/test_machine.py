"""The directory that is the machine: whose it is by default, and which directories are refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from habana_tf.hardware import machine


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HABANA_SIM_STATE_DIR", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_by_default_each_user_has_a_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert machine.directory().endswith(f"/habana_sim-{os.geteuid()}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert machine.directory() == str(tmp_path / "habana_sim")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)  # the directory of another user, as after `su`
    assert machine.directory().endswith("/habana_sim-12345")


def test_the_directory_is_private_and_opened_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "new" / "machine"
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(path))
    assert machine.for_reading() is None and not path.exists()
    descriptor = machine.for_claiming()
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert machine.for_claiming() == machine.for_reading() == descriptor
    assert not os.get_inheritable(descriptor)


def test_a_machine_whose_file_was_removed_is_a_new_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path / "m"))
    first = machine.for_claiming()
    (tmp_path / "m" / "cards").unlink()
    assert machine.for_reading() is None
    assert os.fstat(machine.for_claiming()).st_ino != os.fstat(first).st_ino or machine.for_claiming() != first


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_directory_that_others_can_write_to_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int
) -> None:
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path))
    tmp_path.chmod(mode)
    with pytest.raises(machine.MachineError, match=r"chmod go-w.*HABANA_SIM_STATE_DIR"):
        machine.for_claiming()


@pytest.mark.parametrize("kind", ["link", "directory", "pipe", "writable"])
def test_a_file_that_is_not_our_own_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    monkeypatch.setenv("HABANA_SIM_STATE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    file = tmp_path / "cards"
    if kind == "link":
        (tmp_path / "elsewhere").touch()
        file.symlink_to(tmp_path / "elsewhere")
    elif kind == "directory":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.touch()
        file.chmod(0o666)
    with pytest.raises(machine.MachineError):
        machine.for_claiming()
