"""Every command of README.md and CONTRIBUTING.md works as it is printed there, and so do those of four pages in docs/;
tests/documentation/test_guides.py runs those of the other guides.

Blocks of commands are run by a shell, in a folder that has the repository's examples and `.venv`, the names that the
documents use (`train.py`, ...), and a home of its own; Python blocks are run, or compared with the source they quote.
What is not run in `make test` has its reason in `LATER`, and is run by `make test-all` in a copy of the tree, or in
`NEVER`; a command of an unknown program is an error, and so is an entry of a list that no document has. Blocks that
start four processes at a time, or train, are in `make test-all` too.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from habana_tf.tensorflow.graph.reasons import Reason
from tests.child import environment
from tests.versions import KERAS_3, needs_horovod

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "docs/guides/several-cards.md", "docs/guides/cards.md")
PROGRAMS = (
    "make", "pip", "python", "habana-tf", "hl-smi", "mpirun", "horovodrun", ".ci/run", ".venv/bin/", ".venv-torch/bin/",
    "build/fuzz/", "export", "HABANA_", "HOROVOD_", "TF_",
)  # fmt: skip

LATER = {
    "make demo": "builds and installs first; takes two trainings",
    "make lint": "reads the whole source twice, and is a step of CI of its own",
    "habana-tf check": "tests/cli/check runs it, and what it is made of",
    "make dev": "builds, and puts the sources in the place of the wheel",
    ".venv/bin/pytest tests/tensorflow/lowering/test_reduction.py -k l2_loss": "tests within a test, on those sources",
    ".venv/bin/pytest tests/tensorflow/clusters/test_refusals.py tests/tensorflow/lowering/test_named.py "
    "tests/missing_ops/test_families.py": "tests within a test, on those sources",
    'make test ARGS="-k pooling"': "tests within a test",
    "make test ARGS=tests/ir": "tests within a test",
    "make docs": "writes docs/ops.md, which another test compares with the table, and builds the site",
    ".venv/bin/pytest tests/documentation": "tests within a test, on those sources",
    "make docs-reports": "writes a page that tests/documentation/test_printed.py compares with what is printed",
    "make docs-values": "writes a table of docs/special-values.md, which another test compares with what is computed",
    "make bench ARGS=--help": "builds and installs first",
    "habana-tf predict examples/train_digits.py": "tests/dry_run/test_script.py predicts a smaller script",
}
NEVER = {
    "python -m release.notes VERSION": "a version to fill in; tests/release/test_documents.py does it",
    "make site": "installs what builds it; a step of CI of its own",
    "make test": "this test is in it",
    "make test-latest": "all tests again; CI runs it",
    "make docs-torch": "minutes, in an environment of its own; tests/torch/test_opinfo.py compares what needs no run",
    "make test-torch-all": "minutes, in an environment of its own",
    "make .venv-torch/.installed": "makes that environment, for make test-torch",
    ".venv-torch/bin/python tests/torch/opinfo_report.py --ops frac": "tests/torch/test_documents.py does it",
    '.venv-torch/bin/python -c "\nimport torch, habana_frameworks.torch\n'
    "print(torch.randn(4, device='hpu').frac())\"": "tests/torch/test_documents.py does it",
    'python -c "import torch; print(torch.ops.aten.frac.default._schema)"': "wants PyTorch, as the two before",
    "make test-torch": "an environment and tests of its own; CI runs it",
    "make test-networks": "hours; CI runs a sixth each day",
    "make test-all": "this test is in it",
    "make bench": "measures, for minutes, a machine that nobody else may use",
    'make bench ARGS="--models warmstart"': "measures, as above; tests/benchmarks has its parts",
    "make sanitize": "builds anew and takes minutes; the script judges itself by a planted race",
    "python tests/benchmarks/examples.py": "measures, as above; tests/benchmarks has its parts",
    "python tests/benchmarks/single_ops.py": "measures, as above; tests/benchmarks has its parts",
    "python tests/benchmarks/torch_single_ops.py": "measures, as above; tests/benchmarks has its parts",
    "python tests/benchmarks/torch_sizes.py": "measures, as above; tests/benchmarks has its parts",
    "python tests/benchmarks/torch_float8.py": "measures, as above; tests/benchmarks has its parts",
    "python tests/benchmarks/sum_errors.py": "tests/compiler/test_sum_errors.py holds what it shows",
    'make bench ARGS="--models scaling"': "measures, as above; tests/benchmarks has its parts",
    'make bench ARGS="--framework torch"': "measures, as above; tests/benchmarks has its parts",
    ".venv/bin/cmake -S . -B build/fuzz -DHABANA_FUZZ=ON && .venv/bin/cmake --build build/fuzz": (
        "tests/test_fuzz_programs.py does it"
    ),
    "build/fuzz/fuzz_programs 1000000 7": "tests/test_fuzz_programs.py does it with fewer",
    "python -m tests.compiler.lying_recipes 500 7": "tests/compiler/test_lying_recipes.py does it",
    ".venv/bin/python -m tests.missing_ops": "tests/missing_ops/test_missing.py does it",
    "make ir-record": "compiles all networks; tests/test_ir_digests.py has its parts",
    "make ir-compare": "compiles all networks; tests/test_ir_digests.py has its parts",
    "make horovod": "compiles Horovod, which takes minutes; CI does it before the tests",
    "make garden": "downloads 220 MB; CI does it before the tests",
    "make": "names the program",
    "make PYTHON=/path/to/python": "a path to fill in",
    ".ci/run": "CI runs it",
    "pip install scikit-build-core nanobind ninja llvmlite 'cmake<4' 'setuptools<81' wheel": (
        "compiles Horovod, with the next"
    ),
    "HOROVOD_WITH_TENSORFLOW=1 pip install --no-build-isolation '.[horovod]'": "compiles Horovod, as make horovod does",
    "pip install '.[tensorflow,examples]'": "downloads TensorFlow; tests/test_source_distribution.py does its parts",
    "make dist": "builds for all Pythons that are installed, and downloads a TensorFlow for each",
    "pip cache remove horovod": "removes from the cache of whoever runs the tests",
}

SCRIPTS = {
    "train.py": "import json, os, sys\n"
    "from habana_frameworks.tensorflow.multinode_helpers import comm_rank, comm_size\n"
    "assert comm_size() in (2, 4)\n"
    "config = os.environ.get('TF_CONFIG')\n"
    "assert config is None or json.loads(config)['task']['index'] == comm_rank()\n"
    "print(comm_rank(), 'trained', flush=True)\n",
    "train_hvd.py": "import sys\n"
    "import tensorflow as tf\n"
    "import horovod.tensorflow as hvd\n"
    "hvd.init()\n"
    "assert hvd.size() in (1, 2, 4)\n"
    "total = hvd.allreduce(tf.constant(1.0), op=hvd.Sum) * 1.0\n"
    "assert float(total) == hvd.size() and total.device.endswith('HPU:0'), total.device\n"
    "print(hvd.rank(), 'trained', flush=True)\n",
}

pytestmark = pytest.mark.skipif(not (ROOT / "CONTRIBUTING.md").exists(), reason="not in a source tree")


def _without_fences(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[str]:
    """The indented blocks of a document, each as a script of the shell."""
    text = _without_fences((ROOT / document).read_text())
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") for block in found if block.strip()]


def commands(block: str) -> list[str]:
    """The commands of a block: a line each, or several where a quotation goes on; without comments."""
    out, open_lines = [], ""
    for line in block.split("\n"):
        open_lines += line
        try:
            shlex.split(open_lines, comments=True)
        except ValueError:  # a quotation is open
            open_lines += "\n"
            continue
        bare = open_lines if "\n" in open_lines else re.sub(r"\s+#.*$", "", open_lines)
        if bare.strip() and not bare.lstrip().startswith("#"):
            out.append(bare.strip())
        open_lines = ""
    assert not open_lines, block
    return out


def inline(document: str) -> list[str]:
    """What is written as code within sentences and begins with the name of a program."""
    text = "\n".join(line for line in _without_fences((ROOT / document).read_text()).split("\n") if line[:4] != "    ")
    found = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]
    names = tuple(name for name in PROGRAMS if name not in ("export", "HABANA_", "HOROVOD_", "TF_", ".venv/bin/"))
    return [code for code in found if code.split()[0] in names or code.startswith(".venv/bin/")]


def fenced() -> list[tuple[str, str]]:
    """(document, Python block). Programs for PyTorch are run by tests/torch/test_documents.py."""
    return [
        (document, block)
        for document in DOCUMENTS
        for block in re.findall(r"^```python\n(.*?)^```$", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
        if not block.startswith("import torch\n")
    ]


BLOCKS = [block for document in DOCUMENTS for block in blocks(document)] if (ROOT / "CONTRIBUTING.md").exists() else []
INLINE = sorted({each for d in DOCUMENTS for each in inline(d)}) if BLOCKS else []
TO_RUN = [block for block in BLOCKS if not any(each in LATER or each in NEVER for each in commands(block))]
RUN = {each.removeprefix(".venv/bin/") for block in TO_RUN for each in commands(block)}
LONG = re.compile("-np? 4|examples/train_digits|load_digits")  # jobs of four, trainings
WITH_HOROVOD = re.compile("horovod|mpirun|train_hvd")  # make horovod brings Open MPI too


def marked(script: str) -> Any:
    """A block or command as a parameter, skipped where it needs Horovod and there is none; what is long is `rest`."""
    marks = [needs_horovod] if WITH_HOROVOD.search(script) else []
    return pytest.param(script, marks=[*marks, pytest.mark.rest] if LONG.search(script) else marks)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where commands run."""
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "home").mkdir()
    return tmp_path


def shell(script: str, cwd: Path, timeout: float = 600) -> str:
    """Runs a script of the shell as a user would, who may be root on a machine with few cores; returns its output."""
    mpi = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
           "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}  # fmt: skip
    env = environment(HOME=str(cwd / "home"), **mpi)
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    words = ["/bin/bash", "-euo", "pipefail", "-c", script + "\nfor job in $(jobs -p); do wait $job; done\n"]
    done = subprocess.run(words, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
    return done.stdout + done.stderr


def test_every_command_is_run_or_has_its_reason() -> None:
    printed = {each for block in BLOCKS for each in commands(block)}
    unknown = {each for each in printed if not each.startswith(PROGRAMS)}
    assert not unknown, f"commands of no known program: {unknown}"
    stale = (LATER.keys() | NEVER.keys()) - printed - set(INLINE)
    assert not stale, f"no document has these any more: {stale}"
    assert len(TO_RUN) >= 5, TO_RUN


@pytest.mark.skipif(KERAS_3, reason="Horovod is for TensorFlow 2.15")
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", map(marked, TO_RUN), ids=[commands(block)[0][:40] for block in TO_RUN])
def test_a_block_of_commands(block: str, folder: Path) -> None:
    said = shell(block, folder)
    assert said.count("trained") == sum(int(n) for n in re.findall(r"(?:-n|-np) (\d+) ", block)) + len(
        re.findall(r"^python train_hvd", block, re.MULTILINE)
    ), said


@pytest.mark.parametrize("command", [marked(each) for each in INLINE if each not in {*LATER, *NEVER, *RUN}])
def test_a_command_within_a_sentence(command: str, folder: Path) -> None:
    incomplete = {"habana-tf run": " --help", "habana-tf trace": " --help", "habana-tf build-kernel": " --help",
                  "python -m habana_tf": " --help", "mpirun": " --version", "horovodrun": " --version"}  # fmt: skip
    assert shell(command + incomplete.get(command, ""), folder)


@pytest.mark.parametrize("document, block", fenced() if BLOCKS else [])
def test_a_block_of_python(document: str, block: str, folder: Path) -> None:
    """A program runs; an excerpt stands in a source file as it is quoted."""
    if "import " in block:
        (folder / "program.py").write_text(block)
        assert "HPU placement" in shell("python program.py", folder)
        return
    folders = "habana_tf/tensorflow/lowering", "habana_tf/torch/ops", "tests/tensorflow/lowering"
    sources = [path for each in folders for path in (ROOT / each).glob("*.py")]
    texts = (re.sub(r": Any(?=[,)])| -> None(?=:)", "", path.read_text()) for path in sources)
    assert any(block.strip() in text for text in texts), block


def follow(page: str, folder: Path) -> str:
    """Runs a page's blocks of commands, beside its programs (whose first line is their name); returns the output."""
    text = (ROOT / "docs" / page).read_text()
    for program, name in re.findall(r"^```python\n(# (\S+)\n.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (folder / name).write_text(program)
    return shell("\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)), folder)


@pytest.mark.rest
def test_the_page_on_placement(folder: Path) -> None:
    """It finds the node that it looks for, and explains every reason."""
    assert "\nSum total reads Cast Const\n" in follow("placement.md", folder)
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "placement.md").read_text(), re.MULTILINE)
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row)) == sorted(Reason.__members__)


@pytest.mark.rest
def test_the_reading_guide(folder: Path) -> None:
    """Its commands work, and show what it promises of each file."""
    said = follow("reading-guide.md", folder)
    for shown in ("HPU placement", "contract(%0, %1)", "define void @k0", ".Lfunc_end0", "hits on disk", "step.html"):
        assert shown in said, shown
    assert len(list((folder / "dump").iterdir())) > 5


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    """A copy of the sources and of their environment. Commands that install a package do so here: tests that run at
    the same time import the one of the environment they are in."""
    place = ROOT / "build" / f"documents-{os.getpid()}"
    left = shutil.ignore_patterns("build", ".venv*", ".git", ".hypothesis", ".*_cache", "__pycache__")
    try:
        shutil.copytree(ROOT, place, ignore=left, symlinks=True)
        if (ROOT / "build/wheel").exists():
            shutil.copytree(ROOT / "build/wheel", place / "build/wheel")
        shutil.copytree(sys.prefix, place / ".venv", symlinks=True, copy_function=os.link)
        (place / ".venv/.dev").unlink(missing_ok=True)  # it would follow the sources that are copied
        own = [path for path in (place / ".venv").iterdir() if path.is_file()]  # pyvenv.cfg and what make touches
        for path in (*own, *(place / ".venv/bin").iterdir()):
            if not path.is_symlink():
                _rewrite(path)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _rewrite(path: Path) -> None:
    """A file of its own where a link was; a script's first line names the Python beside it."""
    link = path.with_name(f".{path.name}.link")
    path.rename(link)
    shutil.copy2(link, path)
    link.unlink()
    text = path.read_bytes()
    if text.startswith(b"#!" + os.fsencode(sys.prefix)):
        first, rest = text.split(b"\n", 1)
        path.write_bytes(first.replace(os.fsencode(sys.prefix), os.fsencode(path.parents[1])) + b"\n" + rest)


@pytest.mark.rest
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("command", LATER)
def test_a_command_that_takes_long(command: str, tree: Path) -> None:
    installed = _installed()
    path = f"{tree / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
    inherited = {name: value for name, value in os.environ.items() if name != "TESTS_PART"}  # CI sets it
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=tree,
        env={**inherited, "PATH": path},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert _installed() == installed, "the command has changed the package that other tests import"


def _installed() -> dict[Path, int]:
    """What this environment has of the package, and since when."""
    return {path: path.stat().st_mtime_ns for path in Path(sysconfig.get_path("purelib")).glob("*habana*")}
