"""SSD with a ResNet-34 finds discs, squares and triangles in generated pictures, or what COCO's have.

    python examples/ssd/ssd.py --model_dir ssd_run
    python examples/ssd/ssd.py --model_dir ssd_run --mode eval
    python examples/ssd/ssd.py --model_dir ssd_run --inference picture.png
    habana-tf run -n 2 examples/ssd/ssd.py --distributed_bn --model_dir ssd_run
    mpirun -np 2 python examples/ssd/ssd.py --use_horovod --distributed_bn --model_dir ssd_run

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
    parser.add_argument("--num_examples_per_epoch", type=int, help="default: 1600, or all of --data_dir with objects")
    parser.add_argument("--data_dir", type=Path, help="as COCO: annotations/instances_train*.json and _val*, images")
    parser.add_argument("--resnet_checkpoint", help="weights of the backbone, from a checkpoint or its directory")
    parser.add_argument("--inference", type=Path, nargs="+", metavar="IMAGE", help="find objects in these; no training")
    parser.add_argument("--vis_dataloader", action="store_true", help="draw the first batch into model_dir")
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
    if (options.mode == "eval" or options.profiling or options.inference or options.vis_dataloader) and (
        options.model_dir is None
    ):
        parser.error("--mode eval, --profiling, --inference and --vis_dataloader need --model_dir")
    return options


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import backbone
    import boxes as box
    import model as ssd
    import numpy as np
    import tensorflow as tf
    from coco_metric import average_precisions
    from common import coco
    from common.loop import Trainer
    from common.shapes import CLASSES, pictures
    from detector import Detector, draw

    learn = options.mode == "train" and not options.inference
    data = None
    names, numbers, examples = list(CLASSES), list(range(len(CLASSES))), 1600
    if options.data_dir is not None:
        data = coco.Set(options.data_dir, "train" if learn else "val")
        names, numbers = data.names, data.numbers
        examples = sum(len(each.classes) > 0 for each in data.pictures)
    batch = options.batch_size * run.size
    steps_per_epoch = math.ceil((options.num_examples_per_epoch or examples) / batch)
    steps = options.steps or options.epochs * steps_per_epoch

    class Rate(tf.keras.optimizers.schedules.LearningRateSchedule):
        """Rises over the first epochs, falls to a tenth twice."""

        def __call__(self, step: Any) -> Any:
            at = tf.cast(step, tf.float32)
            warm = tf.minimum((at + 1) / max(options.lr_warmup_epoch * steps_per_epoch, 1), 1.0)
            ends = [part * steps * (1 + options.k / 10) for part in (0.7, 0.9)]
            falls = sum(tf.where(at >= end, 1.0, 0.0) for end in ends)
            return options.base_lr * batch / 32 * warm * 0.1**falls

    def normalize(**arguments: Any) -> Any:
        if options.distributed_bn and run.horovod:
            return run.horovod.SyncBatchNormalization(**arguments)
        return tf.keras.layers.BatchNormalization(synchronized=options.distributed_bn, **arguments)

    with run.strategy.scope():
        model, grids, trunk = ssd.network(options.image_size, options.depth, options.width, len(names), options.levels,
                                          normalize)  # fmt: skip
        optimizer = tf.keras.optimizers.SGD(Rate(), momentum=0.9, global_clipnorm=10.0, jit_compile=False)
    defaults = box.default_boxes(grids)
    kernels = [v for v in model.trainable_variables if "kernel" in v.name]
    run.say(f"SSD-ResNet{options.depth}: {model.count_params():,} weights, {len(defaults)} boxes, {run.size} card(s), "
            f"{steps} steps, {steps_per_epoch} an epoch")  # fmt: skip

    def shapes(count: int, *seed: int) -> tuple[Any, list[coco.Wanted]]:
        images, _, boxes, classes = pictures(count, options.image_size, (options.seed, *seed))
        return images, [(b[c > 0], c[c > 0]) for b, c in zip(boxes, classes, strict=True)]

    def batch_at(step: int) -> tuple[Any, ...]:
        if data is not None and not options.use_fake_data:
            images, told = data.batch(step, batch, options.image_size, options.seed)
        else:
            images, told = shapes(batch, 1, 0 if options.use_fake_data else step)
        if options.vis_dataloader and step == 0 and run.rank == 0:
            options.model_dir.mkdir(parents=True, exist_ok=True)
            for number, (image, (boxes, classes)) in enumerate(zip(images, told, strict=True)):
                draw(options.model_dir / f"dataloader_{number}.png", image, boxes, classes)
        wanted, kinds = zip(*(box.encode(*each, defaults) for each in told), strict=True)
        return images, np.stack(wanted), np.stack(kinds)

    fake = batch_at(0) if options.use_fake_data else None

    def loss(model: Any, images: Any, wanted: Any, kinds: Any) -> Any:
        offsets, logits = model(images, training=True)
        decay = options.weight_decay * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return ssd.loss(offsets, logits, wanted, kinds) + decay * options.batch_size

    detector = Detector(run, model, defaults, options.batch_size)

    def evaluate() -> str:
        if options.data_dir is None:
            images, wanted = shapes(options.eval_samples, 2)
            found = detector.find(images)
        else:
            chosen = coco.Set(options.data_dir, "val").pictures[: options.eval_samples]
            found = []
            for first in range(0, len(chosen), options.batch_size):
                some = chosen[first : first + options.batch_size]
                found += detector.find(np.stack([coco.load(each.path, options.image_size)[0] for each in some]))
            wanted = [(each.boxes, each.classes) for each in chosen]
        return ", ".join(f"{name}: {value:.4f}" for name, value in average_precisions(found, wanted).items())

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
    at = int(trainer.step.numpy())
    if options.resnet_checkpoint and learn and not at:
        run.say(f"{backbone.load(trunk, options.resnet_checkpoint)} variables from {options.resnet_checkpoint}")
    if not learn and not at:
        sys.exit(f"{'--inference' if options.inference else '--mode eval'}: no checkpoint in {options.model_dir}")
    if options.inference:
        where = options.model_dir / "inference"
        run.say(detector.infer(options.inference, options.image_size, names, numbers, where))
    elif not learn:
        run.say(f"step {at}, {evaluate()}")
    else:
        trainer.fit((lambda step: fake) if fake else batch_at, steps, options.log_every,
                    options.save_checkpoints_epochs * steps_per_epoch, None if fake else evaluate,
                    before=trace if options.profiling else None)  # fmt: skip
        if options.profiling:
            trace(steps)
    run.tell_placement(options.placement)
    if run.hpu:
        peak = tf.config.experimental.get_memory_info("HPU:0")["peak"]
        run.say(f"Peak memory of the card: {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
