"""`optimizers`: learning rate schedules.

Habana's: what scripts had taken from TensorFlow Addons before.
Here: the one that is known of it, `cyclical_learning_rate.CyclicalLearningRate`.
"""

__all__ = ["cyclical_learning_rate"]
