"""Kernels of products: matrix products, convolutions and their gradients, in tiles of sums.

    choose    spec, CPU -> plan          which tile, which loops, what is packed; numbers from `product_costs`
    plan      the plan, as data
    program   plan -> kernels            the calls of a product, one after the other

Stages of a kernel:

    nest         loops from a work item to its tiles        tiling, blocks: how they are cut
    fill         copies operands in the order that a tile reads them
    accumulate   the sums of a tile, in registers           tile_engine: in its registers; padding: left out
    drain        passes sums to the epilogue                epilogue: its interface; fused: elementwise work

`winograd` recognizes convolutions that take fewer multiplications.
"""
