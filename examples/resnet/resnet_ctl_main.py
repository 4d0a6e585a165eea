"""A ResNet learns scikit-learn's handwritten digits, enlarged, with LARS and label smoothing.

    python examples/resnet/resnet_ctl_main.py
    python examples/resnet/resnet_ctl_main.py --use_synthetic_data --train_steps 20
    habana-tf run -n 2 examples/resnet/resnet_ctl_main.py --data_dir digits_records

With the arguments of the ResNet-50 that ran on cards. `--data_dir` is a directory of TFRecord files, image and label as
ImageNet's have them (`image/encoded`, `image/class/label` from 1 on); where it has none, the digits are written there.
`--resnet_size 50 --width 64 --image_size 224` is the whole network.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import start
from common.accuracy import accuracy

BLOCKS = {14: (1, 1, 1, 1), 26: (2, 2, 2, 2), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


def arguments() -> argparse.Namespace:
    parser = start.parser(__doc__, "resnet")
    parser.add_argument("-bs", "--batch_size", type=int, default=64, help="over all cards")
    parser.add_argument("--train_steps", type=int, default=300)
    parser.add_argument("--warmup_steps", type=int, default=30)
    parser.add_argument("--steps_between_evals", type=int, default=100)
    parser.add_argument("--optimizer", choices=["LARS", "SGD"], default="LARS")
    parser.add_argument("--base_learning_rate", type=float, default=8.0, help="about 0.1 for SGD")
    parser.add_argument("--weight_decay", type=float, default=5e-5)
    parser.add_argument("--label_smoothing", type=float, default=0.1)
    parser.add_argument("--use_synthetic_data", action="store_true", help="one batch of random numbers, for speed")
    parser.add_argument("--data_dir", type=Path, help="TFRecord files; without it the digits as arrays")
    parser.add_argument("--image_size", type=int, default=32)
    parser.add_argument("--resnet_size", type=int, choices=BLOCKS, default=14)
    parser.add_argument("--width", type=int, default=16, help="filters of the first stage; ResNet-50 has 64")
    parser.add_argument("--distributed_bn", action="store_true", help="batch normalisation over all cards")
    parser.add_argument("--save_every", type=int, default=0, help="steps between two checkpoints; 0: in the end")
    return parser.parse_args()


def network(size: int, depth: int, width: int, classes: int, distributed: bool) -> Any:
    """Images [batch, size, size, 3] -> logits [batch, classes]: ResNet with bottlenecks, version 1.5.

    distributed: batch normalisation over all cards.
    """
    import tensorflow as tf

    layers = tf.keras.layers

    def convolved(x: Any, filters: int, kernel: int, stride: int = 1, gamma: str = "ones") -> Any:
        x = layers.Conv2D(
            filters, kernel, stride, padding="same", use_bias=False, kernel_initializer="he_normal"
        )(x)  # fmt: skip
        return layers.BatchNormalization(
            momentum=0.9, epsilon=1e-5, gamma_initializer=gamma, synchronized=distributed
        )(x)  # fmt: skip

    def block(x: Any, filters: int, stride: int) -> Any:
        y = layers.ReLU()(convolved(x, filters, 1))
        y = layers.ReLU()(convolved(y, filters, 3, stride))
        y = convolved(y, 4 * filters, 1, gamma="zeros")
        if stride > 1 or x.shape[-1] != 4 * filters:
            x = convolved(x, 4 * filters, 1, stride)
        return layers.ReLU()(x + y)

    images = layers.Input((size, size, 3))
    x = layers.ReLU()(convolved(images, width, 7 if size > 64 else 3, 2 if size > 64 else 1))
    x = layers.MaxPooling2D(3, 2, padding="same")(x)
    for stage, count in enumerate(BLOCKS[depth]):
        for k in range(count):
            x = block(x, width * 2**stage, stride=2 if stage and k == 0 else 1)
    return tf.keras.Model(images, layers.Dense(classes, name="head")(layers.GlobalAveragePooling2D()(x)))


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import numpy as np
    import tensorflow as tf
    from common import images as pictures
    from common.lars import LARS
    from common.loop import Trainer
    from common.schedules import WarmUp

    classes, batch = 10, options.batch_size
    train, (x_test, y_test) = pictures.digits(options.image_size)
    if options.data_dir is not None:
        if run.rank == 0 and not list(options.data_dir.glob("train-*")):
            pictures.write_records(options.data_dir, *train)
        run.wait()
        train = pictures.read_records(options.data_dir, options.image_size)
        run.say(f"{len(train[1])} images from {options.data_dir}")
    batch_at = pictures.batches(*train, batch, options.seed, shift=options.image_size // 16)
    if options.use_synthetic_data:
        random = np.random.default_rng(options.seed)
        shape = (batch, options.image_size, options.image_size, 3)
        noise = random.normal(size=shape).astype(np.float32), random.integers(0, classes, batch).astype(np.int32)

    with run.strategy.scope():
        model = network(options.image_size, options.resnet_size, options.width, classes, options.distributed_bn)
        rate = WarmUp(options.base_learning_rate, options.warmup_steps, options.train_steps, power=2)
        if options.optimizer == "LARS":
            optimizer = LARS(rate, options.weight_decay)
        else:
            optimizer = tf.keras.optimizers.SGD(
                rate, momentum=0.9, weight_decay=options.weight_decay, jit_compile=False
            )
    run.say(f"ResNet-{options.resnet_size}: {model.count_params():,} weights, {run.size} card(s), {options.optimizer}")

    def loss(model: Any, images: Any, labels: Any) -> Any:
        smooth = options.label_smoothing
        wanted = tf.one_hot(labels, classes) * (1 - smooth) + smooth / classes
        return tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(wanted, model(images, training=True)))

    evaluate = accuracy(run.strategy, model, x_test, y_test)
    trainer = Trainer(run, model, optimizer, loss, batch, model_dir=options.model_dir)
    synthetic = options.use_synthetic_data
    trainer.fit((lambda step: noise) if synthetic else batch_at, options.train_steps, options.log_every,
                options.save_every, None if synthetic else evaluate, options.steps_between_evals)  # fmt: skip
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
