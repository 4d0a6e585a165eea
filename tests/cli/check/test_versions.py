"""Versions that do not fit each other are found from what is installed: real metadata, of packages made here."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from habana_tf.cli.check import versions
from habana_tf.cli.check.finding import Finding

Install = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs packages, by name and version, before those of this environment."""
    site = tmp_path / "site-packages"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "horovod", raising=False)  # which another test may have imported

    def install(**packages: str) -> None:
        for name, number in packages.items():
            info = site / f"{name}-{number}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n")
        importlib.invalidate_caches()

    return install


def only(found: Iterator[Finding]) -> Finding:
    (finding,) = found
    return finding


def built(tmp_path: Path, metadata: str, library: bytes = b"") -> None:
    """Horovod as a folder: what it says that it was built with, and its library."""
    folder = tmp_path / "site-packages" / "horovod"
    (folder / "tensorflow").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "metadata.json").write_text(metadata)
    (folder / "tensorflow" / "mpi_lib.so").write_bytes(library)
    importlib.invalidate_caches()


def test_this_python_is_fine_and_an_older_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(versions.python()).status == "ok"
    monkeypatch.setattr(versions, "_PYTHON", ((3, 99), (3, 99)))
    finding = only(versions.python())
    assert finding.status == "problem" and "3.99" in finding.remedy


@pytest.mark.parametrize("number, status", [("2.14.1", "problem"), ("2.15.0", "ok"), ("2.21.3", "ok"),
                                            ("2.22.0", "problem"), ("3.0.0rc1", "problem")])  # fmt: skip
def test_tensorflow_is_of_a_tested_release(installed: Install, number: str, status: str) -> None:
    installed(tensorflow=number)
    finding = only(versions.tensorflow())
    assert (finding.status, bool(finding.remedy)) == (status, status != "ok"), finding


def test_two_wheels_of_tensorflow_are_a_problem(installed: Install) -> None:
    installed(tensorflow="2.15.1", tensorflow_cpu="2.16.1")
    finding = only(versions.tensorflow())
    assert "tensorflow 2.15.1 and tensorflow-cpu 2.16.1 are installed over each other" in finding.fact
    assert "pip uninstall tensorflow tensorflow-cpu, then" in finding.remedy


@pytest.mark.parametrize("names", [("tensorflow", "tensorflow_cpu_aws"), ("tensorflow_cpu_aws",)], ids=len)
def test_on_aarch64_another_wheel_has_tensorflow_in_it(
    names: tuple[str, ...], installed: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site-packages")])
    installed(**dict.fromkeys(names, "2.15.1"))
    finding = only(versions.tensorflow())
    assert (finding.status, finding.fact) == ("ok", "2.15.1")


def test_no_tensorflow_is_a_problem_with_the_command_that_mends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    finding = only(versions.tensorflow())
    assert finding.status == "problem" and finding.remedy == "Run: pip install 'tensorflow>=2.15,<2.22'"
    assert list(versions.keras()) == []


@pytest.mark.parametrize("legacy, status", [("", "note"), ("1", "ok")])
def test_keras_3_fits_with_one_worker_only(
    installed: Install, monkeypatch: pytest.MonkeyPatch, legacy: str, status: str
) -> None:
    installed(tensorflow="2.21.0", keras="3.5.0", tf_keras="2.21.0")
    monkeypatch.setenv("TF_USE_LEGACY_KERAS", legacy)
    finding = only(versions.keras())
    assert finding.status == status and ("Keras 2" in finding.remedy) == (status == "note")


@pytest.mark.parametrize(
    "tensorflow, metadata, words",
    [
        ("2.15.1", '{"tensorflow": "2.15.0"}', ""),
        ("2.15.1", '{"tensorflow": "2.14.1"}', "built with TensorFlow 2.14.1, and 2.15.1 is installed"),
        ("2.15.1", '{"dummy": "none"}', "built without TensorFlow"),
        ("2.15.1", "not JSON", "built without TensorFlow"),
        ("2.21.0", '{"tensorflow": "2.21.0"}', "supports the Keras of TensorFlow 2.15 at most, and 2.21.0"),
    ],
)
def test_horovod_fits_one_tensorflow(
    installed: Install, tmp_path: Path, tensorflow: str, metadata: str, words: str
) -> None:
    installed(tensorflow=tensorflow, horovod="0.28.1")
    built(tmp_path, metadata)
    finding = only(versions.horovod())
    assert (finding.status, bool(finding.remedy)) == (("problem", True) if words else ("ok", False))
    assert words in finding.fact


OPEN, HYDRA = "mpirun (Open MPI) 4.1.8", "HYDRA build details:\n    Version: 4.2"


@pytest.mark.parametrize(
    "answer, library, status, words",
    [
        (f"echo '{OPEN}'", b"", "ok", OPEN),
        (f"echo '{OPEN}'", b"\0libmpi.so.40\0", "ok", "as Horovod's"),
        (f"echo '{OPEN}'", b"\0libmpi.so.12\0", "problem", "Horovod was built with MPICH"),
        (f"echo '{HYDRA}'", b"\0libmpi.so.40\0", "problem", "Horovod was built with Open MPI"),
        ("exit 3", b"", "problem", "exit code 3"),
        ("", b"", "ok", "says no version"),
    ],
)
def test_mpirun_runs_and_is_of_horovods_mpi(
    installed: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, library: bytes, status: str,
    words: str,
) -> None:  # fmt: skip
    built(tmp_path, "{}", library)
    program = tmp_path / "mpirun"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    finding = only(versions.mpi())
    assert finding.status == status and words in finding.fact and bool(finding.remedy) == (status != "ok"), finding


def test_without_mpirun_habana_tf_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    finding = only(versions.mpi())
    assert finding.status == "note" and "habana-tf run" in finding.fact and "openmpi" in finding.remedy


@pytest.mark.parametrize(("number", "status"), [("2.13.0", "ok"), ("2.10.1", "ok"), ("2.4.1", "note"), ("9.0", "note")])
def test_pytorch_is_of_a_tested_release_or_said_not_to_be(installed: Install, number: str, status: str) -> None:
    installed(torch=number)
    finding = only(versions.torch())
    assert finding.status == status and number in finding.fact and (status == "ok" or "2.10 to 2.14" in finding.fact)


def test_without_tensorflow_pytorch_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "version", {"torch": "2.13.0"}.get)
    assert (only(versions.tensorflow()).status, list(versions.horovod())) == ("note", [])
    monkeypatch.setattr(versions, "version", {}.get)
    assert (only(versions.tensorflow()).status, list(versions.horovod())) == ("problem", [])
