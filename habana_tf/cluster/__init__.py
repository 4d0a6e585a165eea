"""The interface of clusters to front ends, their lowering, and the ranges of sizes they are compiled for."""
