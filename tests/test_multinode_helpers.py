"""Ranks without MPI, as Habana's scripts ask for them."""

from __future__ import annotations

import pytest

from habana_tf import multinode_helpers, settings


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for setting in settings.declared():
        monkeypatch.delenv(setting.name, raising=False)


def _all() -> tuple[int, int, int, int]:
    helpers = multinode_helpers
    return helpers.comm_rank(), helpers.comm_size(), helpers.comm_local_rank(), helpers.comm_local_size()


def test_without_a_launcher_there_is_one_process() -> None:
    assert _all() == (0, 1, 0, 1)


def test_under_mpirun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RANK", 5), ("SIZE", 16), ("LOCAL_RANK", 1), ("LOCAL_SIZE", 4)):
        monkeypatch.setenv(f"OMPI_COMM_WORLD_{name}", str(value))
    assert _all() == (5, 16, 1, 4)
