"""Which module of `habana_tf/tensorflow/lowering` an op belongs in, by rules over its name and TensorFlow's family of
it.

TensorFlow's families are the files that define an op's Python function (`gen_math_ops`, `gen_array_ops`, ...). Modules
here group ops by what their lowerings have in common, so that one family of TensorFlow's is several modules. The rules
hold for every op that has a row (a test compares them), and tell where a missing one would go.
"""

from __future__ import annotations

import re

RULES: tuple[tuple[str, str], ...] = (
    (r"/Xla", "xla"),
    (r"Quanti[sz]|FakeQuant|uniform_quant/", "quantization"),
    (r"^training/", "optimizers"),
    (r"/ResourceGatherNd$", "indexing"),
    (r"^(resource_variable|state)/|/Resource", "variables"),
    (r"random/|^candidate_sampling/|/Sobol", "random"),
    (r"[Bb]incount|/Bucketize|/(Lower|Upper)Bound|/Histogram", "bins"),
    (r"Segment|/SparseTensorDenseMatMul", "segments"),
    (r"^(sparse|set|count)/", "sparse"),
    (r"[Rr]agged", "ragged"),
    (r"^rnn/", "recurrent"),
    (r"^spectral/|^audio/", "spectral"),
    (r"Depthwise", "depthwise"),
    (r"/(Batch|Sparse)?MatMul|/Einsum", "contraction"),
    (r"Conv[23]D|/Conv$", "convolution"),
    (r"^linalg/", "linalg"),
    (r"Dilation2D|Pool", "pooling"),
    (r"BatchNorm", "normalization"),
    (r"/LRN", "lrn"),
    (r"CrossEntropy|/CTCLoss", "loss"),
    (r"/(Sum|Prod|Max|Min|All|Any|Mean|EuclideanNorm|ArgMax|ArgMin|L2Loss)$|/Cum", "reduction"),
    (r"^special_math/|/(Digamma|Ndtri|Erfinv|Zeta|Polygamma|Igamma|Betainc)", "special"),
    (r"^(array|data_flow|nn)/.*(Gather|Scatter|Stitch|Partition|TopK|Nth|InvertPerm|ReverseSeq|Unique)", "indexing"),
    (r"/ListDiff|/UnravelIndex", "indexing"),
    (r"Diag|BandPart", "diagonals"),
    (r"Patches", "patches"),
    (r"/Resize|/ScaleAndTranslate", "resize"),
    (r"/Crop|/ImageProjective|Glimpse", "crops"),
    (r"/RGB|/HSV|/Adjust", "color"),
    (r"^image/", "boxes"),
    (r"/(Mirror)?Pad|/SpaceTo|ToSpace", "layout"),
    (r"Slice|^array/Reverse|/Roll$", "slicing"),
    (r"/Bias|Softmax", "nn"),
    (r"/Bitcast$", "math"),
    (r"^array/(Concat(V2)?|Pack|Unpack|SplitV?)$", "joining"),
    (r"^array/|/(Range|LinSpace)$", "array"),
    (r"^(math|nn|bitwise)/", "math"),
)
"""The first that matches "family/Op" gives the module."""


def module_of(op: str, family: str) -> str | None:
    """The module of an op's lowering, which may be one that is not there yet. None: no rule knows.

    family: TensorFlow's, as in `gen_<family>_ops`.
    """
    name = f"{family}/{op}"
    return next((module for pattern, module in RULES if re.search(pattern, name)), None)
