"""Loads HPU when Horovod is imported, and replaces Horovod's `init` and `broadcast_` beside HPU.

Habana's own Horovod loads the device in `hvd.init()`, and scripts rely on that: they import TensorFlow and Horovod, and
never call `load_habana_module()`. So importing Horovod loads HPU, or logs once why not, if the program asks for HPU: it
sets one of Habana's variables (`habana_variables.asks_for_hpu`), or imports habana_tf or habana_frameworks before
`hvd.init()`. HABANA_SIM_HOROVOD=off leaves loading to the script. Without any of these Horovod is not changed.

- `hvd.init()` without a launcher: the Open MPI of the package index looks for its own parts where it was built and
  aborts the process. While `init()` runs, the environment variables that name its directory are set.
- `hvd.broadcast_()`, and with it `broadcast_variables(inplace=True)`: Horovod writes into the memory of a variable and
  has kernels for that on CPU and GPU only. Variables on HPU are broadcast and assigned, as without `inplace`.
"""

from __future__ import annotations

import functools
import importlib.machinery
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import Any

from habana_tf import log, settings
from habana_tf.host_changes.change import Change, Group, install
from habana_tf.settings import habana as habana_variables
from habana_tf.settings.environment import kept

_log = logging.getLogger(__name__)
_OPS = "horovod.tensorflow.mpi_ops"
_MPI_PLACE = ("OPAL_PREFIX", "PMIX_INSTALL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")
"""Where Open MPI 4 and 5 and their parts look for themselves."""
_tried = False


def watched(name: str, in_use: bool) -> tuple[importlib.machinery.ModuleSpec | None, bool]:
    """The specification of Horovod's ops, and whether HPU is wanted: then `adopt` and loading follow their import.

    in_use: whether a module of ours was imported before Horovod.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or not (in_use or habana_variables.asks_for_hpu()):
        return spec, in_use
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        adopt()
        _load()

    loader.exec_module = exec_module
    return spec, True


def adopt() -> None:
    """Replaces `init` and `broadcast_` of an imported Horovod in all modules that have them. A second call does
    nothing."""
    ops = sys.modules.get(_OPS)
    if ops is None:
        return
    modules = [(name, vars(module)) for name, module in sys.modules.items() if name.split(".")[0] == "horovod"]
    changes = [
        Change(module, name, make)
        for name, make in (("init", _init), ("broadcast_", _broadcast_))
        for module, names in modules
        if name in vars(ops) and names.get(name) is vars(ops)[name]
    ]
    install(Group("horovod", "init() aborts without mpirun, and broadcast_() has no kernel on HPU", tuple(changes)))


def _enabled() -> bool:
    try:
        return settings.HABANA_SIM_HOROVOD.get()
    except settings.SettingError as error:
        _log.warning("%s", error)
        return True


def _load() -> None:
    """Loads HPU, once; a failure is a warning, because the script asked for Horovod and gets it."""
    global _tried
    if _tried or not _enabled():
        return
    _tried = True
    from habana_tf import loader

    if loader.is_loaded():
        return
    try:
        loader.load_habana_module()
    except Exception as error:
        with suppress(settings.SettingError):
            log.configure()
        _log.warning(
            "Horovod: HPU is not loaded, this program runs on the CPU: %s (HABANA_SIM_HOROVOD=off leaves loading to "
            "the program)", error
        )  # fmt: skip


def _init(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def init(*args: Any, **kwargs: Any) -> Any:
        _load()
        with _mpi_finds_itself():
            return original(*args, **kwargs)

    return init


def _broadcast_(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def broadcast_(variables: Any, root_rank: Any, name: str | None = None, **kwargs: Any) -> Any:
        from tensorflow.python.ops import resource_variable_ops

        from habana_tf import loader

        variables = list(variables)
        resources = all(resource_variable_ops.is_resource_variable(each) for each in variables)
        if not loader.is_loaded() or not resources or all("CPU" in each.device for each in variables):
            return original(variables, root_rank, name, **kwargs)
        return _broadcast_and_assign(variables, root_rank, name, **kwargs)

    return broadcast_


def _broadcast_and_assign(variables: list[Any], root_rank: Any, name: str | None, **kwargs: Any) -> list[Any]:
    """What `broadcast_` gives, the variables' new values, without writing into their memory."""
    import tensorflow as tf

    broadcast = sys.modules[_OPS].broadcast
    done = []
    for number, variable in enumerate(variables):
        own = f"{name}_{number}" if name else None
        value = broadcast(variable, root_rank, name=own, **kwargs)
        done.append(variable.assign(value, read_value=False))
    with tf.control_dependencies([op for op in done if op is not None]):
        return [variable.read_value() for variable in variables]


@contextmanager
def _mpi_finds_itself() -> Iterator[None]:
    """Sets the variables that name the place of this process's Open MPI, where they are not set and it is complete.

    Afterwards the variables are as before: programs that are started later may use another Open MPI.
    """
    prefix = None if os.environ.get("OPAL_PREFIX") else _mpi_prefix()
    added = [name for name in _MPI_PLACE if name not in os.environ] if prefix is not None else []
    with kept(*added):
        os.environ.update(dict.fromkeys(added, str(prefix)))
        yield


def _mpi_prefix() -> str | None:
    """The directory that the loaded libmpi belongs to, if the daemon and the texts of an Open MPI are there too."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/libmpi.so" in line}
    except (OSError, IndexError):
        return None
    for path in sorted(paths):
        prefix = os.path.dirname(os.path.dirname(os.path.realpath(path)))
        daemon = any(os.access(os.path.join(prefix, "bin", name), os.X_OK) for name in ("orted", "prted", "prte"))
        if daemon and os.path.isdir(os.path.join(prefix, "share", "openmpi")):
            return prefix
    return None
