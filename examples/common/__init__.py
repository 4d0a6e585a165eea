"""What the larger programs share: arguments and the card, the training loop, data without a download, layers."""
