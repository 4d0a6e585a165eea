"""BERT (arXiv 1810.04805): the encoder, its heads for pre-training, and one for classes."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import tensorflow as tf
from common.transformer import Block

layers = tf.keras.layers


@dataclass(frozen=True)
class Config:
    """The sizes, by the names that BERT's own configuration files have. The defaults are those of BERT-tiny."""

    vocab_size: int
    hidden_size: int = 128
    num_hidden_layers: int = 2
    num_attention_heads: int = 2
    intermediate_size: int = 512
    max_position_embeddings: int = 64
    type_vocab_size: int = 2
    hidden_dropout_prob: float = 0.0
    attention_probs_dropout_prob: float = 0.0
    initializer_range: float = 0.02  # of the embeddings; dense layers begin as Keras has them
    hidden_act: str = "gelu"


def read_config(file: Path | None, words: int) -> Config:
    """The configuration in a file, or the default for a vocabulary. Raises ValueError for what this BERT has not."""
    if file is None:
        return Config(words)
    told = json.loads(file.read_text())
    unknown = set(told) - {field.name for field in fields(Config)}
    if unknown:
        raise ValueError(f"{file}: this BERT knows nothing of {', '.join(sorted(unknown))}")
    made = replace(Config(words), **told)
    if made.vocab_size < words:
        raise ValueError(f"{file}: a vocab_size of {made.vocab_size} is too small for the {words} words of the text")
    if made.hidden_act != "gelu":
        raise ValueError(f"{file}: hidden_act is {made.hidden_act}, this BERT has gelu only")
    return made


class Layer(Block):
    """The block with its normalisations after the residual connections, as BERT has them, and with dropout."""

    def __init__(self, config: Config, name: str) -> None:
        super().__init__(config.hidden_size, config.num_attention_heads, config.intermediate_size,
                         config.attention_probs_dropout_prob, name)  # fmt: skip
        self.drop = layers.Dropout(config.hidden_dropout_prob)

    def call(self, x: Any, mask: Any = None, training: Any = None) -> Any:
        """x: [batch, time, width]. mask: bool, True where a key may be looked at."""
        x = self.norm_1(x + self.drop(self.attention(x, mask=mask, training=training), training=training))
        return self.norm_2(x + self.drop(self.dense(x), training=training))


class Encoder(layers.Layer):
    """Words [batch, time] of two kinds [batch, time] -> [batch, time, width], and a summary [batch, width].

    padding: the number of the word that fills up, which nobody looks at.
    """

    def __init__(self, config: Config, padding: int) -> None:
        super().__init__(name="bert")
        self.padding = padding

        def table(rows: int, name: str) -> Any:
            normal = tf.keras.initializers.TruncatedNormal(stddev=config.initializer_range)
            return layers.Embedding(rows, config.hidden_size, normal, name=name)

        self.words = table(config.vocab_size, "words")
        self.positions = table(config.max_position_embeddings, "positions")
        self.kinds = table(config.type_vocab_size, "kinds")
        self.norm = layers.LayerNormalization(epsilon=1e-6, name="norm")
        self.drop = layers.Dropout(config.hidden_dropout_prob)
        self.blocks = [Layer(config, f"layer_{k}") for k in range(config.num_hidden_layers)]
        self.pooler = layers.Dense(config.hidden_size, "tanh", name="pooler")

    def call(self, words: Any, kinds: Any, training: Any = None) -> tuple[Any, Any]:
        x = self.words(words) + self.positions(tf.range(tf.shape(words)[1])) + self.kinds(kinds)
        x = self.drop(self.norm(x), training=training)
        mask = (words != self.padding)[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask=mask, training=training)
        return x, self.pooler(x[:, 0])


class PreTraining(tf.keras.Model):
    """Words, kinds and places [batch, most] -> logits of the words there [batch, most, words], and of what follows."""

    def __init__(self, config: Config, padding: int) -> None:
        super().__init__()
        self.encoder = Encoder(config, padding)
        self.transform = layers.Dense(config.hidden_size, name="transform")
        self.norm = layers.LayerNormalization(epsilon=1e-6, name="norm")
        self.follows = layers.Dense(2, name="follows")
        self.bias = self.add_weight("word_bias", (config.vocab_size,), initializer="zeros")

    def call(self, words: Any, kinds: Any, places: Any, training: Any = None) -> tuple[Any, Any]:
        x, summary = self.encoder(words, kinds, training=training)
        table = tf.convert_to_tensor(self.encoder.words.embeddings)  # words are told by the table that reads them
        there = tf.reshape(tf.gather(x, places, batch_dims=1), [-1, table.shape[1]])
        there = self.norm(tf.nn.gelu(self.transform(there), approximate=True))
        logits = tf.matmul(there, table, transpose_b=True) + self.bias
        return tf.reshape(logits, [-1, places.shape[1], table.shape[0]]), self.follows(summary)


class Classifier(tf.keras.Model):
    """Words and kinds, as one tensor [batch, 2, time] -> logits [batch, classes]."""

    def __init__(self, config: Config, padding: int, classes: int) -> None:
        super().__init__()
        self.encoder = Encoder(config, padding)
        self.classes = layers.Dense(classes, kernel_initializer="zeros", name="classes")

    def call(self, inputs: Any, training: Any = None) -> Any:
        return self.classes(self.encoder(inputs[:, 0], inputs[:, 1], training=training)[1])


def restore(checkpoint: Path, **parts: Any) -> str:
    """Reads parts of the trained model (all of it: model=model) from a checkpoint or the latest in a directory.

    Gives its name. Raises ValueError where there is none, and AssertionError where a weight is not in it.
    """
    path = tf.train.latest_checkpoint(str(checkpoint)) if checkpoint.is_dir() else str(checkpoint)
    if path is None or not Path(f"{path}.index").exists():
        raise ValueError(f"--init_checkpoint: no checkpoint in {checkpoint}; run_pretraining.py --model_dir writes one")
    tf.train.Checkpoint(**parts).restore(path).assert_existing_objects_matched().expect_partial()
    return Path(path).name
