"""A second front end brings a list of ops in primitives, buffers and a place to call: no framework is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_ALONE = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras", "tf_keras", "torch") or name.startswith("google.protobuf"):
            raise ImportError(f"{name} is not installed here")
sys.meta_path.insert(0, Missing())
"""


def _alone(script: str, cache: Path) -> Any:
    """What a script prints as JSON, in a process in which no framework can be imported."""
    settings = {"TF_RECIPE_CACHE_PATH": str(cache), "TF_CPU_RUNTIME_FALLBACK": "forbid"}
    environment = {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", _ALONE + script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


_LAYERS = """
import json
import numpy as np
from habana_tf.cache import stats
from habana_tf.card.model.lowered import launch_time
from habana_tf.hardware.chips import chip
from habana_tf.resolver.recompilations import recompilation_report
from tests.cluster.recorded import recorded, run

r = np.random.default_rng(0)
ops = [("matmul", (-1, 0), (-1, 1)), ("add", (0, 0), (-1, 2)), ("tanh", (1, 0)), ("mul", (2, 0), (0, 0))]
layer = recorded("layer", 3, ops)
worst = 0.0
for rows in (3, 5, 8, 13):
    x, w, c = (r.normal(size=s).astype("f4") for s in ((rows, 7), (7, 4), (rows, 4)))
    wanted = np.tanh(x @ w + c) * (x @ w)
    worst = max(worst, float(np.abs(run(layer, [x, w, c]).reshape(wanted.shape) - wanted).max()))
    run(recorded("one", 1, [("exp", (-1, 0))]), [x])
report = json.loads(recompilation_report().to_json())
predicted = launch_time(chip("gaudi2"), type(layer).read(layer.data), [(64, 64)] * 3, [None] * 3)[1].seconds
counts = stats().counts()
found = {"worst": worst, "report": report, "seconds": predicted}
print(json.dumps({**found, "compiled": counts.compiled, "disk": counts.disk_hits}))
"""


def test_a_front_end_without_a_framework(tmp_path: Path) -> None:
    first = _alone(_LAYERS, tmp_path)
    assert first["worst"] < 1e-5 and first["seconds"] > 0
    (layer,) = first["report"]["clusters"]
    assert layer["name"] == "layer" and layer["ops"] == 4
    assert first["compiled"] < 8, "sizes that change are one recipe for a range of them"
    again = _alone(_LAYERS, tmp_path)
    assert again["worst"] == first["worst"] and again["compiled"] == 0 and again["disk"] == first["compiled"]
