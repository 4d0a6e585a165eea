"""Which Keras the tests run under."""

from importlib.metadata import version

KERAS_3 = int(version("keras").split(".")[0]) >= 3
