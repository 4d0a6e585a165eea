"""A small decoder learns a story letter by letter, then goes on with it, its keys and values kept on the card.

    python examples/text_generation/generate.py --prompt "The miller took "

Each new letter needs the keys and values of all before it. They are computed once and kept in tensors of a fixed
length, so every letter is the same launch: a shape that grew would be a new recipe each time, as on a card. The loop
over the letters is a `tf.while_loop` within one function. `--no_cache` computes everything again for each letter.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from common import start


def arguments() -> argparse.Namespace:
    parser = start.parser(__doc__, "text_generation")
    parser.add_argument("--num_steps", type=int, default=300)
    parser.add_argument("-b", "--batch_size", type=int, default=16, help="over all cards")
    parser.add_argument("--length", type=int, default=128, help="of a piece of text, and the most that is looked back")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--save_every", type=int, default=0, help="steps between two checkpoints; 0: in the end")
    parser.add_argument("--prompt", default="The miller took ")
    parser.add_argument("--max_new_tokens", type=int, default=100)
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest letter")
    parser.add_argument("--no_cache", action="store_true", help="compute all keys and values again for each letter")
    return parser.parse_args()


def decoder(options: argparse.Namespace, letters: int) -> Any:
    """A network from letters [batch, time] to logits [batch, time, letters], which can also go letter by letter."""
    import tensorflow as tf
    from common.transformer import Block, causal

    class Decoder(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.embed = tf.keras.layers.Embedding(letters, options.width)
            self.where = tf.keras.layers.Embedding(options.length, options.width)
            self.blocks = [Block(options.width, options.heads, 4 * options.width) for _ in range(options.depth)]
            self.norm = tf.keras.layers.LayerNormalization(epsilon=1e-6)
            self.head = tf.keras.layers.Dense(letters)

        def call(self, text: Any) -> Any:
            length = tf.shape(text)[1]
            x = self.embed(text) + self.where(tf.range(length))
            for block in self.blocks:
                x = block(x, mask=causal(length))
            return self.head(self.norm(x))

        def empty(self, batch: int) -> Any:
            """Keys and values of no letters: float32 [depth, 2, batch, heads, length, width of a head]."""
            depth = options.width // options.heads
            return tf.zeros([options.depth, 2, batch, options.heads, options.length, depth])

        def one(self, letter: Any, at: Any, kept: Any) -> tuple[Any, Any]:
            """The logits [batch, letters] after one more letter [batch] at a place, and the cache with it."""
            x = self.embed(letter)[:, None] + self.where(at)
            new = []
            for k, block in enumerate(self.blocks):
                mixed, keys, values = block.attention.one(block.norm_1(x), at, kept[k, 0], kept[k, 1])
                new.append(tf.stack([keys, values]))
                x = block.feed(x + mixed)
            return self.head(self.norm(x))[:, 0], tf.stack(new)

    return Decoder()


def generator(model: Any, options: argparse.Namespace, prompt: int, end: int) -> Any:
    """A function: letters [batch, length], the prompt's and zeros -> the same with the others filled in.

    The loop's length is a number, not a tensor: then it is part of the launch instead of a launch for each letter.
    """
    import tensorflow as tf

    def choose(logits: Any) -> Any:
        if options.temperature == 0:
            return tf.argmax(logits, axis=-1, output_type=tf.int32)
        return tf.random.categorical(logits / options.temperature, 1, dtype=tf.int32)[:, 0]

    @tf.function
    def with_cache(text: Any) -> Any:
        def more(at: Any, text: Any, kept: Any) -> tuple[Any, Any, Any]:
            logits, kept = model.one(tf.gather(text, at, axis=1), at, kept)
            fill = (tf.range(options.length) == at + 1) & (at + 1 >= prompt)
            return at + 1, tf.where(fill, choose(logits)[:, None], text), kept

        first = (tf.constant(0), text, model.empty(text.shape[0]))
        return tf.while_loop(lambda at, *_: at + 1 < end, more, first)[1]

    @tf.function
    def without_cache(text: Any) -> Any:
        def more(at: Any, text: Any) -> tuple[Any, Any]:
            logits = tf.gather(model(text), at - 1, axis=1)
            return at + 1, tf.where(tf.range(options.length) == at, choose(logits)[:, None], text)

        return tf.while_loop(lambda at, _: at < end, more, (tf.constant(prompt), text))[1]

    return without_cache if options.no_cache else with_cache


def main() -> None:
    options = arguments()
    run = start.begin(options)

    import numpy as np
    import tensorflow as tf
    from common.loop import Trainer
    from common.schedules import WarmUp
    from common.text import letters

    text, vocabulary = letters()
    unknown = set(options.prompt) - set(vocabulary.words)
    if unknown or not 0 < len(options.prompt) < options.length:
        sys.exit(f"--prompt: 1 to {options.length - 1} letters of the story; not in it: {sorted(unknown)}")

    def batch_at(step: int) -> tuple[Any, Any]:
        begins = np.random.default_rng((options.seed, step)).integers(0, len(text) - options.length, options.batch_size)
        pieces = np.stack([text[k : k + options.length + 1] for k in begins])
        return pieces[:, :-1], pieces[:, 1:]

    with run.strategy.scope():
        model = decoder(options, len(vocabulary))
        model(tf.zeros([1, options.length], tf.int32))
        rate = WarmUp(options.learning_rate, options.num_steps // 10, options.num_steps)
        optimizer = tf.keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=1.0, jit_compile=False)

    def loss(model: Any, pieces: Any, following: Any) -> Any:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=following, logits=model(pieces))
        return tf.reduce_sum(tf.reduce_mean(each, axis=1))

    trainer = Trainer(run, model, optimizer, loss, options.batch_size, model_dir=options.model_dir)
    trainer.fit(batch_at, options.num_steps, options.log_every, options.save_every, unit="pieces")

    if run.rank == 0:
        end = min(len(options.prompt) + options.max_new_tokens, options.length)
        begun = np.zeros([1, options.length], np.int32)
        begun[0, : len(options.prompt)] = vocabulary.encode(list(options.prompt))
        generate = generator(model, options, len(options.prompt), end)
        inputs = tf.constant(begun)
        first = time.perf_counter()
        generate(inputs).numpy()
        second = time.perf_counter()
        made = generate(inputs).numpy()[0, :end]
        passed = time.perf_counter() - second
        new = end - len(options.prompt)
        run.say(f"{new / passed:.0f} letters/s of {new}; the first time {second - first:.1f} s, compilation included")
        run.say("".join(vocabulary.words[k] for k in made))
    run.tell_placement(options.placement)


if __name__ == "__main__":
    main()
