"""Arguments for ops that random ones hardly ever fit, or whose kernels have loops of their own for the end of a row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tensorflow.python.framework import op_def_registry


@dataclass(frozen=True)
class Call:
    """inputs: by argument, a list where the op takes several. attrs: those that are not types or numbers of inputs."""

    inputs: dict[str, Any]
    attrs: dict[str, Any] = field(default_factory=dict)


def _f(*shape: int) -> Any:
    """Positive numbers, no two alike."""
    n = math.prod(shape)
    order = np.random.RandomState(n).permutation(n).reshape(shape)
    return (0.25 + order / max(n, 1)).astype(np.float32)


def _i(*values: Any) -> Any:
    return np.array(values, np.int32)


_BOXES = {"boxes": np.float32([[0.1, 0.2, 0.8, 0.9], [0, 0, 1.2, 1]]), "box_ind": _i(0, 1)}
_TURNED = np.float32([[1, 0.1, -1, 0, 0.9, 0.5, 0, 0]])

CALLS: dict[str, list[Call]] = {
    "LinSpace": [Call({"start": np.float32(1), "stop": np.float32(3), "num": np.int32(5)})],
    "OneHot": [Call({"indices": _i(0), "depth": np.int32(3), "on_value": np.float32(2), "off_value": np.float32(1)})],
    "Fill": [Call({"dims": _i(2, 3), "value": np.float32(2)})],
    "ScatterNd": [Call({"indices": _i([0], [2], [0]), "updates": _f(3, 4), "shape": _i(4, 4)})],
    "TensorScatterMax": [Call({"tensor": _f(4, 5), "indices": _i([0], [2], [0]), "updates": _f(3, 5)})],
    "ReverseSequence": [Call({"input": _f(3, 4, 2), "seq_lengths": _i(2, 4, 1)}, {"seq_dim": 1})],
    "AdjustHue": [Call({"images": _f(2, 3, 3), "delta": np.float32(0.2)})],
    "StatelessMultinomial": [Call({"logits": _f(3, 5), "num_samples": np.int32(7), "seed": _i(3, 4)})],
    "CropAndResize": [Call({"image": _f(2, 4, 5, 3), **_BOXES, "crop_size": _i(3, 3)})],
    "CropAndResizeGradBoxes": [Call({"grads": _f(2, 3, 3, 3), "image": _f(2, 4, 5, 3), **_BOXES})],
    "CropAndResizeGradImage": [
        Call({"grads": _f(2, 3, 3, 3), **_BOXES, "image_size": _i(2, 4, 5, 3)}, {"T": 1})
    ],
    "MatrixDiagV2": [Call({"diagonal": _f(2, 3), "k": np.int32(0), "num_rows": np.int32(3), "num_cols": np.int32(4),
                           "padding_value": np.float32(1)})],
    "SpaceToBatchND": [Call({"input": _f(2, 4, 3), "block_shape": _i(2), "paddings": _i([1, 1])})],
    "BatchToSpaceND": [Call({"input": _f(4, 3, 2), "block_shape": _i(2), "crops": _i([1, 0])})],
    "FakeQuantWithMinMaxVarsGradient": [
        Call({"gradients": _f(3, 5), "inputs": _f(3, 5), "min": np.float32(0.2), "max": np.float32(0.9)})
    ],
    "SparseSegmentSum": [Call({"data": _f(4, 3), "indices": _i(0, 2, 3), "segment_ids": _i(0, 0, 1)})],
    "SparseTensorDenseMatMul": [
        Call({"a_indices": np.array([[0, 1], [1, 0]], np.int64), "a_values": _f(2), "a_shape": np.array([2, 3]),
              "b": _f(3, 4)})
    ],
    "StridedSliceGrad": [
        Call({"shape": _i(4, 5), "begin": _i(0, 1), "end": _i(4, 4), "strides": _i(2, 1), "dy": _f(2, 3)})
    ],
    "ResourceGather": [Call({"resource": _f(4, 3), "indices": _i(0, 3, 1)})],
    "DynamicStitch": [Call({"indices": [_i(0, 2), _i(1)], "data": [_f(2, 3), _f(1, 3)]})],
    "SegmentMax": [Call({"data": _f(9, 19), "segment_ids": _i(0, 0, 0, 2, 2, 2, 2, 3, 3)})],
    "NthElement": [Call({"input": _f(3, 7), "n": np.int32(2)})],
    "TopKV2": [Call({"input": _f(3, 37), "k": np.int32(2)}), Call({"input": _f(3, 9), "k": np.int32(9)})],
    "Transpose": [Call({"x": _f(3, 5), "perm": _i(1, 0)})],
    "DenseBincount": [Call({"input": _i(0, 2, 2, 1), "size": np.int32(4), "weights": _f(4)}, {"binary_output": False})],
}  # fmt: skip
for _transform in ("V2", "V3"):
    CALLS[f"ImageProjectiveTransform{_transform}"] = [
        Call({"images": _f(2, 4, 5, 3), "transforms": _TURNED, "output_shape": _i(3, 4), "fill_value": np.float32(0)},
             {"interpolation": how})
        for how in ("NEAREST", "BILINEAR")
    ]  # fmt: skip
CALLS["SegmentMin"] = CALLS["SegmentMax"]
CALLS["ParallelDynamicStitch"] = CALLS["DynamicStitch"]
CALLS["ConjugateTranspose"] = CALLS["Transpose"]
CALLS["MatrixDiagV3"] = CALLS["MatrixDiagV2"]
for _kind in ("Sum", "Mean", "SqrtN"):
    CALLS[f"SparseSegment{_kind}Grad"] = [
        Call({"grad": _f(2, 3), "indices": _i(0, 2, 3), "segment_ids": _i(0, 0, 1), "output_dim0": np.int32(4)})
    ]
    CALLS[f"SparseSegment{_kind}WithNumSegments"] = [
        Call({"data": _f(4, 3), "indices": _i(0, 2, 3), "segment_ids": _i(0, 0, 1), "num_segments": np.int32(3)})
    ]

# -- pooling: windows that overlap or not, padded or not, over channels of one vector and a rest ------------------

_WINDOWS = [(2, 2, "VALID"), (3, 2, "SAME"), (3, 1, "SAME")]


def _pooled(size: int, stride: int) -> int:
    return -(-size // stride)


def _pool(dims: int, inputs: Any) -> list[Call]:
    """A call per kind of window; `inputs` makes the arguments of x's shape and that of the result."""
    out = []
    for kernel, stride, padding in _WINDOWS:
        x, y = (1, *[4] * dims, 19), (1, *[_pooled(4, stride)] * dims, 19)
        attrs = {"ksize": [1, *[kernel] * dims, 1], "strides": [1, *[stride] * dims, 1], "padding": padding}
        out.append(Call(inputs(x, y), attrs))
    return out


for _dims, _name in ((2, ""), (3, "3D")):
    CALLS[f"MaxPool{_name}"] = _pool(_dims, lambda x, y: {"input": _f(*x)})
    CALLS[f"AvgPool{_name}Grad"] = _pool(_dims, lambda x, y: {"orig_input_shape": _i(*x), "grad": _f(*y)})
CALLS["MaxPoolWithArgmax"] = CALLS["MaxPool"]
CALLS["MaxPoolGrad"] = _pool(2, lambda x, y: {"orig_input": _f(*x), "orig_output": _f(*y), "grad": _f(*y)})
CALLS["MaxPool3DGrad"] = _pool(3, lambda x, y: {"orig_input": _f(*x), "orig_output": _f(*y), "grad": _f(*y)})
CALLS["MaxPoolGradGrad"] = _pool(2, lambda x, y: {"orig_input": _f(*x), "orig_output": _f(*y), "grad": _f(*x)})
CALLS["MaxPool3DGradGrad"] = _pool(3, lambda x, y: {"orig_input": _f(*x), "orig_output": _f(*y), "grad": _f(*x)})
for _op in ("MaxPool", "MaxPoolGrad", "MaxPoolGradGrad"):
    CALLS[f"{_op}V2"] = [
        Call({**c.inputs, "ksize": _i(*c.attrs["ksize"]), "strides": _i(*c.attrs["strides"])},
             {"padding": c.attrs["padding"]})
        for c in CALLS[_op]
    ]  # fmt: skip
CALLS["MaxPoolGradWithArgmax"] = [
    Call({"input": _f(1, 4, 4, 1), "grad": _f(1, 2, 2, 1), "argmax": np.array([0, 6, 9, 15]).reshape(1, 2, 2, 1)},
         {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"})
]  # fmt: skip

# -- convolutions' gradients, batch normalization -----------------------------------------------------------------

for _dims, _op, _tail in ((2, "Conv2DBackprop", ""), (3, "Conv3DBackprop", "V2")):
    _x, _w, _y = (1, *[3] * _dims, 2), (*[2] * _dims, 2, 3), (1, *[2] * _dims, 3)
    _attrs = {"strides": [1] * (_dims + 2), "padding": "VALID"}
    CALLS[f"{_op}Input{_tail}"] = [Call({"input_sizes": _i(*_x), "filter": _f(*_w), "out_backprop": _f(*_y)}, _attrs)]
    CALLS[f"Conv{_dims}D"] = [Call({"input": _f(*_x), "filter": _f(*_w)}, _attrs)]
    CALLS[f"{_op}Filter{_tail}"] = [Call({"input": _f(*_x), "filter_sizes": _i(*_w), "out_backprop": _f(*_y)}, _attrs)]
CALLS["DepthwiseConv2dNative"] = [
    Call({"input": _f(1, 3, 3, 2), "filter": _f(2, 2, 2, 1)}, {"strides": [1, 1, 1, 1], "padding": "VALID"})
]
CALLS["DepthwiseConv2dNativeBackpropFilter"] = [
    Call({"input": _f(1, 3, 3, 2), "filter_sizes": _i(2, 2, 2, 1), "out_backprop": _f(1, 2, 2, 2)},
         {"strides": [1, 1, 1, 1], "padding": "VALID"})
]  # fmt: skip
for _version in ("", "V2", "V3"):
    _u = {"U": 1} if _version else {}
    CALLS[f"FusedBatchNorm{_version}"] = [
        Call({"x": _f(2, 3, 3, 4), "scale": _f(4), "offset": _f(4), "mean": _f(4), "variance": _f(4)},
             {"is_training": False, **_u})
    ]  # fmt: skip
    _saved = {f"reserve_space_{k}": _f(4) for k in (1, 2, 3)[: 3 if _version == "V3" else 2]}
    CALLS[f"FusedBatchNormGrad{_version}"] = [
        Call({"y_backprop": _f(2, 3, 3, 4), "x": _f(2, 3, 3, 4), "scale": _f(4), **_saved},
             {"is_training": False, **_u})
    ]  # fmt: skip

# -- optimizers: all variables and the gradient of one shape, what is left is a number ------------------------------


def optimizer(op: str) -> Call:
    """Arguments for a step of an optimizer, by the arguments' names."""
    inputs: dict[str, Any] = {}
    for arg in op_def_registry.get(op).input_arg:
        if arg.name == "indices":
            inputs[arg.name] = _i(3, 1)
        elif arg.type == 20:  # a variable
            inputs[arg.name] = _f(5, 3)
        elif arg.name in ("grad", "delta"):
            inputs[arg.name] = _f(2, 3) if "Sparse" in op else _f(5, 3)
        elif arg.name == "global_step":
            inputs[arg.name] = np.int64(3)
        else:
            inputs[arg.name] = np.float32(-0.5 if arg.name == "lr_power" else 0.5)
    return Call(inputs)
