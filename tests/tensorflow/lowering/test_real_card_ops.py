"""What is known of ops on a real card: the file against a list made apart from it, against TensorFlow and the page."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tensorflow.python.framework import op_def_registry

from habana_tf.tensorflow.lowering import catalog, real_card_ops
from habana_tf.tensorflow.lowering.real_card_ops import LISTS, RealCard, by_place, known, listed

PAGE = Path(__file__).parents[3] / "docs" / "placement.md"

BF16_LISTS = """
_ScopedAllocator _ScopedAllocatorConcat _ScopedAllocatorSplit Abs Add AddN AddV2 ArgMax ArgMin BatchMatMul
BatchMatMulV2 BiasAdd BiasAddGrad CollectiveReduceV2 CollectiveReduceV3 Concat ConcatV2 Conv2D Conv2DBackpropFilter
Conv2DBackpropInput Conv3D Conv3DBackpropFilter Conv3DBackpropFilterV2 Conv3DBackpropInput Conv3DBackpropInputV2
Cumprod Cumsum DepthwiseConv2dNative DepthwiseConv2dNativeBackpropFilter DepthwiseConv2dNativeBackpropInput
DynamicStitch Equal EuclideanNorm Exp ExpandDims Fill FloorDiv FusedBatchNormGradV2 FusedBatchNormGradV3
FusedBatchNormV2 FusedBatchNormV3 GatherNd GatherV2 Greater GreaterEqual HabanaClampBwd HabanaClampFwd
HabanaConv2DWithPadding HabanaConv2DWithPaddingBackpropFilter HabanaConv2DWithPaddingBackpropInput HabanaDropout
HabanaDropoutGrad HabanaDropoutStateful HabanaFusedBatchNormV3 HabanaGelu HabanaGeluGrad HabanaInstanceNorm
HabanaInstanceNormGrad HabanaLayerNorm HabanaLayerNormGrad HabanaLayerNormGradV2 HabanaLayerNormV2
HabanaLogSoftmaxGrad HabanaMaskedSoftmax HabanaMaxGrad HabanaMaxPool HabanaMaxPoolGrad HabanaMinGrad
HabanaRandomUniformWithMaxval HabanaRandomUniformWithScale HabanaResizeNearestNeighbor
HabanaResizeNearestNeighborGrad HabanaSize HabanaSoftmaxGrad HabanaSparseSegmentSum HorovodAllgather
HorovodAllreduce HorovodBroadcast HpuCollectiveBcastRecv HpuCollectiveBcastRecvV2 HpuCollectiveBcastSend
HpuCollectiveBcastSendV2 HpuCollectiveGather HpuCollectiveGatherV2 HpuCollectiveReduce HpuCollectiveReduceV2
Identity IdentityN IsFinite L2Loss LeakyRelu LeakyReluGrad Less LessEqual Log Log1p LogSoftmax MatMul MatrixBandPart
Max Maximum MaxPool MaxPoolGrad MaxPoolGradV2 MaxPoolV2 Mean Minimum Mul Neg NotEqual Pack Pad PadV2 Pow
PyramidRoiAlign PyramidRoiAlignGradImages RandomStandardNormal RandomUniform Rank RealDiv Reciprocal Relu Relu6
Relu6Grad ReluGrad Reshape ResizeNearestNeighbor ResizeNearestNeighborGrad Round Rsqrt RsqrtGrad Select SelectV2
Shape ShapeN Sigmoid SigmoidGrad Sign Size Slice Snapshot Softmax SoftmaxCrossEntropyWithLogits
SparseSegmentSumWithNumSegments SparseSoftmaxCrossEntropyWithLogits Split SplitV Sqrt Square SquaredDifference
Squeeze StridedSlice StridedSliceGrad Sub Sum Tanh TanhGrad TensorScatterUpdate Tile Transpose Unpack ZerosLike
""".split()
"""Every op that a bf16 configuration of Model-References names, over all releases; collected by hand."""

OPERATOR_TABLE = """
Abs Acos Acosh Add AddN AddV2 Addons>Resampler Addons>ResamplerGrad AdjustContrastv2 All AnonymousIterator
AnonymousIteratorV2 Any
""".split()
"""The beginning of Habana's table of operators, without the optimizers of legacy variables that follow."""


def test_the_ops_of_the_published_lists_ran() -> None:
    assert {op for op, each in listed().items() if any(n.startswith("bf16 lists") for n in each.lists)} == {*BF16_LISTS}
    assert all(known(op).where is RealCard.HPU for op in (*BF16_LISTS, *OPERATOR_TABLE, "CombinedNonMaxSuppression"))
    ran = {op for op, each in listed().items() if each.where is RealCard.HPU}
    assert ran == {*BF16_LISTS, *OPERATOR_TABLE, "CombinedNonMaxSuppression"}


@pytest.mark.parametrize("op", ["Where", "If", "While", "Switch", "PyFunc", "ApplyAdam"])
def test_some_are_known_not_to_have_run(op: str) -> None:
    assert known(op).where is RealCard.CPU and known(op).lists


@pytest.mark.parametrize("op", ["Erf", "ResourceApplyAdam", "Cast", "NoSuchOp"])
def test_that_no_list_names_an_op_is_no_verdict(op: str) -> None:
    assert known(op).where is RealCard.UNKNOWN and known(op).lists == ()


def test_releases_are_those_of_the_list() -> None:
    assert known("Abs").lists == ("bf16 lists 0.15.4 to 1.14.0", "operator table")
    assert known("DepthwiseConv2dNative").lists == ("bf16 lists 1.0.0 to 1.3.0",)


def test_names_are_tensorflows_or_habanas() -> None:
    foreign = ("Habana", "Horovod", "HpuCollective", "PyramidRoiAlign", "Addons>")
    assert [op for op in listed() if not op.startswith(foreign) and op_def_registry.get(op) is None] == []


def test_the_page_describes_each_list() -> None:
    text = PAGE.read_text()
    used = {name.split(" 0.")[0].split(" 1.")[0] for each in listed().values() for name in each.lists}
    assert used == set(LISTS) and all(f"| {name} |" in text for name in LISTS)


def test_each_op_is_in_one_place() -> None:
    places = by_place(["Where", "abs", "Abs", "Abs", "Erf"])
    assert places == {RealCard.HPU: ["Abs"], RealCard.CPU: ["Where"], RealCard.UNKNOWN: ["abs", "Erf"]}


def test_the_catalog_has_it() -> None:
    entries = {entry.op: entry for entry in catalog.entries()}
    assert (entries["Conv2D"].real_card, entries["Erf"].real_card) == ("HPU", "not known")


def test_lists_that_disagree_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*rows: tuple[str, str, str]) -> None:
        with open(tmp_path / "ops.csv", "w", newline="") as file:
            csv.writer(file).writerows([("op", "device", "list", "releases"), *((*row, "") for row in rows)])
        monkeypatch.setattr(real_card_ops, "__file__", str(tmp_path / "ops.py"))
        listed.__wrapped__()

    read(("Abs", "HPU", "models"))
    with pytest.raises(ValueError, match="places Abs on HPU and on CPU"):
        read(("Abs", "HPU", "models"), ("Abs", "CPU", "article"))
    with pytest.raises(ValueError, match="has Abs from 'hearsay'"):
        read(("Abs", "HPU", "hearsay"))
