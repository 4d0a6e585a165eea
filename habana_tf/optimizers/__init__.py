"""Learning rate schedules of Habana's: `cyclical_learning_rate.CyclicalLearningRate`."""

__all__ = ["cyclical_learning_rate"]
