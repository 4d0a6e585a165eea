"""Finds the Pythons of this machine, one of each release that habana_tf is for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

RELEASES = ("3.10", "3.11", "3.12", "3.13")


def pythons() -> dict[str, Path]:
    """The interpreter of each release that is installed here: on PATH, or by pyenv."""
    found = {}
    versions = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    for release in RELEASES:
        named = shutil.which(f"python{release}")
        candidates = [Path(named)] if named else []
        candidates += sorted(versions.glob(f"{release}.*/bin/python{release}"), reverse=True)
        for python in candidates:
            said = subprocess.run([python, "--version"], capture_output=True, text=True)
            if said.returncode == 0 and said.stdout.startswith(f"Python {release}."):
                found[release] = python
                break
    return found
