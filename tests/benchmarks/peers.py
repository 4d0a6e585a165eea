"""Other ways to train on this processor, each in an environment of its own that is made when it is first asked for.

`itex` is Intel's extension for TensorFlow: the same worker and models, other kernels. `torch` is PyTorch, eager and
compiled: the models of `torch_models.py`, which are checked to have as many parameters as ours.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = HERE.parents[1] / "build" / "peers"


@dataclass(frozen=True)
class Peer:
    """requirements: what its environment has. modes: columns of the comparison, with the worker's option --device.
    models: those it has, None for all."""

    requirements: tuple[str, ...]
    worker: str
    modes: dict[str, str]
    models: tuple[str, ...] | None = None


PEERS = {
    "itex": Peer(
        ("intel-extension-for-tensorflow[cpu]==2.15.0.0", "tensorflow==2.15.1"), "worker.py", {"itex": "default"}
    ),
    "torch": Peer(
        ("torch==2.13.0", "numpy"), "torch_worker.py", {"torch": "eager", "torch.compile": "compile"},
        ("mlp", "lenet", "resnet50", "mobilenetv2", "vit", "bert", "lstm"),
    ),
}  # fmt: skip
MODES = {mode: (peer, device) for peer, how in PEERS.items() for mode, device in how.modes.items()}


def modes(names: Sequence[str], model: str) -> list[str]:
    """The columns of these peers for a model."""
    having = [name for name in names if model in (PEERS[name].models or (model,))]
    return [mode for mode, (peer, _) in MODES.items() if peer in having]


def command(mode: str) -> list[str]:
    """How a worker of this mode is started, with its option for the device."""
    peer, device = MODES[mode]
    return [str(python(peer)), str(HERE / PEERS[peer].worker), "--device", device]


def python(name: str) -> Path:
    """The interpreter of a peer's environment. Raises CalledProcessError if it cannot be installed."""
    folder = ENVIRONMENTS / name
    found, done = folder / "bin" / "python", folder / ".installed"
    wanted = "\n".join(PEERS[name].requirements)
    if not done.exists() or done.read_text() != wanted:
        print(f"Setting up {' '.join(PEERS[name].requirements)} in {folder} (once)", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(found), "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
        subprocess.run([*install, *PEERS[name].requirements], check=True)
        done.write_text(wanted)
    return found
