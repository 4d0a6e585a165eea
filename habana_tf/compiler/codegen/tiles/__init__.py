"""Kernels of products: matrix products, convolutions and their gradients, in tiles of sums.

    choose    spec, CPU -> plan          which tile, which loops, what is packed; numbers from `product_costs`
    plan      the plan, as data          tiling, blocks, narrow: its parts; plan_text: written and read
    program   plan -> kernels            the calls of a product, one after the other

A kernel (`kernel`) is a loop over work items around these stages; `products`, `block_kernel`, `copies`, and for
Winograd's algorithm `winograd_kernels` and `winograd_gradient` have them:

    nest         loops from a work item to its tiles
    fill         copies operands in the order that a tile reads them        operand: where their elements lie
    accumulate   the sums of a tile, in registers        tile_engine: in its registers; padding: left out
    drain        passes sums to the epilogue             epilogue: its interface; fused: elementwise work

`winograd` recognizes convolutions that take fewer multiplications.
"""
