"""Passes over the placed graph, one file each, one visible pipeline (`pipeline.py`)."""
