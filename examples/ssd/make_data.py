"""Writes generated shapes as COCO lays its pictures out, for `ssd.py --data_dir`.

python examples/ssd/make_data.py shapes_data
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import coco


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--size", type=int, default=128, help="of a picture's side")
    parser.add_argument("--train", type=int, default=256, help="pictures to train on")
    parser.add_argument("--val", type=int, default=64, help="pictures to evaluate on")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    coco.write(options.directory, "train", options.train, options.size, options.seed)
    coco.write(options.directory, "val", options.val, options.size, options.seed + 1)


if __name__ == "__main__":
    main()
