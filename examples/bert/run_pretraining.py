"""BERT is pre-trained: it learns to tell hidden words, and whether one piece of text follows on another.

    python examples/bert/run_pretraining.py --model_dir bert_phase_1
    python examples/bert/run_pretraining.py --init_checkpoint bert_phase_1 --model_dir bert_phase_2 \\
        --max_seq_length 64 --max_predictions_per_seq 10 --train_batch_size 32 --num_train_steps 150

In two phases, with LAMB, gradient accumulation, and a rate that rises and falls, as BERT is trained with large batches
(arXiv 1904.00962); short sequences first, longer ones from the weights of the first phase. The arguments are those of
the programs that did it on cards; the text is made by a grammar (`common/tales.py`), its words are the vocabulary.
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
    parser.add_argument("--bert_config_file", type=Path, help="sizes as JSON, by BERT's names; without it a small BERT")
    parser.add_argument("--init_checkpoint", type=Path, help="begin with it: a --model_dir or a file there")
    parser.add_argument("--max_seq_length", type=int, default=32)
    parser.add_argument("--max_predictions_per_seq", type=int, default=5, help="hidden words in a sequence at most")
    parser.add_argument("--masked_lm_prob", type=float, default=0.15, help="part of the words that is hidden")
    parser.add_argument("--train_batch_size", type=int, default=64, help="over all cards")
    parser.add_argument("--num_accumulation_steps", type=int, default=1, help="parts a batch is computed in")
    parser.add_argument("--num_train_steps", type=int, default=400)
    parser.add_argument("--num_warmup_steps", type=int, default=60)
    parser.add_argument("--learning_rate", type=float, default=1e-2)
    parser.add_argument("--power", type=float, default=1.0, help="of the polynomial by which the rate falls")
    parser.add_argument("--weight_decay", type=float, default=0.01)
    parser.add_argument("--eval_every", type=int, default=200)
    parser.add_argument("--save_checkpoints_steps", type=int, default=0, help="0: in the end")
    parser.add_argument("--tales", type=int, default=2000, help="of the text that is trained with")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import numpy as np
    import tensorflow as tf
    from common.lamb import LAMB
    from common.loop import Trainer
    from common.schedules import WarmUp
    from corpus import Corpus
    from network import PreTraining, read_config, restore

    corpus = Corpus(options.tales)
    config = read_config(options.bert_config_file, len(corpus.vocabulary))
    length, most = options.max_seq_length, options.max_predictions_per_seq
    if length > config.max_position_embeddings:
        sys.exit(f"--max_seq_length {length}: the network has {config.max_position_embeddings} positions")

    def draw(seed: tuple[int, ...], rows: int, held_out: bool) -> tuple[Any, ...]:
        random = np.random.default_rng(seed)
        return corpus.masked(random, held_out, rows, length, most, options.masked_lm_prob)

    with run.strategy.scope():
        model = PreTraining(config, corpus.padding)
        nothing = tf.zeros([1, length], tf.int32)
        model(nothing, nothing, tf.zeros([1, most], tf.int32))
        if options.init_checkpoint:
            run.say(f"Begins with {restore(options.init_checkpoint, model=model)} of {options.init_checkpoint}")
        rate = WarmUp(options.learning_rate, options.num_warmup_steps, options.num_train_steps, options.power)
        optimizer = LAMB(rate, options.weight_decay)
    weights = sum(int(np.prod(each.shape)) for each in model.trainable_variables)
    run.say(f"BERT: {weights:,} weights, {len(corpus.vocabulary)} words, {run.size} card(s), {options.dtype}")

    def loss(model: Any, words: Any, kinds: Any, places: Any, hidden: Any, counts: Any, follows: Any) -> Any:
        """The mean over a sequence's hidden words, so that cards and parts of a batch need not know each other's."""
        logits, after = model(words, kinds, places, training=True)
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=hidden, logits=logits) * counts
        of_words = tf.reduce_sum(each, axis=1) / tf.reduce_sum(counts, axis=1)
        return tf.reduce_sum(of_words + tf.nn.sparse_softmax_cross_entropy_with_logits(labels=follows, logits=after))

    @tf.function
    def told(words: Any, kinds: Any, places: Any) -> Any:
        def work(*inputs: Any) -> Any:
            return [tf.argmax(each, axis=-1, output_type=tf.int32) for each in model(*inputs, training=False)]

        chosen = run.strategy.run(work, args=(words, kinds, places))
        return [run.strategy.experimental_local_results(each)[0] for each in chosen]

    unseen = draw((0, 0), 512, held_out=True)

    def right(guessed: Any) -> float:
        """The part of the hidden words of held-out text, in percent."""
        hidden, counts = unseen[3:5]
        return float(((guessed == hidden) * counts).sum() / counts.sum() * 100)

    def evaluate() -> str:
        guessed, after = (each.numpy() for each in told(*(tf.constant(each) for each in unseen[:3])))
        next_right = (after == unseen[5]).mean() * 100
        return f"held-out text: hidden words {right(guessed):.1f} %, what follows {next_right:.1f} %"

    common = np.bincount([word for tale in corpus.trained for each in tale for word in each]).argmax()
    run.say(f'always guessing "{corpus.vocabulary.words[common]}": hidden words {right(common):.1f} %')
    trainer = Trainer(run, model, optimizer, loss, options.train_batch_size, options.num_accumulation_steps,
                      options.model_dir)  # fmt: skip
    run.say(f"step {int(trainer.step.numpy())}/{options.num_train_steps}, {evaluate()}")
    trainer.fit(lambda step: draw((options.seed, step), options.train_batch_size, held_out=False),
                options.num_train_steps, options.log_every, options.save_checkpoints_steps, evaluate,
                options.eval_every, unit="sequences")  # fmt: skip
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
