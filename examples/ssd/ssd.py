"""SSD with a ResNet-34 finds discs, squares and triangles in generated pictures.

    python examples/ssd/ssd.py --model_dir ssd_run
    python examples/ssd/ssd.py --model_dir ssd_run --mode eval
    habana-tf run -n 2 examples/ssd/ssd.py --distributed_bn --model_dir ssd_run

The arguments are those of the SSD that ran on cards; `demo_ssd.py` starts it on several. `--image_size 300 --width 64
--levels 5 -b 128` is about the network that was trained on COCO.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import start


def arguments() -> argparse.Namespace:
    parser = start.parser(__doc__, "ssd")
    parser.add_argument("--mode", choices=["train", "eval"], default="train")
    parser.add_argument("-b", "--batch_size", type=int, default=32, help="per card")
    parser.add_argument("-e", "--epochs", type=int, default=10)
    parser.add_argument("-s", "--steps", type=int, help="instead of epochs")
    parser.add_argument("--num_examples_per_epoch", type=int, default=1600)
    parser.add_argument("--use_fake_data", action="store_true", help="one batch again and again: for speed, for tests")
    parser.add_argument("--eval_samples", type=int, default=128)
    parser.add_argument("--distributed_bn", action="store_true", help="batch normalisation over all cards")
    parser.add_argument("--base_lr", type=float, default=0.03, help="of a batch of 32; grows with the batch")
    parser.add_argument("--lr_warmup_epoch", type=float, default=1.0)
    parser.add_argument("--k", type=float, default=0.0, help="moves the falls of the rate by k / 10 of where they are")
    parser.add_argument("--weight_decay", type=float, default=5e-4)
    parser.add_argument("--image_size", type=int, default=96)
    parser.add_argument("--depth", type=int, choices=[10, 18, 34], default=34)
    parser.add_argument("--width", type=int, default=16, help="filters of the first stage; ResNet-34 has 64")
    parser.add_argument("--levels", type=int, default=3, help="of detection, each of half the size")
    parser.add_argument("-v", "--log_step_count_steps", type=int, dest="log_every", default=20)
    parser.add_argument("-c", "--save_checkpoints_epochs", type=int, default=5)
    parser.add_argument("--keep_ckpt_max", type=int, default=20)
    parser.add_argument("--profiling", action="store_true", help="a trace of every 20th step, in model_dir")
    options = parser.parse_args()
    if (options.mode == "eval" or options.profiling) and options.model_dir is None:
        parser.error("--mode eval and --profiling need --model_dir")
    return options


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import boxes as box
    import model as ssd
    import numpy as np
    import tensorflow as tf
    from coco_metric import average_precisions
    from common.loop import Trainer
    from common.shapes import CLASSES, pictures

    batch = options.batch_size * run.size
    steps_per_epoch = math.ceil(options.num_examples_per_epoch / batch)
    steps = options.steps or options.epochs * steps_per_epoch

    class Rate(tf.keras.optimizers.schedules.LearningRateSchedule):
        """Rises over the first epochs, falls to a tenth twice."""

        def __call__(self, step: Any) -> Any:
            at = tf.cast(step, tf.float32)
            warm = tf.minimum((at + 1) / max(options.lr_warmup_epoch * steps_per_epoch, 1), 1.0)
            ends = [part * steps * (1 + options.k / 10) for part in (0.7, 0.9)]
            falls = sum(tf.where(at >= end, 1.0, 0.0) for end in ends)
            return options.base_lr * batch / 32 * warm * 0.1**falls

    with run.strategy.scope():
        model, grids = ssd.network(options.image_size, options.depth, options.width, len(CLASSES), options.levels,
                                   options.distributed_bn)  # fmt: skip
        optimizer = tf.keras.optimizers.SGD(Rate(), momentum=0.9, global_clipnorm=10.0, jit_compile=False)
    defaults = box.default_boxes(grids)
    kernels = [v for v in model.trainable_variables if "kernel" in v.name]
    run.say(f"SSD-ResNet{options.depth}: {model.count_params():,} weights, {len(defaults)} boxes, {run.size} card(s), "
            f"{steps} steps, {steps_per_epoch} an epoch")  # fmt: skip

    def batch_at(step: int) -> tuple[Any, ...]:
        made = pictures(batch, options.image_size, (options.seed, 1, 0 if options.use_fake_data else step))
        images, _, boxes, classes = made
        encoded = [box.encode(b[c > 0], c[c > 0], defaults) for b, c in zip(boxes, classes, strict=True)]
        wanted, kinds = zip(*encoded, strict=True)
        return images, np.stack(wanted), np.stack(kinds)

    fake = batch_at(0) if options.use_fake_data else None

    def loss(model: Any, images: Any, wanted: Any, kinds: Any) -> Any:
        offsets, logits = model(images, training=True)
        decay = options.weight_decay * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return ssd.loss(offsets, logits, wanted, kinds) + decay * options.batch_size

    @tf.function
    def predict(images: Any) -> Any:
        def work(x: Any) -> Any:
            offsets, logits = model(x, training=False)
            return offsets, tf.nn.softmax(logits)

        return [run.strategy.experimental_local_results(each)[0] for each in run.strategy.run(work, args=(images,))]

    def evaluate() -> str:
        images, _, boxes, classes = pictures(options.eval_samples, options.image_size, (options.seed, 2))
        offsets, chances = (each.numpy() for each in predict(tf.constant(images)))
        found = [box.detections(box.decode(o, defaults), c) for o, c in zip(offsets, chances, strict=True)]
        told = average_precisions(found, [(b[c > 0], c[c > 0]) for b, c in zip(boxes, classes, strict=True)])
        return ", ".join(f"{name}: {value:.4f}" for name, value in told.items())

    profiled: list[int] = []

    def trace(step: int) -> None:
        """Ends the trace of the step before, and begins one of every 20th step; on the first card."""
        if profiled and profiled[-1] >= 0:
            tf.profiler.experimental.stop()
            profiled.append(-1)
        if run.rank == 0 and step and step % 20 == 0 and step < steps:
            tf.profiler.experimental.start(str(options.model_dir / "profile" / f"step_{step}"))
            profiled.append(step)

    trainer = Trainer(run, model, optimizer, loss, batch, model_dir=options.model_dir, keep=options.keep_ckpt_max)
    if options.mode == "eval":
        if not int(trainer.step.numpy()):
            sys.exit(f"--mode eval: no checkpoint in {options.model_dir}")
        run.say(f"step {int(trainer.step.numpy())}, {evaluate()}")
    else:
        trainer.fit((lambda step: fake) if fake else batch_at, steps, options.log_every,
                    options.save_checkpoints_epochs * steps_per_epoch, None if fake else evaluate,
                    before=trace if options.profiling else None)  # fmt: skip
        if options.profiling:
            trace(steps)
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
