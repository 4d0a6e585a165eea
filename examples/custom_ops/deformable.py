"""A deformable convolution: bilinear sampling at places that are learned, an op TensorFlow lacks, written twice.

    python examples/custom_ops/deformable.py
    habana-tf build-kernel examples/custom_ops/deformable.c -o deformable.so
    TF_BF16_CONVERSION=full python examples/custom_ops/deformable.py deformable.so

After "Deformable Convolutional Networks" (arXiv 1703.06211). A convolution looks at the k x k places around each pixel;
this one moves each of them by an offset that another convolution computes, and reads between the pixels. Here are the
op and its gradient as lowerings in primitives: gathers, arithmetic and scatters; `deformable.c` has both as kernels.
The network tells which way up handwritten digits stand that are turned at random.
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import habana_tf
from habana_tf.custom import FLOATS, DType, Lowering, custom_op, wrap
from habana_tf.distribute import HPUStrategy

HELD_OUT = 300  # images that the network never sees


def neighbours(c: Lowering):
    """The four pixels around each place: (row, column, which half of the cell by row and by column), and the place's
    parts of a cell. All float32 [batch, height, width, taps].

    A gather outside the picture gives 0 and a scatter there does nothing, so no corner needs a mask.
    """
    x, offsets, k = c.input("x"), c.input("offsets"), c.attr("kernel")
    if x.rank != 4 or offsets.rank != 5 or offsets.shape[:3] != x.shape[:3] or offsets.shape[3:] != (k * k, 2):
        raise c.error(f"x must be [batch, height, width, channels], and offsets [batch, height, width, {k * k}, 2]")
    b, shape = c.b, offsets.shape[:4]

    def place(axis: int):
        """Where a tap looks, by row (axis 0) or column (axis 1)."""
        tap = np.arange(k * k, dtype=np.float32)
        around = (tap // k if axis == 0 else tap % k) - k // 2
        moved = b.reshape(b.slice(offsets, [0, 0, 0, 0, axis], (*shape, 1)), shape)
        here = wrap(b, b.iota(shape, axis + 1, DType.F32))
        return here + wrap(b, b.broadcast_in_dim(b.literal(around), shape, [3])) + wrap(b, moved)

    row, column = place(0), place(1)
    top, left = row.map("floor"), column.map("floor")
    corners = [(top + i, left + j, i, j) for i in (0, 1) for j in (0, 1)]
    return corners, row - top, column - left


def at(c: Lowering, shape, row, column):
    """The coordinates of a corner: image, row and column, int32."""
    return [c.b.iota(shape, 0, DType.I32), *(c.b.cast(each.node, DType.I32) for each in (row, column))]


@custom_op("DeformableSample", inputs="x: T, offsets: T", outputs="y: T", attrs={"kernel": 3}, T=FLOATS,
           shapes="offsets[:-1], x[3]", bf16="conditional")  # fmt: skip
def deformable_sample(c: Lowering):
    """x [batch, height, width, channels], offsets [batch, height, width, kernel * kernel, 2] in pixels, by row and by
    column -> y [batch, height, width, kernel * kernel, channels]. Outside the picture is 0."""
    corners, down, right = neighbours(c)
    x, shape = c.input("x"), c.input("offsets").shape[:4]
    total = None
    for row, column, i, j in corners:
        weight = (down if i else 1 - down) * (right if j else 1 - right)
        seen = wrap(c.b, c.b.gather(x, at(c, shape, row, column), [0, 1, 2]))
        part = seen * wrap(c.b, c.b.broadcast_in_dim(weight.node, seen.node.shape, [0, 1, 2, 3]))
        total = part if total is None else total + part
    return total.done(x.dtype)


@custom_op("DeformableSampleGrad", inputs="dy: T, x: T, offsets: T", outputs="dx: T, doffsets: T",
           attrs={"kernel": 3}, T=FLOATS, shapes="x; offsets", bf16="conditional")  # fmt: skip
def deformable_sample_grad(c: Lowering):
    corners, down, right = neighbours(c)
    x, shape = c.input("x"), c.input("offsets").shape[:4]
    if c.input("dy").shape != (*shape, x.shape[3]):
        raise c.error("dy must have the shape of what DeformableSample gives")
    dy = wrap(c.b, c.input("dy"))
    dx = c.b.const(0.0, DType.F32, x.shape)
    by_row = by_column = None
    for row, column, i, j in corners:
        places = at(c, shape, row, column)
        vertical, horizontal = (down if i else 1 - down), (right if j else 1 - right)
        weight = wrap(c.b, c.b.broadcast_in_dim((vertical * horizontal).node, dy.node.shape, [0, 1, 2, 3]))
        dx = c.b.scatter(dx, (dy * weight).node, places, [0, 1, 2], "add")
        seen = wrap(c.b, c.b.gather(x, places, [0, 1, 2]))
        along = (dy * seen).sum([4]).flat([4])
        up, across = along * horizontal * (2 * i - 1), along * vertical * (2 * j - 1)
        by_row = up if by_row is None else by_row + up
        by_column = across if by_column is None else by_column + across
    columns = [c.b.reshape(each.node, (*shape, 1)) for each in (by_row, by_column)]
    doffsets = wrap(c.b, c.b.concat(columns, 4))
    return [c.b.cast(dx, x.dtype), doffsets.done(c.input("offsets").dtype)]


@tf.RegisterGradient("DeformableSample")
def _(op, dy):
    return deformable_sample_grad(dy, op.inputs[0], op.inputs[1], kernel=op.get_attr("kernel"))


def from_library(path: str):
    """The op by the kernels of a library that `habana-tf build-kernel` made of deformable.c, with its gradient."""
    library = habana_tf.load_op_library(path)

    @tf.RegisterGradient("DeformableSampleC")
    def _(op, dy):
        return library.deformable_sample_c_grad(dy, op.inputs[0], op.inputs[1], kernel=op.get_attr("kernel"))

    return library.deformable_sample_c


class DeformableConv(tf.keras.layers.Layer):
    """A convolution whose places are learned. sample: the op. At first it is a plain convolution."""

    def __init__(self, filters, sample, kernel=3):
        super().__init__()
        self.filters, self.sample, self.kernel = filters, sample, kernel
        self.where = tf.keras.layers.Conv2D(2 * kernel * kernel, 3, padding="same", kernel_initializer="zeros")

    def build(self, shape):
        self.weight = self.add_weight(name="weight", shape=[self.kernel**2 * shape[-1], self.filters])

    def call(self, x):
        taps, channels = self.kernel**2, x.shape[-1]
        size = [tf.shape(x)[0], *x.shape[1:3]]
        offsets = tf.reshape(self.where(x), [*size, taps, 2])
        seen = self.sample(x, offsets, kernel=self.kernel)
        return tf.matmul(tf.reshape(seen, [*size, taps * channels]), self.weight)


def turned():
    """Digits [n, 8, 8, 1], each turned by a random number of quarters, and that number."""
    data = load_digits()
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.target))
    quarters = rng.integers(0, 4, len(order))
    images = np.stack([np.rot90(data.images[k], turns) for k, turns in zip(order, quarters, strict=True)])
    return (images[..., None] / 16).astype("float32"), quarters


def main() -> None:
    parser = argparse.ArgumentParser(description="Learns which way up digits stand, by a deformable convolution.")
    parser.add_argument("library", nargs="?", help="kernels in C; without it the lowerings here are used")
    parser.add_argument("--epochs", type=int, default=15)
    arguments = parser.parse_args()

    habana_tf.load_habana_module()
    sample = from_library(arguments.library) if arguments.library else deformable_sample
    tf.keras.utils.set_random_seed(1)
    x, y = turned()
    with HPUStrategy().scope():
        layers = tf.keras.layers
        deformable = DeformableConv(32, sample)
        model = tf.keras.Sequential([
            layers.Input((8, 8, 1)), layers.Conv2D(16, 3, padding="same", activation="relu"), deformable,
            layers.ReLU(), layers.MaxPooling2D(2), layers.Flatten(), layers.Dense(32, "relu"), layers.Dense(4),
        ])  # fmt: skip
        loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(tf.keras.optimizers.Adam(3e-3), loss, metrics=["accuracy"])
    model.fit(x[HELD_OUT:], y[HELD_OUT:], batch_size=64, epochs=arguments.epochs, verbose=2)
    _, accuracy = model.evaluate(x[:HELD_OUT], y[:HELD_OUT], batch_size=100, verbose=0)
    offsets = tf.abs(deformable.where(model.layers[0](x[:HELD_OUT])))
    print(habana_tf.placement_report())
    print(f"Test accuracy: {accuracy:.1%}; places moved by {float(tf.reduce_mean(offsets)):.2f} pixels on average")


if __name__ == "__main__":
    main()
