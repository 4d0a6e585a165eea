"""Cross entropy with its gradient, as TensorFlow computes both at once.

A class label outside the range gives NaN in the loss and in that row of the gradient, as on every accelerator:
a kernel there cannot raise (TensorFlow's CPU kernel does). A launch that met one says so (`LoweringContext.in_range`).
"""

from __future__ import annotations

from habana_tf.formulas.term import Term, wrap
from habana_tf.ir.builder import broadcast_shapes
from habana_tf.ir.dtypes import DType
from habana_tf.ir.primitives import Node
from habana_tf.tensorflow.lowering.arguments import size_of
from habana_tf.tensorflow.lowering.lowering import Lowering
from habana_tf.tensorflow.lowering.nn import shifted_exponentials
from habana_tf.tensorflow.lowering.row import FLOATS, INDEX, op


@op("SoftmaxCrossEntropyWithLogits", T=FLOATS)
def cross_entropy(c: Lowering) -> list[Node]:
    features, labels = c.inputs
    shape = broadcast_shapes(features.shape, labels.shape)
    c.require(len(shape) == 2, "logits and labels must be matrices")
    features, labels = c.b.expand(features, shape), c.b.expand(labels, shape)
    shifted, exponentials, total = shifted_exponentials(c, features)
    wanted = wrap(c.b, labels)
    loss = (wanted * (total.map("log") - shifted)).sum([1]).flat([1])
    return [loss.done(features.dtype), (exponentials / total - wanted).done(features.dtype)]


@op("SparseSoftmaxCrossEntropyWithLogits", T=FLOATS, Tlabels=INDEX)
def sparse_cross_entropy(c: Lowering) -> list[Node]:
    features, labels = c.inputs
    if features.rank != 2 or labels.shape != features.shape[:1]:
        raise c.error("logits [N, classes] and labels [N] are needed")
    b, dtype = c.b, features.dtype
    classes = size_of(c, features.shape[1], "the number of classes")
    c.context.in_range("labels", labels, classes)
    shifted, exponentials, total = shifted_exponentials(c, features)
    row = b.reshape(labels, [labels.shape[0], 1])
    valid = Term(b, row).test("ge", 0).test("and", Term(b, row).test("lt", classes))
    # of labels that are no class nothing is used, so those that two words tell apart may look alike in one
    is_label = Term(b, b.binary("eq", b.iota(features.shape, 1, DType.I32), b.cast(row, DType.I32)))
    losses = total.map("log") - is_label.where(shifted, 0.0).sum([1])  # summed in the pass that sums the exponentials
    gradient = exponentials / total
    gradient = is_label.where(gradient - 1.0, gradient)
    nan = float("nan")
    return [valid.where(losses, nan).flat([1]).done(dtype), valid.where(gradient, nan).done(dtype)]
