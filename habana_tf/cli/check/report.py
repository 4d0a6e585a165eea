"""How findings are printed, within 80 columns but for a longer word (a path), and the lines to paste into a bug report.

Those lines have versions, this machine's CPU and memory, and which of habana_tf's own variables are set: no other
variable, no command line, and of values none that names a host, a file with a key or a folder of the user's.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterator, Sequence
from typing import Any

from habana_tf import settings
from habana_tf.cli.check.finding import Finding
from habana_tf.cli.check.host import installed_memory
from habana_tf.cli.machine import PACKAGES, version
from habana_tf.cli.output import painted
from habana_tf.hardware.calibration import cpu_facts
from habana_tf.reports.characters import encoding_of
from habana_tf.reports.table import printable, wrapped
from habana_tf.reports.units import size
from habana_tf.settings import environment as kind
from habana_tf.version import __version__

_WIDTH = 80
_NAME = 14
_MARKS = {"ok": ("ok", "green"), "note": ("note", "yellow"), "problem": ("PROBLEM", "red")}
_MARK = 9
_PRIVATE = {each.allowed for each in (kind.BF16, kind.FILE, kind.HOSTS, kind.PATH, kind.PROFILE, kind.TEXT)}
"""Kinds of settings whose values may name a place or a secret: of these it is said that they are set."""


def line(finding: Finding) -> str:
    """A finding with its remedy, in lines of 80 columns; a longer path is not broken."""
    mark, style = _MARKS[finding.status]
    indent = " " * (_MARK + _NAME)
    first = f"{mark:<{_MARK}}{finding.name:<{_NAME - 1}} "
    text = _filled(finding.fact, first, indent)
    if finding.remedy and finding.status != "ok":
        text += "\n" + _filled(finding.remedy, f"{indent}-> ", f"{indent}   ")
    return painted(mark, style) + text[len(mark) :]


def _filled(text: str, first: str, indent: str) -> str:
    """`text` in lines behind `first`, a longer word by itself; lines of its own it has none."""
    shown = " ".join(printable(text, encoding_of()).split())
    return "\n".join(wrapped(first + shown, _WIDTH, indent))


def bug_report(findings: Sequence[Finding], cpu: dict[str, Any] | None) -> list[str]:
    """The lines. cpu: what kernels use, where the compiler was reached."""
    numbers = [f"{package} {number}" for package in PACKAGES if (number := version(package)) is not None]
    kernels = f"{cpu['isa']}, {cpu['llvm_cpu']}, bf16 by {cpu['bf16_products']}" if cpu else "not known"
    model = cpu_facts().get("model name", platform.machine())
    paragraphs = [
        f"habana_tf {__version__}, Python {platform.python_version()}, {', '.join(numbers)}",
        f"{platform.system()} {platform.release()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        f"{model}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores, {size(installed_memory())}",
        f"kernels: {kernels}",
        f"variables: {', '.join(_variables()) or 'none'}",
        *(f"{each.status}: {each.name}: {_without_places(each.public or each.fact)}" for each in findings
          if each.status != "ok"),
    ]  # fmt: skip
    return [part for text in paragraphs for part in _filled(text, "", "  ").splitlines()]


def _variables() -> Iterator[str]:
    """Habana's and ours that are set, with values that cannot be a secret or name a place."""
    from habana_tf.settings import habana

    for setting in settings.declared():
        source = setting.source()
        if source is not None:
            yield f"{source}={setting.text()}" if setting.allowed not in _PRIVATE else f"{source} (set)"
    yield from (f"{name} (set)" for name in habana.set_in_vain())


def _without_places(text: str) -> str:
    """`text` with the names of variables for their values, where these name a place, and ~ for the user's folder."""
    for setting in (each for each in settings.declared() if each.allowed in _PRIVATE):
        source, value = setting.source(), setting.text()
        for spelled in (os.path.abspath(os.path.expanduser(value)), value) if value else ():
            text = _replaced(spelled, f"${source}", text)
    return _replaced(os.path.expanduser("~"), "~", text)


def _replaced(place: str, name: str, text: str) -> str:
    """`text` with a name for a place, alone or before what is below it. A single word is none, nor is the root."""
    if "/" not in place or len(place) == 1:
        return text
    return re.sub(rf"{re.escape(place)}(?![\w.-])", lambda found: name, text)
