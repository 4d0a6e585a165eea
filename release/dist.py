"""Builds the archive of the sources and a wheel for each Python of this machine, and checks them: `make dist`.

    python -m release.dist [--out dist] [--pythons 3.10 3.11] [--minutes 10]

A wheel is built from the archive, in pip's isolation, and so without TensorFlow. auditwheel gives it the tag of the
oldest glibc that its symbols allow, which is that of the machine that builds it: wheels for others are built in the
container that .github/workflows/ci.yml names. TensorFlow's libraries are left out of that, because a process that loads
the plugin has them. There is a wheel for each Python: the stable ABI begins with 3.12 (nanobind), and would save one of
four.

Then the wheels are tried beside TensorFlow (see `matrix`), for so many minutes, and docs/install.md gets the results.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from release import archives, matrix
from release.pythons import RELEASES, pythons

ROOT = Path(__file__).resolve().parents[1]
OF_TENSORFLOW = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")


def run(*command: object, cwd: Path = ROOT) -> None:
    """Runs a command. Raises SystemExit with its output where it fails."""
    done = subprocess.run([str(each) for each in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{(done.stdout + done.stderr)[-4000:]}")


def build(out: Path, releases: list[str]) -> list[Path]:
    """The archive of the sources and the wheels, in `out`, whose earlier ones are removed."""
    out.mkdir(exist_ok=True)
    for old in (*out.glob("habana_tf-*.whl"), *out.glob("habana_tf-*.tar.gz")):
        old.unlink()
    run(sys.executable, "-m", "build", "--sdist", "--outdir", out, ROOT)
    (source,) = out.glob("habana_tf-*.tar.gz")
    made = [source]
    for release, python in pythons().items():
        if release not in releases:
            continue
        with tempfile.TemporaryDirectory() as folder:
            run(python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source, cwd=Path(folder))
            (wheel,) = Path(folder).glob("*.whl")
            left_out = [word for each in OF_TENSORFLOW for word in ("--exclude", each)]
            run(sys.executable, "-m", "auditwheel", "repair", *left_out, "-w", Path(folder, "repaired"), wheel)
            (repaired,) = Path(folder, "repaired").glob("*.whl")
            made.append(Path(out, repaired.name))
            made[-1].write_bytes(repaired.read_bytes())
        print(f"built {made[-1].name}", flush=True)
    return made


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
