"""Builds the archive of the sources and wheels for each Python of this machine, and checks them: `make dist`.

    python -m release.dist [--out dist] [--pythons 3.10 3.11] [--minutes 10]

A wheel is built from the archive, in pip's isolation, and so without TensorFlow. auditwheel gives it the tag of the
oldest glibc that its symbols allow, which is that of the machine that builds it: wheels for others are built in the
container that .github/workflows/ci.yml names. TensorFlow's libraries are left out of that, because a process that loads
the plugin has them. There is a wheel for each Python: the stable ABI begins with 3.12 (nanobind), and would save one of
four.

Wheels for AArch64 are built beside those of this machine where there is a cross compiler (`cmake/aarch64.cmake`). Their
recipes are compiled for that architecture; nothing of them runs here.

Then the wheels are tried beside TensorFlow (see `matrix`), for so many minutes, and docs/install.md gets the results.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release import archives, matrix
from release.pythons import RELEASES, pythons

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = ROOT / "release" / "torch_plugin"
"""A distribution beside ours, for programs that ask pip for the version of Habana's bridge."""
CROSS = ROOT / "cmake" / "aarch64.cmake"
CROSS_COMPILER = "aarch64-linux-gnu-g++"
OF_TENSORFLOW = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")


def run(*command: object, cwd: Path = ROOT, **environment: str) -> None:
    """Runs a command, with these variables. Raises SystemExit with its output where it fails."""
    environment = {**os.environ, **environment}
    done = subprocess.run([str(each) for each in command], cwd=cwd, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-4000:]}")


def build(out: Path, releases: list[str]) -> list[Path]:
    """The archive of the sources and the wheels, in `out`, whose earlier ones are removed."""
    out.mkdir(exist_ok=True)
    for old in (*out.glob("habana_t*.whl"), *out.glob("habana_tf-*.tar.gz")):
        old.unlink()
    run(sys.executable, "-m", "build", "--sdist", "--outdir", out, ROOT)
    (source,) = out.glob("habana_tf-*.tar.gz")
    made = [source]
    for architecture in architectures():
        for release, python in pythons().items():
            if release in releases:
                made.append(wheel(source, python, release, architecture, out))
                print(f"built {made[-1].name}", flush=True)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", out, PLUGIN)
    return made


def architectures() -> list[str]:
    """Those that wheels are built for: this machine's, and AArch64 where there is a compiler for it."""
    here = platform.machine()
    if here == "aarch64":
        return [here]
    if shutil.which(CROSS_COMPILER) is None:
        print(f"no wheels for AArch64: {CROSS_COMPILER} is not installed (Debian: g++-aarch64-linux-gnu)", flush=True)
        return [here]
    return [here, "aarch64"]


def wheel(source: Path, python: Path, release: str, architecture: str, out: Path) -> Path:
    """Builds the wheel of a Python for an architecture from the archive of the sources, into `out`."""
    with tempfile.TemporaryDirectory() as folder:
        options, variables = across(release, architecture) if architecture != platform.machine() else ([], {})
        command = [python, "-m", "pip", "wheel", "-q", "--no-deps", *options, "-w", folder, source]
        run(*command, cwd=Path(folder), **variables)
        (built,) = Path(folder).glob("*.whl")
        left_out = [word for each in OF_TENSORFLOW for word in ("--exclude", each)]
        run(sys.executable, "-m", "auditwheel", "repair", *left_out, "-w", Path(folder, "repaired"), built)
        (repaired,) = Path(folder, "repaired").glob("*.whl")
        return Path(shutil.copy(repaired, out))


def across(release: str, architecture: str) -> tuple[list[str], dict[str, str]]:
    """(pip's options, variables) of a build for another architecture. The platform is told to the build alone: pip
    would read the same variable, and get tools for that platform."""
    options = ["--config-settings", f"env._PYTHON_HOST_PLATFORM=linux-{architecture}"]
    suffix = f".cpython-{release.replace('.', '')}-{architecture}-linux-gnu.so"
    return options, {"CMAKE_TOOLCHAIN_FILE": str(CROSS), "SETUPTOOLS_EXT_SUFFIX": suffix}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    parser.add_argument("--pythons", nargs="+", choices=RELEASES, default=list(RELEASES))
    parser.add_argument("--minutes", type=float, default=10, help="for trying wheels beside TensorFlow; 0 tries none")
    options = parser.parse_args()
    made = build(options.out.resolve(), options.pythons)
    run(sys.executable, "-m", "twine", "check", "--strict", *made)
    print("twine check: right")
    if archives.main([str(each) for each in made]):
        return 1
    return matrix.run([each for each in made if each.suffix == ".whl"], options.minutes)


if __name__ == "__main__":
    sys.exit(main())
