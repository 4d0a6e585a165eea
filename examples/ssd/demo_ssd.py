"""Starts ssd.py on one card or on several.

    python examples/ssd/demo_ssd.py -e 10 -b 32 -d bf16 --model_dir ssd_run --hvd_workers 2

The arguments are those of the launcher of this name; what it does not know goes to ssd.py. Its workers ran under
`mpirun`, these under `habana-tf run`: Horovod's ranks all the same.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hvd_workers", type=int, default=1, help="cards, joined by Horovod")
    options, others = parser.parse_known_args()
    program = [str(Path(__file__).with_name("ssd.py")), *others]
    if options.hvd_workers > 1:
        several = ["run", "-n", str(options.hvd_workers), "--strategy", "horovod"]
        line = [sys.executable, "-m", "habana_tf.cli", *several, *program, "--use_horovod"]
    else:
        line = [sys.executable, *program]
    print(" ".join(line), flush=True)
    os.execv(line[0], line)


if __name__ == "__main__":
    main()
