"""Resolves a launch: a cluster with shapes and values in, a program out. Keys, ranges, fallbacks, reports."""
