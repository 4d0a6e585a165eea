"""What the compiler weighs against each other: sizes and costs of the CPU that runs kernels. Those of products are in
`product_costs`.

A number was measured, on one or two CPUs, where its reason says how much something takes or gains. The others were
chosen: how often a call is cut, from what on something counts as often, how long code may get.

Numbers of a format or of an algorithm (fields of an object file, points of a filter) are no costs and stay where they
are used; which instructions a CPU has, and how many registers, a `Target` says.
"""

from __future__ import annotations

# -- caches and vectors -------------------------------------------------------------------------------------------

CACHE_LINE = 64
"""Bytes that come from memory together."""
L1_WAYS = 8
"""Lines of one place in the first-level cache."""
L1_SPAN = 4096
"""Bytes after which lines have the same place in the first-level cache: 64 places of 64 bytes. Rows that are a large
power of two apart share few places, and a panel of them does not stay in the cache however small it is."""
L2_BYTES = 1 << 20
"""Bytes of second-level cache per core that tiles are made for."""
WIDEST_LANES = 16
"""fp32 lanes of the widest vectors. CPUs that have these have twice as many of them as others, and load and store some
lanes of a vector of any type as quickly as all."""
SPARSE_VECTOR = 4
"""How many times an axis of few points would go into a vector."""

# -- sharing a call among threads ---------------------------------------------------------------------------------

WORK_ITEMS = 16
"""Work items wanted in a call that is long enough to share."""
MANY_WORK_ITEMS = 64
"""Work items wanted in a call that is so long that each of them is worth a thread's while, so that many processors have
work; parts that a reduction is cut into at most."""
ITEM_ELEMENTS = 4096
"""Elements that a work item should at least have."""
ITEM_STRETCH = 8192
"""Elements of the vector axis in one work item, at most."""
THREAD_ELEMENTS = 16384
"""Elements that are worth waking a second thread for."""
THREAD_SORTED = 1024
"""Elements that a thread sorts at least."""
THREAD_RANDOM_VECTORS = 256
"""Vectors of random numbers that a thread makes at least."""
THREAD_SCANS = 64
"""Scans that a thread does at least."""
THREAD_SCATTERS = 64
"""Work items of a scatter that a thread does at least, where nothing is known of the number of updates."""
THREAD_ADDITIONS = 16384
"""Numbers that a thread adds up at least."""

# -- which values are kept in memory, and what is computed again ----------------------------------------------------

VECTOR_OPERATIONS = {
    **dict.fromkeys("div floordiv sqrt".split(), 8),
    **dict.fromkeys("rsqrt exp log log1p expm1 tanh sigmoid".split(), 20),
    **dict.fromkeys("erf erfc asin acos atan atan2 cosh".split(), 40),
    **dict.fromkeys("sin cos tan sinh asinh acosh atanh".split(), 80),
    **dict.fromkeys("lgamma pow floormod truncmod".split(), 400),
}
"""What a function of a vector takes in additions, where that is more than one; the last row are calls per lane."""


def bf16_rounding(rounds_to_bf16: bool) -> int:
    """What rounding a vector to bf16 takes in additions. rounds_to_bf16: one instruction does it; elsewhere it is made
    of ten: three for NaN, three to put the halves of a vector together."""
    return 1 if rounds_to_bf16 else 10


CHEAP_OPERATIONS = 3
"""Scalar operations up to which a value is computed again wherever it is read, unless that is very often."""
OFTEN_READ = 64
"""Readings of an element that are very often."""
KERNEL_OPERATIONS = 1 << 19
"""Scalar operations that take several times as long as to begin a kernel."""
MOST_VIEWS = 32
"""Views between a value and the memory it is read from, at most: each makes the index longer, and the code."""
MOST_OPERATIONS = 160
"""Scalar operations up to which a value may be computed again: all its readers have the code of all of them."""
MOST_SOURCES = 6
"""Tensors that such a value may be computed from."""
MEMORY_BYTES = 3 / 16
"""Bytes that a core reads from memory or writes to it in the time of an operation on one number: 3 bytes a cycle, of a
core that works on 16 numbers in each."""
CACHE_BYTES = 24 / 16
"""The same where the bytes are still in the core's cache."""
CACHED_BYTES = 1 << 18
"""Bytes of a tensor that stays there from one kernel to the next."""
STREAMED_BYTES = 12 << 20
"""Bytes from which on a result is written past the caches. In a step of MobileNetV2 what is won by writing results of
14.7 MB past a cache of 32 MB is twice what reading them takes longer; of 7 MB it is less."""
COPIED_TRIPS = 4
"""Iterations of a loop from which on a copy of what all of them read pays."""

# -- which kernels are fused ----------------------------------------------------------------------------------------

FUSED_STORES = 10
"""Results that a kernel writes, at most: each needs a register for its address."""
FUSED_CANDIDATES = 12
"""Kernels of the same domain, the latest ones, that one more is tried to be fused with: trying takes compile time."""
TINY_ELEMENTS = 4096
"""Elements below which unrelated kernels of one domain are fused to save kernel calls. Parts of a whole are not: many
that are alike have one function (see `merged_functions`)."""
EPILOGUE_OPERATIONS = 40
"""Scalar operations in a contraction's epilogue; more makes its code too long."""
EPILOGUE_STORES = 4
"""Results that a product and its epilogue write, at most: the tile of sums leaves no more registers for addresses."""
EPILOGUE_SUMS = 4
"""Sums beside a product: each has registers."""
SUMMED_ELEMENTS = 65536
"""Elements of a product's result from which on its sums are not left to a kernel of their own."""

# -- blocks of rows of loops and of attention -----------------------------------------------------------------------

LOOP_ROWS_LEAST = 6
"""Rows of a block at least: a product's tile has about as many, and fewer would read the weights more often."""
LOOP_ROWS_MOST = 16
"""Rows of a block at most: with more there are too few blocks to share, and values leave the first-level cache."""
LOOP_SHARED_BYTES = 1 << 20
"""Bytes of what all rows have in common, up to which it stays in a core's second-level cache from one iteration to the
next; larger weights are read less often by all rows at once."""
SCORES_BYTES = 32 << 20
"""Bytes (in fp32) of a product's result from which it does not stay in a cache until it is read again."""
SCORES_RATIO = 2
"""How much larger it is than what it is made of, at least."""
SCORES_HEADS = 4
"""Blocks of rows that threads can share, at least."""
SCORES_OPERAND_RATIO = 4
"""A tensor in memory with a value for each row and column has to be so much smaller than the wide values: a mask that
all heads have in common is."""
SCORES_HANDED_BYTES = 96 << 20
"""Bytes of a wide value up to which a later group is handed it: reading it took a quarter of the time of making it
anew. Larger ones are made anew, so that memory grows with the rows and not with their square."""
SCORES_BLOCK_BYTES = 4 << 20
"""Bytes that the wide values of a block may have in fp32. They do not all stay in a core's second-level cache, but in
the share of the next one that a core has; blocks of half the rows make products that are a tenth slower."""
SCORES_ROWS = 16
"""Rows of a block at least: a vector of the widest kind."""

# -- reductions -----------------------------------------------------------------------------------------------------

SUM_BLOCK = 256
"""Additions to one register in a block. Of equal terms forty units of the last place are lost in each of the two or
three levels; shorter blocks lose less, and what is done between them, twenty cycles or so, shows."""
SUM_LEVELS = 2
"""Levels of blocks of a loop whose length is known at run time only: enough for 256 ** 3 turns."""
SPLIT_ELEMENTS = 65536
"""Elements from which a reduction is worth splitting."""
SPLIT_FEW_POINTS = 7
"""Points of a kept axis that are no work items of their own: a filter's taps in one direction."""
SPLIT_PART_SHORT = 8
"""Elements that each sum of a part should have at least."""
SPLIT_PART_LONG = 64
"""The same where another axis is cut already: there are some parts, and more are worth less."""
LONG_OPERATIONS = 8
"""Operations at a point that take longer than to add what comes of them, so that one accumulator will do."""
SUMMED_VECTORS = 4
"""Vectors of a row that are taken in a turn, each with an accumulator of its own."""
WIDE_COLUMNS = 2048
"""Columns whose sums wait in memory, at most."""
WIDE_ITEM_COLUMNS = 1024
"""Columns that a work item should have, so that it walks memory as it lies: by halves of rows of 512 it takes twice as
long."""
WIDE_ROWS = 32
"""Rows from which on it pays that sums wait in memory."""

# -- windows, small axes, transposed reads --------------------------------------------------------------------------

WRITTEN_OUT_POINTS = 9
"""Points of small axes that are written out: a filter of 3 x 3."""
WINDOW_ROW_ITEMS = 64
"""Rows of images from which on each is one work item."""
WINDOW_STRIPS = (2, 3)
"""Points of a row whose windows are summed up at a time: more read from more lines at once, and take longer."""
WINDOW_GUARDED = 4
"""How many times as long as the shortest a point takes that is guarded."""
PLACE_VECTORS = 2
"""Vectors of columns side by side where places in a few rows are found: more are more code, and no faster."""


def window_sum_registers(lanes: int) -> int:
    """Vectors of sums that stay in registers: CPUs with the widest vectors have twice as many as others."""
    return 24 if lanes >= WIDEST_LANES else 12


CROSSED_SQUARES = 4
"""Squares side by side in a work item, at most, whose lines of memory follow each other."""
CROSSED_TENSORS = 4
"""Tensors read across, at most: each has a square on the stack."""
CROSSED_POINTS = 1 << 16
"""Points of a loop from which on it is worth three times the code; over sizes that are not known it is."""

# -- scatter and sort -----------------------------------------------------------------------------------------------

SCATTER_VECTORS = 4
"""Vectors of an update that a work item makes, at most."""
SCATTER_PARTS = 2
"""Parts of the first indexed axis per vector of an update: passing over one takes about a fourth of making a vector."""
SCATTER_NUMBERS = 8192
"""Numbers in all updates below which they are not worth passing over more than once."""
SUMMED_UPDATES = 1024
"""Updates in a block, at least."""
SUMMED_PASSES = 16
"""Updates in a block for each of its places, at least, so that what is done between blocks does not show."""
SUMMED_BLOCKS = 2048
"""Blocks, at most: both chains of additions grow with the root of the number of updates from here on."""
SUMMED_NUMBERS = 32768
"""Numbers of a part on the stack, at most: 128 KiB."""
SORT_DIGITS = 1024
"""Elements that are sorted digit by digit at least, and not by merging."""
SORT_SELECTS = 4
"""How many times as many elements as are wanted there must be for it to be worth leaving the others out."""
SORT_WORDS = 256
"""Words that are merged together at least."""
SORT_STRETCH = 64
"""Elements that are compared before it is seen whether there is room for more."""

# -- compile time -----------------------------------------------------------------------------------------------------

MODULE_IR_BYTES = 64 << 10
"""Bytes of IR of a module that is worth sending to another process."""
WORKER_PROCESSES = 7
"""Processes that help to compile, at most: the code generator does not write for more."""
WORKER_PRODUCTS = 6
"""Products of a program that takes long enough to compile for a worker process to start meanwhile: of a product there
are 50 KB of IR, and LLVM takes 20 ms for it."""
SMALL_MODULE = 3
"""How many times smaller the first module is, which a worker process waits for, and are those of the last kernels: in
the end one process waits for the other's module."""
LAST_KERNELS = 0.4
"""The part of all kernels that are the last ones."""
ONE_OP_KERNELS = 6
"""Kernels of an op by itself, at most."""
ONE_PRODUCT_COPIES = 2
"""Operands of a product that may have to be brought into another form in memory."""
MERGED_FUNCTIONS = 4
"""Functions that are not worth merging: known numbers make better code."""
MERGED_CHARACTERS = 8000
"""Characters of a function that is not looked at: it takes longer, and long ones are hardly ever alike."""
LINKED_LIBRARIES = 32
"""Libraries of one linker. It takes a millisecond and 110 KiB to make one."""
