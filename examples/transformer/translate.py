"""A Transformer learns to translate, then does so by beam search, its keys and values kept on the card.

    python examples/transformer/translate.py
    habana-tf run -n 2 examples/transformer/translate.py --train_steps 200

With label smoothing and the rate of the paper (arXiv 1706.03762). The sentences are made by a grammar (`language.py`):
English into an invented language of another order of words, where adjectives and verbs agree. All sentences are filled
up to one length, so that there is one recipe. Afterwards sentences that were not trained with are translated: the loop
over the words is part of one launch, and the beams' keys and values move on the card.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import start

HELD_OUT = 1_000_000_000  # seeds of sentences from here on are never trained with


def arguments() -> argparse.Namespace:
    parser = start.parser(__doc__, "transformer")
    parser.add_argument("--train_steps", type=int, default=800)
    parser.add_argument("-b", "--batch_size", type=int, default=64, help="sentences, over all cards")
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1, help="parts a batch is computed in")
    parser.add_argument("--max_length", type=int, default=24, help="of a sentence and its end; 23 is enough for all")
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--num_hidden_layers", type=int, default=2, help="of the encoder, and of the decoder")
    parser.add_argument("--num_heads", type=int, default=4)
    parser.add_argument("--filter_size", type=int, default=256)
    parser.add_argument("--label_smoothing", type=float, default=0.1)
    parser.add_argument("--learning_rate", type=float, default=1.0, help="factor of the paper's rate")
    parser.add_argument("--learning_rate_warmup_steps", type=int, default=300)
    parser.add_argument("--beam_size", type=int, default=4, help="1 takes the likeliest word each time")
    parser.add_argument("--alpha", type=float, default=0.6, help="of the length penalty; 0: none")
    parser.add_argument("--eval_sentences", type=int, default=256)
    parser.add_argument("--eval_batch_size", type=int, default=64)
    parser.add_argument("--save_every", type=int, default=0, help="steps between two checkpoints; 0: in the end")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import numpy as np
    import tensorflow as tf
    from bleu import bleu
    from common import beam
    from common.loop import Trainer
    from common.schedules import Noam
    from common.text import Vocabulary
    from language import sentence
    from network import Transformer

    length, beams = options.max_length, options.beam_size
    known = {word for k in range(2000) for side in sentence((k,)) for word in side}
    vocabulary = Vocabulary(known | {"<begin>", "<end>", "<pad>"})
    begin, end, padding = vocabulary.encode(["<begin>", "<end>", "<pad>"])
    count = -(-options.eval_sentences // options.eval_batch_size) * options.eval_batch_size
    held_out = [sentence((HELD_OUT + k,)) for k in range(count)]
    never = {tuple(english) for english, _ in held_out}

    def numbers(sentences: list[Any]) -> tuple[Any, Any, Any]:
        """Sources, targets from <begin> on, and what follows on each of their words."""
        source = np.full((len(sentences), length), padding, np.int32)
        target, following = source.copy(), source.copy()
        for row, (english, other) in enumerate(sentences):
            words = vocabulary.encode(other)
            if max(len(english), len(other) + 1) > length:
                sys.exit(f"--max_length {length} is too short for a sentence of {len(other)} words and its end")
            source[row, : len(english)] = vocabulary.encode(english)
            target[row, : len(words) + 1] = [begin, *words]
            following[row, : len(words) + 1] = [*words, end]
        return source, target, following

    def batch_at(step: int) -> tuple[Any, Any, Any]:
        drawn = (sentence((options.seed, step, k)) for k in range(2 * options.batch_size))
        return numbers([each for each in drawn if tuple(each[0]) not in never][: options.batch_size])

    with run.strategy.scope():
        model = Transformer(len(vocabulary), padding, options.hidden_size, options.num_hidden_layers,
                            options.num_heads, options.filter_size, length)  # fmt: skip
        nothing = tf.zeros([1, length], tf.int32)
        model(nothing, nothing)
        rate = Noam(options.hidden_size, options.learning_rate_warmup_steps, options.learning_rate)
        optimizer = tf.keras.optimizers.Adam(rate, beta_1=0.9, beta_2=0.98, epsilon=1e-9, jit_compile=False)
    weights = sum(int(np.prod(each.shape)) for each in model.trainable_variables)
    run.say(f"Transformer: {weights:,} weights, {len(vocabulary)} words, {run.size} card(s), {options.dtype}")

    def loss(model: Any, source: Any, target: Any, following: Any) -> Any:
        """The mean over a sentence's words, so that cards and parts of a batch need not know each other's."""
        smooth = options.label_smoothing
        wanted = tf.one_hot(following, len(vocabulary)) * (1 - smooth) + smooth / len(vocabulary)
        counts = tf.cast(following != padding, tf.float32)
        each = tf.nn.softmax_cross_entropy_with_logits(wanted, model(source, target)) * counts
        return tf.reduce_sum(tf.reduce_sum(each, axis=1) / tf.reduce_sum(counts, axis=1))

    trainer = Trainer(run, model, optimizer, loss, options.batch_size, options.gradient_accumulation_steps,
                      options.model_dir)  # fmt: skip
    trainer.fit(batch_at, options.train_steps, options.log_every, options.save_every, unit="sentences")

    @tf.function
    def translate(source: Any) -> Any:
        """Sources [batch, length] -> the best translations, the same."""
        batch = source.shape[0]
        memory, mask = model.encode(source)
        repeated = [tuple(tf.repeat(x, beams, axis=0) for x in each) for each in model.remember(memory)]
        mask = tf.repeat(mask, beams, axis=0)

        def step(words: Any, at: Any, kept: Any) -> tuple[Any, Any]:
            return model.one(words, at, kept, repeated, mask)

        return beam.search(step, model.empty(batch * beams), batch, beams, length, begin, end, options.alpha)[0][:, 0]

    def words(row: Any) -> list[str]:
        told = [vocabulary.words[k] for k in row]
        return told[: told.index("<end>")] if "<end>" in told else told

    if run.rank == 0:
        made, seconds = [], []
        sources = numbers(held_out)[0]
        for at in range(0, count, options.eval_batch_size):
            began = time.perf_counter()
            made += [words(row) for row in translate(tf.constant(sources[at : at + options.eval_batch_size])).numpy()]
            seconds.append(time.perf_counter() - began)
        wanted = [other for _, other in held_out]
        right = sum(a == b for a, b in zip(made, wanted, strict=True)) / count * 100
        run.say(f"{' '.join(held_out[0][0])}\n-> {' '.join(made[0])}")
        score = bleu(made, wanted)
        run.say(f"{count} held-out sentences, {beams} beam(s): {right:.1f} % exactly right, BLEU {score:.1f}")
        later = f", later {options.eval_batch_size / min(seconds[1:]):.0f} sentences/s" if seconds[1:] else ""
        run.say(f"the first {options.eval_batch_size} in {seconds[0]:.1f} s, compilation included{later}")
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
