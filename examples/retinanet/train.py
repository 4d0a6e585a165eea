"""The Model Garden's own training program on HPU: `official.vision.train` with one more strategy, `hpu`.

    python examples/retinanet/train.py --experiment=retinanet_resnetfpn_coco --mode=train_and_eval --model_dir=out \\
        --config_file=examples/retinanet/shapes.yaml --params_override="{task: {...}}"
    habana-tf run -n 2 examples/retinanet/train.py ...

All arguments are the Garden's. `runtime: {distribution_strategy: hpu}`, which the configuration file has, is one card,
or all that were started. Nothing of the Garden is changed but that name.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common.start import on_the_cpu
from habana_frameworks.tensorflow.distribute import HPUStrategy

from habana_frameworks.tensorflow import load_habana_module
from habana_frameworks.tensorflow.multinode_helpers import comm_rank


def add_strategy() -> None:
    """Makes `hpu` the name of HPUStrategy among the Garden's strategies."""
    from official.common import distribute_utils

    others = distribute_utils.get_distribution_strategy

    def get_distribution_strategy(distribution_strategy: str = "mirrored", **options: Any) -> Any:
        return HPUStrategy() if distribution_strategy == "hpu" else others(distribution_strategy, **options)

    distribute_utils.get_distribution_strategy = get_distribution_strategy


def main() -> None:
    load_habana_module()
    add_strategy()
    try:
        runpy.run_module("official.vision.train", run_name="__main__", alter_sys=True)
    except SystemExit as end:  # its way to end, with 0 or None when all went well
        if end.code:
            raise
    if comm_rank() == 0:
        print(on_the_cpu(), flush=True)


if __name__ == "__main__":
    main()
