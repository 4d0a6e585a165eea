"""Arguments that must be scalars, vectors or matrices, or have some axes at least, by op.

TensorFlow's kernels check them one by one, each in its own code. Here they are data, checked before the lowering runs,
so that a lowering may take the one number or the list of numbers for granted.
"""

from __future__ import annotations

WORDS = ("a scalar", "a vector", "a matrix")
"""What tensors of rank 0, 1 and 2 are called."""

_SCALARS = {
    "Split SplitV": "split_dim",
    "LinSpace": "start stop num",
    "OneHot": "depth on_value off_value",
    "ConcatOffset": "concat_dim",
    "PadV2": "constant_values",
    "MatrixBandPart": "num_lower num_upper",
    "MatrixDiagV2 MatrixDiagV3": "num_rows num_cols",
    "ArgMax ArgMin": "dimension",
    "Cumsum Cumprod CumulativeLogsumexp": "axis",
    "GatherV2": "axis",
    "TopKV2": "k",
    "NthElement": "n",
    "AdjustHue": "delta",
    "AdjustSaturation": "scale",
    "AdjustContrastv2": "contrast_factor",
    "RandomUniformInt": "minval maxval",
    "StatelessRandomUniformIntV2": "minval maxval",
    "StatefulUniformInt": "minval maxval",
    "Multinomial StatelessMultinomial": "num_samples",
    "RngReadAndSkip": "alg delta",
    "RngSkip": "algorithm delta",
    "StatefulUniform StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniformInt StatefulUniformFullInt": (
        "algorithm"
    ),
    "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniformIntV2 "
    "StatelessRandomUniformFullIntV2": "alg",
    "Bincount DenseBincount": "size",
    "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad": "output_dim0",
    "SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments": (
        "num_segments"
    ),
    "UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin": "num_segments",
    "FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient": "min max",
}

_VECTORS = {
    "ResizeNearestNeighbor ResizeNearestNeighborGrad ResizeBilinear ResizeBicubic ResizeArea": "size",
    "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3": "scale offset mean variance",
    "Empty": "shape",
    "BroadcastTo": "shape",
    "Transpose ConjugateTranspose": "perm",
    "Tile": "multiples",
    "BroadcastArgs BroadcastGradientArgs": "s0 s1",
    "ConcatOffset": "shape",
    "Slice": "begin size",
    "StridedSlice StridedSliceGrad TensorStridedSliceUpdate ResourceStridedSliceAssign": "begin end strides",
    "StridedSliceGrad": "shape",
    "InvertPermutation": "x",
    "SplitV": "size_splits",
    "RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt": "shape",
    "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformInt "
    "StatelessRandomUniformFullInt": "shape seed",
    "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 StatelessRandomUniformIntV2 "
    "StatelessRandomUniformFullIntV2": "shape",
    "StatelessMultinomial StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg": "seed",
    "StatefulUniform StatefulStandardNormalV2 StatefulTruncatedNormal StatefulUniformInt StatefulUniformFullInt": (
        "shape"
    ),
    "SegmentSum SegmentProd SegmentMax SegmentMin SegmentMean": "segment_ids",
    "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments "
    "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad SparseSegmentMeanGrad "
    "SparseSegmentSqrtNGrad": "indices segment_ids",
    "MaxPoolV2 MaxPoolGradV2 MaxPoolGradGradV2": "ksize strides",
    "AvgPoolGrad AvgPool3DGrad": "orig_input_shape",
    "Conv2DBackpropInput Conv3DBackpropInputV2 DepthwiseConv2dNativeBackpropInput": "input_sizes",
    "Conv2DBackpropFilter Conv3DBackpropFilterV2 DepthwiseConv2dNativeBackpropFilter": "filter_sizes",
}

_MATRICES = {"Pad PadV2 MirrorPad MirrorPadGrad": "paddings"}

_AT_LEAST = {
    "Softmax LogSoftmax": {"logits": 1},
    "MaxPoolGradWithArgmax": {"input": 4, "grad": 4, "argmax": 4},
    "NthElement": {"input": 1},
    "Diag": {"diagonal": 1},
    "MatrixDiag MatrixDiagV2 MatrixDiagV3": {"diagonal": 1},
    "MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3": {"input": 2},
    "MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3": {"input": 2, "diagonal": 1},
    "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments "
    "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments": {"data": 1},
    "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad": {"grad": 1},
    "AdjustHue AdjustSaturation AdjustContrastv2": {"images": 3},
}

LEAST_RANKS: dict[str, dict[str, int]] = {op: least for ops, least in _AT_LEAST.items() for op in ops.split()}
"""Per op, the rank that an argument must have at least."""

RANKS: dict[str, dict[str, int]] = {}
"""Per op, the rank that an argument must have."""
for _rank, _tables in enumerate((_SCALARS, _VECTORS, _MATRICES)):
    for _ops, _arguments in _tables.items():
        for _op in _ops.split():
            RANKS.setdefault(_op, {}).update(dict.fromkeys(_arguments.split(), _rank))
