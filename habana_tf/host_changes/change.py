"""The one way in which an attribute of TensorFlow, Keras or PyTorch gets another value while HPU is loaded.

A `Change` names the attribute and makes the new value of the one it has. Those that belong together are a `Group`: it
has the reason, what it is worth, and the name that HABANA_SIM_CHANGES knows it by.

Invariants: an attribute is changed once, however often `install` is called, and `undo` gives its value back; a module
that is not imported yet is changed right after its import; an attribute that is not there is an error where numbers
depend on it, and elsewhere a line of the log.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from habana_tf import settings
from habana_tf.hardware.device_state import LoadError
from habana_tf.host_changes.after_import import cancel, when_imported

_log = logging.getLogger("habana_tf")


class ChangeError(LoadError):
    """The framework has not the attribute that right numbers depend on."""


@dataclass(frozen=True)
class Framework:
    """A framework. package: what it is imported by. prefix: of the names of its changes in HABANA_SIM_CHANGES.
    listing: the command that prints them. remedy: what to install where an attribute is missing."""

    name: str
    package: str
    prefix: str
    listing: str
    remedy: str


TENSORFLOW = Framework(
    "TensorFlow", "tensorflow", "", "habana-tf info --changes",
    "a release from 2.15 to 2.21 (pip install 'tensorflow>=2.15,<2.22')",
)  # fmt: skip
PYTORCH = Framework(
    "PyTorch", "torch", "torch.", "habana-tf info --changes --framework torch",
    "a release from 2.10 to 2.14 (pip install 'torch>=2.10,<2.15')",
)  # fmt: skip


def _nothing(started: bool) -> None:
    pass


@dataclass(frozen=True)
class Change:
    """An attribute, and the new value of it.

    module: the module it is in; that of a package that is not installed is never changed. attribute: its name there,
    with dots ("Context.config"). make: gives the new value, of the present one.
    """

    module: str
    attribute: str
    make: Callable[[Any], Any]

    @property
    def target(self) -> str:
        """What is changed, for people."""
        return f"{self.module}.{self.attribute}"


@dataclass(frozen=True)
class Group:
    """Changes that are made or left out together.

    why: what goes wrong, or is slow, without them. worth: what was measured; empty where numbers or errors depend on
    it. numbers: whether numbers depend on it. only: what has the attributes ("Keras 2"); empty for every release.
    begin: is called after the changes, with whether the framework had run ops before. end: is called before they are
    undone.
    """

    name: str
    why: str
    changes: tuple[Change, ...]
    worth: str = ""
    numbers: bool = False
    only: str = ""
    begin: Callable[[bool], None] = _nothing
    end: Callable[[], None] = lambda: None
    framework: Framework = TENSORFLOW

    @property
    def title(self) -> str:
        """Its name for users, as HABANA_SIM_CHANGES takes it."""
        return self.framework.prefix + self.name

    @property
    def kind(self) -> str:
        """What it serves: numbers, speed, or users (errors, reports, what a program may ask for)."""
        return "numbers" if self.numbers else "speed" if self.worth else "users"


@dataclass
class _Made:
    """What was changed for a group, to be given back: owner, name, value, and whether the owner itself had it."""

    values: list[tuple[Any, str, Any, bool]] = field(default_factory=list)
    changed: set[Change] = field(default_factory=set)


_made: dict[str, _Made] = {}


def wanted(groups: Sequence[Group], framework: Framework) -> list[Group]:
    """Those that HABANA_SIM_CHANGES leaves. Raises SettingError for a name that is none of theirs."""
    said = settings.HABANA_SIM_CHANGES.get()
    if said == ("off",):
        return []
    names = [name for name in said if ("." in name) == bool(framework.prefix)]
    known = {group.title for group in groups}
    wrong = [name for name in names if name.removeprefix("-") not in known]
    without = {name[1:] for name in names if name[0] == "-"}
    if wrong or 0 < len(without) < len(names):
        raise settings.SettingError(
            f"HABANA_SIM_CHANGES={','.join(said)}: names of the changes to make, or each with a minus to leave them "
            f"out (`{framework.listing}` lists them); {wrong[0] if wrong else 'both kinds'} will not do"
        )
    return [group for group in groups if not names or (group.title not in without if without else group.title in names)]


def install_wanted(groups: Sequence[Group], chosen: Sequence[Group], started: bool = False) -> None:
    """Makes those of some groups that are chosen. Says which are not, and what numbers lack for it. Raises ChangeError.
    started: whether the framework had run ops before."""
    for group in groups:
        if group in chosen:
            install(group, started)
    left_out = [group for group in groups if group not in chosen]
    if left_out:
        _log.warning("HABANA_SIM_CHANGES leaves out %s", ", ".join(group.title for group in left_out))
    for group in left_out:
        if group.numbers:
            _log.warning("without %s %s", group.name, group.why)


def is_made(group: Group) -> bool:
    """Whether it is installed."""
    return group.name in _made


def install(group: Group, started: bool = False) -> None:
    """Makes the changes of a group, or has them made when their modules are imported. A second call does nothing.

    Raises ChangeError where numbers depend on an attribute that is not there.
    """
    if group.name in _made:
        return
    _made[group.name] = _Made()
    try:
        for change in group.changes:
            if group.numbers:
                _import(group, change)
            when_imported(change.module, _changing(group, change))
        group.begin(started)
    except BaseException:
        undo(group)
        raise


def undo(group: Group) -> None:
    """Gives every attribute of a group its value back."""
    made = _made.get(group.name)
    if made is None:
        return
    group.end()
    for change in group.changes:
        cancel(change.module, _changing(group, change))
    while made.values:
        owner, name, value, own = made.values.pop()
        if own:
            setattr(owner, name, value)
        else:
            delattr(owner, name)
    del _made[group.name]


def _import(group: Group, change: Change) -> None:
    try:
        importlib.import_module(change.module)
    except ImportError:
        raise _error(group, change) from None


def _error(group: Group, change: Change) -> ChangeError:
    framework = group.framework
    version = getattr(importlib.import_module(framework.package), "__version__", "")
    return ChangeError(
        f"{framework.name} {version} has no {change.target}, on which right numbers depend (without, {group.why}): "
        f"install {framework.remedy}, or leave it out (HABANA_SIM_CHANGES=-{group.title})"
    )


@dataclass(frozen=True)
class _changing:
    """Makes a change in its module. Equal for equal changes, so that one that waits can be cancelled."""

    group: Group
    change: Change

    def __call__(self, module: ModuleType) -> None:
        group, change = self.group, self.change
        made = _made[group.name]
        if change in made.changed:
            return
        made.changed.add(change)
        try:
            owner, name = _owner(module, change)
            value = getattr(owner, name)
        except AttributeError:
            if group.numbers:
                raise _error(group, change) from None
            package = module.__name__.split(".")[0]
            version = getattr(sys.modules[package], "__version__", "")
            level = logging.DEBUG if group.only else logging.INFO  # another Keras has no use for it
            _log.log(level, "%s %s: no %s, so %s is left out", package, version, change.target, group.name)
            return
        own = name in vars(owner) or isinstance(owner, ModuleType)  # a module of settings keeps them elsewhere
        made.values.append((owner, name, value, own))
        setattr(owner, name, change.make(value))


def _owner(module: ModuleType, change: Change) -> tuple[Any, str]:
    """What has the attribute, and its name there. Raises AttributeError where it is not there."""
    *path, name = change.attribute.split(".")
    owner: Any = module
    for part in path:
        owner = getattr(owner, part)
    getattr(owner, name)
    return owner, name
