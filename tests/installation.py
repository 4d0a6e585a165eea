"""Which habana_tf the tests test: the installed one, and it has to be that of the sources beside the tests.

Python looks in the working directory first, and the repository's root has the sources, without native code. So the
tests leave the root before they begin, from wherever they are started, and their children with them. After `make test`
a wheel is installed, a copy of the sources; after `make dev` a link to them. A copy that has fallen behind would test
yesterday's code without a word: that is an error, found before the first test.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAMPS = ".dev", ".installed"
"""What the Makefile leaves in an environment when it has installed the package there."""


def leave_the_sources() -> None:
    """Makes build/run the working directory, and the root the last place where Python looks."""
    sys.path[:] = [each for each in sys.path if each and Path(each).resolve() != ROOT] + [str(ROOT)]
    run = ROOT / "build" / "run"
    run.mkdir(parents=True, exist_ok=True)
    os.chdir(run)


def out_of_date(root: Path = ROOT, environment: Path | None = None) -> str | None:
    """What of the sources is not installed as it stands there, and what to do; None where all is."""
    environment = environment or Path(sys.prefix)
    spec = importlib.util.find_spec("habana_tf")
    if spec is None or spec.origin is None:
        return f"habana_tf is not installed in {environment}: `make dev` installs it there from these sources"
    package = Path(spec.origin).resolve().parent
    if package != root / "habana_tf":
        for source in sorted((*root.glob("habana_tf/**/*.py"), *root.glob("habana_frameworks/**/*.py"))):
            name = source.relative_to(root)
            if name.parts[1:3] == ("horovod", "startup"):  # installed beside the package, without what says so
                if name.name == "__init__.py":
                    continue
                name = Path(name.name)
            elif name.parts[1] in ("habana_dataloader", "intel_transformer_engine"):  # at the top, where scripts look
                name = name.relative_to("habana_frameworks")
            installed = package.parent / name
            if not installed.exists() or installed.read_bytes() != source.read_bytes():
                return (
                    f"{name} is not as it is installed in {package.parent}: "
                    "`make dev` makes .venv follow the sources, `make test` and `make test-latest` install them anew"
                )
    stamps = [path for path in (environment / name for name in STAMPS) if path.exists()]
    if stamps:
        built = max(path.stat().st_mtime for path in stamps)
        for source in sorted(root.glob("kernels/**/*.[ch]*")):
            if source.stat().st_mtime > built:
                return (
                    f"{source.relative_to(root)} is newer than the native code in {environment}: "
                    f"`make {'dev' if (environment / '.dev').exists() else 'test'}` builds it"
                )
    return None
