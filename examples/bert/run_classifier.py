"""A pre-trained BERT is fine-tuned: are two sentences of a tale in the order in which they were told?

    python examples/bert/run_classifier.py --init_checkpoint bert_phase_1
    python examples/bert/run_classifier.py

Others may lie between them. When tools are mended in a tale, goods made, carried to the market and sold, BERT read in
pre-training; the second line learns from the few pairs alone. The test is on tales that nobody has seen.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import start


def arguments() -> argparse.Namespace:
    parser = start.parser(__doc__, "bert")
    parser.add_argument("--bert_config_file", type=Path, help="the one of the pre-training")
    parser.add_argument("--init_checkpoint", type=Path, help="begin with it: a --model_dir or a file there")
    parser.add_argument("--max_seq_length", type=int, default=32)
    parser.add_argument("--train_batch_size", type=int, default=32, help="over all cards")
    parser.add_argument("--num_train_epochs", type=float, default=4.0)
    parser.add_argument("--warmup_proportion", type=float, default=0.1, help="steps in which the rate rises")
    parser.add_argument("--learning_rate", type=float, default=5e-4)
    parser.add_argument("--tales", type=int, default=2000, help="as in pre-training: their words are the vocabulary")
    parser.add_argument("--pairs", type=int, default=512, help="to train with")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import numpy as np
    import tensorflow as tf
    from common.accuracy import accuracy
    from common.loop import Trainer
    from common.schedules import WarmUp
    from corpus import Corpus
    from network import Classifier, read_config, restore

    corpus = Corpus(options.tales)
    config = read_config(options.bert_config_file, len(corpus.vocabulary))
    length, batch = options.max_seq_length, options.train_batch_size
    if length > config.max_position_embeddings:
        sys.exit(f"--max_seq_length {length}: the network has {config.max_position_embeddings} positions")
    steps = max(int(options.pairs * options.num_train_epochs / batch), 1)
    train = corpus.pairs(np.random.default_rng((options.seed, 0)), False, options.pairs, length)
    test = corpus.pairs(np.random.default_rng((0, 1)), True, 512, length)

    with run.strategy.scope():
        model = Classifier(config, corpus.padding, classes=2)
        model(tf.zeros([1, 2, length], tf.int32))
        if options.init_checkpoint:
            encoder = tf.train.Checkpoint(encoder=model.encoder)
            run.say(f"Begins with {restore(options.init_checkpoint, model=encoder)} of {options.init_checkpoint}")
        rate = WarmUp(options.learning_rate, int(steps * options.warmup_proportion), steps, power=1)
        optimizer = tf.keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0, jit_compile=False)

    def loss(model: Any, inputs: Any, labels: Any) -> Any:
        logits = model(inputs, training=True)
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))

    inputs = np.stack(train[:2], axis=1)

    def batch_at(step: int) -> tuple[Any, Any]:
        chosen = np.random.default_rng((options.seed, 2, step)).permutation(options.pairs)[:batch]
        return inputs[chosen], train[2][chosen]

    evaluate = accuracy(run.strategy, model, np.stack(test[:2], axis=1), test[2])
    trainer = Trainer(run, model, optimizer, loss, batch, model_dir=options.model_dir)
    trainer.fit(batch_at, steps, options.log_every, evaluate=evaluate, unit="pairs")
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
