"""A vision transformer learns scikit-learn's handwritten digits, enlarged.

    python examples/vit/train.py
    habana-tf run -n 2 examples/vit/train.py --gradient_accumulation_steps 2

After "An Image is Worth 16x16 Words" (arXiv 2010.11929), with the arguments of the programs that trained it on cards.
`--model_type ViT-B_16 --img_size 224` is the paper's network of 86 million weights; the default is a small one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import start
from common.accuracy import accuracy

SIZES = {  # patch, width, depth, heads, hidden
    "ViT-digits_8": (8, 64, 4, 4, 128),
    "ViT-Ti_16": (16, 192, 12, 3, 768),
    "ViT-S_16": (16, 384, 12, 6, 1536),
    "ViT-B_16": (16, 768, 12, 12, 3072),
    "ViT-B_32": (32, 768, 12, 12, 3072),
    "ViT-L_16": (16, 1024, 24, 16, 4096),
}


def arguments() -> argparse.Namespace:
    parser = start.parser(__doc__, "vit")
    parser.add_argument("--model_type", choices=SIZES, default="ViT-digits_8")
    parser.add_argument("--pretrained_dir", type=Path, help="an .npz of weights, as --save_weights writes")
    parser.add_argument("--save_weights", type=Path, help="write the trained weights to this .npz")
    parser.add_argument("--num_steps", type=int, default=500)
    parser.add_argument("--warmup_steps", type=int, default=50)
    parser.add_argument("--eval_every", type=int, default=100)
    parser.add_argument("--train_batch_size", "--batch_size", type=int, default=128, help="over all cards")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1, help="parts a batch is computed in")
    parser.add_argument("--img_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--weight_decay", type=float, default=1e-4)
    parser.add_argument("--save_every", type=int, default=0, help="steps between two checkpoints; 0: in the end")
    return parser.parse_args()


def network(model_type: str, size: int, classes: int) -> Any:
    """Images [batch, size, size, 3] -> logits [batch, classes]. Raises ValueError where patches do not fit."""
    import tensorflow as tf
    from common.transformer import Block

    patch, width, depth, heads, hidden = SIZES[model_type]
    if size % patch:
        raise ValueError(f"{model_type}: images of {size} pixels are not whole patches of {patch}")
    layers = tf.keras.layers

    class Positions(layers.Layer):
        """Puts a token for the class before the patches and adds where each is."""

        def build(self, shape: Any) -> None:
            self.token = self.add_weight("class", (1, 1, width), initializer="zeros")
            normal = tf.keras.initializers.RandomNormal(stddev=0.02)
            self.where = self.add_weight("positions", (1, shape[1] + 1, width), initializer=normal)

        def call(self, x: Any) -> Any:
            token = tf.tile(self.token, [tf.shape(x)[0], 1, 1])
            return tf.concat([token, x], axis=1) + self.where

    images = layers.Input((size, size, 3))
    x = layers.Conv2D(width, patch, strides=patch, name="patches")(images)
    x = Positions(name="positions")(layers.Reshape((-1, width))(x))
    for k in range(depth):
        x = Block(width, heads, hidden, name=f"block_{k}")(x)
    x = layers.LayerNormalization(epsilon=1e-6, name="norm")(x)
    return tf.keras.Model(images, layers.Dense(classes, kernel_initializer="zeros", name="head")(x[:, 0]))


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import numpy as np
    import tensorflow as tf
    from common.images import batches, digits
    from common.loop import Trainer
    from common.schedules import WarmUp

    (x_train, y_train), (x_test, y_test) = digits(options.img_size)
    with run.strategy.scope():
        model = network(options.model_type, options.img_size, classes=10)
        rate = WarmUp(options.learning_rate, options.warmup_steps, options.num_steps)
        optimizer = tf.keras.optimizers.AdamW(
            rate, weight_decay=options.weight_decay, global_clipnorm=1.0, jit_compile=False
        )
    if options.pretrained_dir:
        with np.load(options.pretrained_dir) as saved:
            model.set_weights([saved[str(k)] for k in range(len(saved))])
    run.say(f"{options.model_type}: {model.count_params():,} weights, {run.size} card(s), {options.dtype}")

    def loss(model: Any, images: Any, labels: Any) -> Any:
        logits = model(images, training=True)
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    evaluate = accuracy(run.strategy, model, x_test, y_test)
    trainer = Trainer(run, model, optimizer, loss, options.train_batch_size, options.gradient_accumulation_steps,
                      options.model_dir)  # fmt: skip
    batch_at = batches(x_train, y_train, options.train_batch_size, options.seed, shift=options.img_size // 16)
    trainer.fit(batch_at, options.num_steps, options.log_every, options.save_every, evaluate, options.eval_every)
    if options.save_weights and run.rank == 0:
        np.savez(options.save_weights, **{str(k): value for k, value in enumerate(model.get_weights())})
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
