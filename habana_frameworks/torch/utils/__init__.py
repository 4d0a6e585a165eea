"""Habana's helpers for programs."""
