"""Keras 2 with its changes and without: for scripts that compare the two, and for the tests that run them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from habana_tf.host_changes.change import install, undo
from habana_tf.tensorflow.changes.keras2.recurrent import RECURRENT
from habana_tf.tensorflow.changes.keras2.tracing import TRACING
from tests import forked
from tests.child import environment

CHANGED = RECURRENT, TRACING
Seen = dict[str, list[dict[str, Any]]]
"""{case: [with it, without it]}"""
Case = Callable[[], Any]


def both_ways(cases: Mapping[str, Case], seen: Callable[[Case], dict[str, Any]], names: Sequence[str]) -> None:
    """Prints what was seen of these cases as JSON; of all, if there are no names."""
    out = {}
    for name in names or cases:
        out[name] = pair = []
        for change in (install, undo):
            for group in CHANGED:
                change(group)
            pair.append(seen(cases[name]))
    print(json.dumps(out))


def of_script(script: Path, names: Sequence[str] = ()) -> Seen:
    """What such a script prints."""
    done = forked.run([str(script), *names], environment(), timeout=600, hpu=True)
    assert done.returncode == 0, done.stderr[-4000:]
    found: Seen = json.loads(done.stdout.splitlines()[-1])
    return found
