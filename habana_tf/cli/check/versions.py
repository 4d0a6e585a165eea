"""Checks of versions: Python, TensorFlow with its Keras, Horovod and MPI, and whether they fit each other.

Versions are read from the metadata of the installed packages, which takes milliseconds: that they also work is shown by
`device.py`, in a process of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from habana_tf.cli.check.finding import Finding
from habana_tf.cli.machine import version

_PYTHON = ((3, 10), (3, 13))
"""First and last Python that the package is tested with."""
_HOROVOD_TENSORFLOW = "2.15"
"""The last TensorFlow whose Keras Horovod 0.28 supports."""
_MPI_SECONDS = 10.0
_MPI_OF = {b"40": "Open MPI", b"12": "MPICH"}
"""Whose `libmpi.so.N` it is. Intel MPI is an MPICH by its library and by its variables."""


_WHEELS = ("tensorflow", "tensorflow-cpu", "tensorflow-cpu-aws")
"""Those that have TensorFlow in them; the last one is for AArch64, where `tensorflow` 2.15 has nothing but its name."""


def tensorflow_version() -> str | None:
    """Of whichever of its wheels is installed."""
    return next(filter(None, map(version, _WHEELS)), None)


def torch_version() -> str | None:
    """Of PyTorch, where it is installed."""
    return version("torch")


def release(number: str) -> tuple[int, ...]:
    """2.15.1 as (2, 15)."""
    return tuple(int(part) for part in re.findall(r"\d+", number)[:2])


def python() -> Iterator[Finding]:
    """Whether this Python is among those that are tested."""
    first, last = (".".join(map(str, bound)) for bound in _PYTHON)
    text = ".".join(map(str, sys.version_info[:3]))
    if _PYTHON[0] <= sys.version_info[:2] <= _PYTHON[1]:
        yield Finding("Python", "ok", text)
    else:
        yield Finding("Python", "problem", f"{text} is not among {first} to {last}", f"Use Python {first} to {last}.")


def tensorflow() -> Iterator[Finding]:
    """Whether there is one TensorFlow, of a release that is tested."""
    from habana_tf.loader import TESTED

    first, last = (".".join(map(str, bound)) for bound in TESTED)
    wheels = {name: number for name in _WHEELS if (number := version(name))}
    found = tensorflow_version()
    if found is None and torch_version() is not None:
        yield Finding("TensorFlow", "note", "not installed, and PyTorch is: there is no HPU for TensorFlow")
    elif found is None:
        range_ = f"tensorflow>={first},<{TESTED[1][0]}.{TESTED[1][1] + 1}"
        yield Finding(
            "TensorFlow", "problem", f"not installed in {sys.executable}", f"Run: pip install '{range_}'",
            public="not installed",
        )  # fmt: skip
    elif len(set(wheels.values())) > 1:
        named = " and ".join(f"{name} {number}" for name, number in wheels.items())
        yield Finding(
            "TensorFlow", "problem", f"{named} are installed over each other",
            f"Run pip uninstall {' '.join(wheels)}, then install one of them.",
        )  # fmt: skip
    elif not TESTED[0] <= release(found) <= TESTED[1]:
        yield Finding(
            "TensorFlow", "problem", f"{found} is not among {first} to {last}",
            f"Install one of these: pip install 'tensorflow=={last}.*'",
        )  # fmt: skip
    else:
        yield Finding("TensorFlow", "ok", found)


def torch() -> Iterator[Finding]:
    """Whether PyTorch, where it is installed, is of a release that is tested."""
    from habana_tf.torch import releases

    found = torch_version()
    if found is None:
        return
    if releases.is_tested(found):
        yield Finding("PyTorch", "ok", found)
    else:
        yield Finding(
            "PyTorch", "note", f"{found} is not among {releases.said()}: it may work, or not",
            "Install one of these: pip install 'habana_tf[torch]'",
        )  # fmt: skip


def keras() -> Iterator[Finding]:
    """Which Keras `tf.keras` is, and what follows for several workers."""
    found, number = "Keras", version("keras")
    if tensorflow_version() is None:
        return
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true") and (legacy := version("tf_keras")):
        found, number = "tf_keras", legacy
    if number is None:
        yield Finding("Keras", "problem", "not installed", "Run: pip install --force-reinstall tensorflow")
    elif release(number) >= (3,):
        yield Finding(
            "Keras", "note", f"{number}: its fit works with one worker; with several, training loops of your own do",
            "For fit with several workers install Keras 2: pip install 'tensorflow==2.15.*' (Python 3.10 or 3.11).",
        )  # fmt: skip
    else:
        yield Finding("Keras", "ok", f"{number}{' (tf_keras)' if found == 'tf_keras' else ''}")


def horovod() -> Iterator[Finding]:
    """Whether Horovod was built for this TensorFlow, which links against the symbols of one release."""
    found, here = version("horovod"), tensorflow_version()
    if found is None and here is None:
        return
    if found is None:
        yield Finding(
            "Horovod", "note", "not installed: HPUStrategy works without it",
            "Where scripts import it, run `make horovod` in the source tree (TensorFlow 2.15, Python 3.10 or 3.11).",
        )  # fmt: skip
        return
    built = _built_with()
    if here is not None and release(here) > release(_HOROVOD_TENSORFLOW):
        yield Finding(
            "Horovod", "problem", f"{found} supports the Keras of TensorFlow {_HOROVOD_TENSORFLOW} at most, and {here} "
            "is installed", f"Use TensorFlow {_HOROVOD_TENSORFLOW}, or HPUStrategy instead of Horovod.",
        )  # fmt: skip
    elif built is None:
        yield Finding("Horovod", "problem", f"{found} was built without TensorFlow", _rebuild())
    elif here is not None and release(built) != release(here):
        yield Finding("Horovod", "problem", f"{found} was built with TensorFlow {built}, and {here} is installed",
                      _rebuild())  # fmt: skip
    else:
        yield Finding("Horovod", "ok", f"{found}, built with TensorFlow {built}")


def _rebuild() -> str:
    return "Run pip uninstall horovod and pip cache remove horovod, then `make horovod` in the source tree."


def _horovod_folder() -> Path | None:
    """Where it is installed; found without importing it, which would load TensorFlow and HPU."""
    import importlib.util

    spec = importlib.util.find_spec("horovod")
    places = spec.submodule_search_locations if spec is not None else None
    return Path(places[0]) if places else None


def _built_with() -> str | None:
    """The TensorFlow that Horovod says it was built with."""
    folder = _horovod_folder()
    try:
        said = json.loads((folder / "metadata.json").read_text()) if folder else {}
    except (OSError, ValueError):
        return None
    number = said.get("tensorflow") if isinstance(said, dict) else None
    return number if isinstance(number, str) and release(number) else None


def mpi() -> Iterator[Finding]:
    """Whether mpirun is there, runs, and is of the MPI that Horovod was built with: ranks of another one each believe
    to be alone."""
    program = shutil.which("mpirun")
    if program is None:
        yield Finding(
            "MPI", "note", "no mpirun on PATH: `habana-tf run` starts jobs without it",
            "For mpirun install an MPI, such as Debian's openmpi-bin, or put its bin folder on PATH.",
        )  # fmt: skip
        return
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=_MPI_SECONDS,
                              stdin=subprocess.DEVNULL, errors="replace")  # fmt: skip
        failed = f"exit code {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        failed = f"no answer in {_MPI_SECONDS:.0f} seconds"
    except OSError as error:
        failed = error.strerror or str(error)
    if failed:
        yield Finding(
            "MPI", "problem", f"{program} --version: {failed}", "Install that MPI again, or take it off PATH."
        )
        return
    first = next((line.strip() for line in done.stdout.splitlines() if line.strip()), "says no version")
    ours = "Open MPI" if "Open MPI" in done.stdout or "open-mpi" in done.stdout else "MPICH"
    theirs = _mpi_of_horovod()
    if theirs not in (None, ours):
        yield Finding("MPI", "problem", f"{first}; but Horovod was built with {theirs}",
                      f"Put {theirs}'s mpirun first on PATH, or build Horovod again with this MPI.")  # fmt: skip
    else:
        yield Finding("MPI", "ok", first + (", as Horovod's" if theirs else ""))


def _mpi_of_horovod() -> str | None:
    """The MPI that Horovod's library was linked with; None for none, and for one that is not known here."""
    folder = _horovod_folder()
    for path in sorted(folder.glob("tensorflow/mpi_lib*.so")) if folder else ():
        found = re.search(rb"libmpi\.so\.(\d+)", path.read_bytes())
        return _MPI_OF.get(found[1]) if found else None
    return None
