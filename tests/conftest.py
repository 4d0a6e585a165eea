"""One oracle on every machine: TensorFlow with its oneDNN kernels.

Left to itself TensorFlow asks the CPU whether to use them. The others are no oracle: FusedBatchNorm leaves outputs
uninitialised, Conv3D reads the wrong element where SAME would pad by less than nothing.
"""

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
