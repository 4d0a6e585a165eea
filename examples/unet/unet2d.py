"""A U-Net finds discs, squares and triangles in noisy pictures, pixel by pixel.

    python examples/unet/unet2d.py
    habana-tf run -n 2 examples/unet/unet2d.py --max_steps 100

After "U-Net: Convolutional Networks for Biomedical Image Segmentation" (arXiv 1505.04597), with padded convolutions and
the arguments of the UNet2D that ran on cards. The score is the Dice coefficient of each kind of shape.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import start


def arguments() -> argparse.Namespace:
    parser = start.parser(__doc__, "unet2d")
    parser.add_argument("--exec_mode", choices=["train", "train_and_predict", "predict", "evaluate"],
                        default="train_and_predict", help="all but train tell the Dice score")  # fmt: skip
    parser.add_argument("-b", "--batch_size", type=int, default=16, help="over all cards")
    parser.add_argument("--max_steps", type=int, default=300)
    parser.add_argument("--warmup_steps", type=int, default=20)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--weight_decay", type=float, default=5e-4)
    parser.add_argument("--augment", action="store_true", help="mirror pictures at random")
    parser.add_argument("--image_size", type=int, default=64)
    parser.add_argument("--filters", type=int, default=16, help="of the first level, twice as many in each further")
    parser.add_argument("--levels", type=int, default=3, help="how often the picture is halved")
    parser.add_argument("--eval_samples", type=int, default=64)
    parser.add_argument("--save_every", type=int, default=0, help="steps between two checkpoints; 0: in the end")
    return parser.parse_args()


def network(size: int, filters: int, levels: int, classes: int) -> Any:
    """Images [batch, size, size, 3] -> logits [batch, size, size, classes]. Raises ValueError for an odd size."""
    import tensorflow as tf

    if size % 2**levels:
        raise ValueError(f"--image_size {size} cannot be halved {levels} times")
    layers = tf.keras.layers

    def twice(x: Any, width: int) -> Any:
        for _ in range(2):
            x = layers.Conv2D(width, 3, padding="same", activation="relu", kernel_initializer="he_normal")(x)
        return x

    images = layers.Input((size, size, 3))
    x, kept = images, []
    for level in range(levels):
        x = twice(x, filters * 2**level)
        kept.append(x)
        x = layers.MaxPooling2D()(x)
    x = twice(x, filters * 2**levels)
    for level in reversed(range(levels)):
        x = layers.Conv2DTranspose(filters * 2**level, 2, strides=2)(x)
        x = twice(layers.Concatenate()([kept[level], x]), filters * 2**level)
    return tf.keras.Model(images, layers.Conv2D(classes, 1)(x))


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import numpy as np
    import tensorflow as tf
    from common.loop import Trainer
    from common.schedules import WarmUp
    from common.shapes import CLASSES, pictures

    def batch_at(step: int) -> tuple[Any, Any]:
        images, pixels, _, _ = pictures(options.batch_size, options.image_size, (options.seed, 1, step))
        if options.augment and np.random.default_rng((options.seed, 2, step)).random() < 0.5:
            images, pixels = images[:, :, ::-1], pixels[:, :, ::-1]
        return images, pixels

    with run.strategy.scope():
        model = network(options.image_size, options.filters, options.levels, len(CLASSES))
        rate = WarmUp(options.learning_rate, options.warmup_steps, options.max_steps)
        optimizer = tf.keras.optimizers.AdamW(rate, weight_decay=options.weight_decay, jit_compile=False)

    def loss(model: Any, images: Any, pixels: Any) -> Any:
        """Cross entropy, and what is missing to a Dice coefficient of 1, of each picture."""
        logits = model(images, training=True)
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=pixels, logits=logits)
        likely, wanted = tf.nn.softmax(logits), tf.one_hot(pixels, len(CLASSES))
        both = tf.reduce_sum(likely * wanted, axis=[1, 2])
        either = tf.reduce_sum(likely + wanted, axis=[1, 2])
        missing = 1 - tf.reduce_mean((2 * both + 1) / (either + 1), axis=-1)
        return tf.reduce_sum(tf.reduce_mean(entropy, axis=[1, 2]) + missing)

    @tf.function
    def predict(images: Any) -> Any:
        logits = run.strategy.run(lambda x: model(x, training=False), args=(images,))
        return tf.argmax(run.strategy.experimental_local_results(logits)[0], axis=-1, output_type=tf.int32)

    images, wanted, _, _ = pictures(options.eval_samples, options.image_size, (options.seed, 3))

    def evaluate() -> str:
        found = predict(tf.constant(images)).numpy()
        scores = {}
        for number, name in enumerate(CLASSES[1:], 1):
            both = ((found == number) & (wanted == number)).sum()
            scores[name] = 2 * both / max((found == number).sum() + (wanted == number).sum(), 1)
        each = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
        return f"Dice score: {np.mean(list(scores.values())):.4f} ({each})"

    trainer = Trainer(run, model, optimizer, loss, options.batch_size, model_dir=options.model_dir)
    if options.exec_mode in ("train", "train_and_predict"):
        told = None if options.exec_mode == "train" else evaluate
        trainer.fit(batch_at, options.max_steps, options.log_every, options.save_every, told)
    else:
        run.say(f"step {int(trainer.step.numpy())}, {evaluate()}")
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
