"""A cluster: its form, its content's digest, its program, and the ranges of sizes it may be compiled for."""
