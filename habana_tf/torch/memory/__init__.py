"""Storages of the card: blocks of simulated HBM, element types, strides, views as primitives."""
