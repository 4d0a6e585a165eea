"""What keeps a folder of recipes from working is found, each case in a folder that really is so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from habana_tf.cache.reader import VERSION
from habana_tf.cli.check import recipe_cache
from tests.cli.check.conftest import only


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "recipes"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path))
    return path


def test_a_folder_in_order(folder: Path, tmp_path: Path) -> None:
    finding = only(recipe_cache.recipes())
    assert finding.status == "ok" and "free on the disk" in finding.fact and "format none yet" in finding.fact
    (folder / VERSION).mkdir(mode=0o700)
    assert f"format {VERSION} (this one)" in only(recipe_cache.recipes()).fact
    assert str(tmp_path / "other") in only(recipe_cache.recipes(str(tmp_path / "other"))).fact


def test_without_a_folder_the_variable_is_named() -> None:
    finding = only(recipe_cache.recipes())
    assert finding.status == "note" and "TF_RECIPE_CACHE_PATH" in finding.remedy


def test_a_folder_that_others_can_write_to(folder: Path) -> None:
    folder.chmod(0o777)
    finding = only(recipe_cache.recipes())
    assert finding.status == "problem" and "written by others" in finding.fact and "chmod" in finding.fact, finding


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder away")
def test_a_folder_of_another_user(folder: Path) -> None:
    os.chown(folder, 4321, -1)
    finding = only(recipe_cache.recipes())
    assert finding.status == "problem" and "4321" in finding.fact, finding


def test_a_damaged_recipe(folder: Path) -> None:
    shard = folder / VERSION / "ab"
    shard.mkdir(mode=0o700, parents=True)
    (folder / VERSION).chmod(0o700)
    (shard / f"dense-{'ab' * 32}.recipe").write_bytes(b"damaged")
    finding = only(recipe_cache.recipes())
    assert finding.status == "problem" and "dense-abab" in finding.fact and "recipes verify" in finding.remedy, finding


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_this_user_cannot_write_to(folder: Path) -> None:
    folder.chmod(0o500)
    finding = only(recipe_cache.recipes())
    assert finding.status == "problem" and "writable" in finding.fact and "chmod" in finding.remedy
    folder.chmod(0o700)


def test_little_space(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipe_cache, "_LITTLE_SPACE", 1 << 60)
    finding = only(recipe_cache.recipes())
    assert finding.status == "problem" and "free space" in finding.fact and "prune" in finding.remedy


def test_a_cache_that_is_switched_off_is_a_note(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HABANA_SIM_CACHE_MODE", "off")
    finding = only(recipe_cache.recipes())
    assert finding.status == "note" and "HABANA_SIM_CACHE_MODE" in finding.remedy


def test_a_signing_key_that_gives_none_is_a_problem(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "key"
    monkeypatch.setenv("HABANA_SIM_CACHE_SIGNING_KEY", str(key))
    assert "No such file" in only(recipe_cache.recipes()).fact
    key.write_bytes(b"abc")
    key.chmod(0o600)
    finding = only(recipe_cache.recipes())
    assert finding.status == "problem" and "fewer than 16 bytes" in finding.fact and finding.remedy
    key.write_bytes(b"0123456789abcdef")
    assert only(recipe_cache.recipes()).status == "ok"


def test_a_folder_that_is_not_there_yet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(folder / "a" / "b"))
    assert only(recipe_cache.recipes()).status == "ok"
    (folder / "file").touch()
    for path in (folder / "file", folder / "file" / "below"):
        monkeypatch.setenv("TF_RECIPE_CACHE_PATH", str(path))
        finding = only(recipe_cache.recipes())
        assert finding.status == "problem" and "TF_RECIPE_CACHE_PATH" in finding.remedy, finding
