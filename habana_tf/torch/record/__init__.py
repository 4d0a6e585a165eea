"""Ops recorded into a tree, and flushed into programs."""
