"""Horovod beside HPU: importing it loads the device where it is wanted, and two of its calls are corrected."""
