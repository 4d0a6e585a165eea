"""Learning rate schedules of Habana's: `cyclical_learning_rate.CyclicalLearningRate`."""
