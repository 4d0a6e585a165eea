"""Every environment variable of habana_tf, declared once: `machine` and `program` have them, `habana` those of others.

What: one module constant per variable, named as the variable itself. `HABANA_SIM_CHIP.get()` reads the
environment at that moment, checks the text and returns a typed value; nothing is read at import and nothing
is remembered.

Why: scripts written for Gaudi set variables before or after `load_habana_module()`, in any order, so a value
must be read where it is used.

Invariants:
- an unset or empty variable means its default; aliases are other names, tried in order after the name itself;
- a value that is not allowed raises `SettingError`, which names the variable and what is allowed;
- no variable is in a recipe's key by itself: what it decides is, as the cluster or the target that is compiled for.
  Those that the compiler reads are listed with the reason in `resolver.key_text`; a test fails for any other.
"""

from __future__ import annotations

from habana_tf.settings import machine, program
from habana_tf.settings.environment import Setting as Setting
from habana_tf.settings.environment import SettingError as SettingError
from habana_tf.settings.environment import shown as shown
from habana_tf.settings.machine import *  # noqa: F403  # all of them
from habana_tf.settings.program import *  # noqa: F403

for _file in (machine, program):
    for _name, _value in vars(_file).items():
        if isinstance(_value, Setting):
            _value.name = _name


def declared() -> tuple[Setting[object], ...]:
    """All settings, in the order of their files."""
    return tuple(value for file in (machine, program) for value in vars(file).values() if isinstance(value, Setting))


__all__ = [
    "Setting",
    "SettingError",
    "declared",
    "shown",
    *(setting.name for setting in declared()),
]
