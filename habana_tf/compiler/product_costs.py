"""What the compiler weighs where it cuts products: sizes and costs of the CPU that runs them (see `costs`).

Work is counted in multiply-adds of whole vectors, whatever their width: a core does about four in a nanosecond.
"""

from __future__ import annotations

from habana_tf.compiler.costs import L2_BYTES, WIDEST_LANES

# -- which way a product is computed --------------------------------------------------------------------------------

NARROW_COLUMNS = 12
"""Columns beyond which lanes along them are full enough, of 16."""
NARROW_SUM_VECTORS = 4
"""Vectors of the sum from which on it is worth adding up the lanes of each in the end."""
NARROW_ROWS = 12
"""Rows of a tile beyond which nothing is gained."""
NARROW_ROW_VECTORS = 8
"""Vectors of rows of a tile beyond which nothing is gained."""
NARROW_SUMS = 8
"""Columns from which on one vector of rows gives a CPU sums enough to add to, and there is one square to turn over."""
DOT_CONTIGUOUS = 16
"""Elements side by side from which on lanes run along a sum where there is one column."""
DOT_TERMS = 64
"""Terms of a sum, altogether, from which on they do."""
GUARDED_WINDOW = 8
"""The largest extent of a guarded k label: each of its points is written out in code."""
PAIRED_ROWS = 24
"""Rows from which on b is worth packing in pairs for them alone."""
PAIRED_STEPS = 8
"""Steps of the sum from which on it is."""
PAIRED_LAST = 4
"""Steps of the last label of the sum from which on it is: an odd one is filled up."""
PACKED_ONCE_ROWS = 4
"""Rows from which on a panel that was packed beforehand is read faster than b as it lies."""
WIDENED_AGAIN = 2
"""Panels that an element of a in bf16 meets, up to which each widens it anew. A copy in fp32 saves the others that, but
is twelve bytes to move: for a convolution from many channels to few it took a third of the time."""
WIDENED_ROWS = 8
"""Rows that meet a panel of b in bf16 at least for a copy of it in fp32 to pay, where copies widen. Read as it lies a
vector takes two instructions more, in a tile of six rows or less: 1 x 1 convolutions of few channels took up to half as
long again. Two row tiles are enough where the copy stays in the second-level cache, elsewhere it takes TALL_ROWS."""
WIDENED_BYTES = 8 << 20
"""Bytes of a copy of a in fp32 from which on both operands are rather copied in blocks, where copies widen: the copy
would be written to memory and read again, a tenth of the time of a convolution from 512 channels to 128, a third from
256 to 64."""
COPY_WORK = 28
"""Multiply-adds in the time of which a vector is copied, from a line that no hardware fetched ahead: it took 12 on a
CPU that does one of them a cycle, and waits as long where two are done; and some to be sure."""
COPY_BLOCK_SIDE = 192
"""Rows, and columns, that a block of a large product has at least."""

# -- sharing a product among threads --------------------------------------------------------------------------------

ITEM_WORK = 400_000.0
"""Multiply-adds below which a work item is not made smaller: about 100 microseconds."""
THREAD_WORK = 40_000.0
"""Multiply-adds that are worth a thread's while: some ten microseconds."""
THREAD_PARTIAL_SUMS = 32768
"""Sums of chunks that a thread adds up at least."""
PACKED_WORDS = 32768
"""Words of b that a work item packs at least."""
SUMMED_ITEM_ROWS = 128
"""Rows that a work item makes at least where columns are added up, if MANY_WORK_ITEMS are left."""
SPREAD_ELEMENTS = 8192
"""Elements that one work item of `spread` turns into words."""

# -- tiles and panels -----------------------------------------------------------------------------------------------

TALL_TILE_VECTORS = 2
"""Vectors of a tile where a is packed: tall tiles, since a row costs no more for being one of many."""
LEAST_TILE_ROWS = 3
"""Rows of a tile below which it reads more than it multiplies."""
STACK_BYTES = 160 << 10
"""Bytes of the largest packed panel that an item keeps on its stack."""
TALL_ROWS = 96
"""Rows from which on b is worth packing because its rows are far apart, and a panel of it would not stay in the
first-level cache from one row tile to the next."""
L1_PANEL_BYTES = 16 << 10
"""Bytes of a panel that stays there: half of the smallest first-level cache."""
PANEL_ROWS = 256
"""Rows that meet a panel at least for packing it to pay, where every work item packs its own."""
LOAD_WORK = 0.8
"""Multiply-adds in the time of a load, where a step of the sum does little else: about one of each is begun a cycle."""
LOAD_BESIDE = 0.15
"""What a load takes beside multiply-adds that there are enough of to hide it."""
STEP_WORK = 5
"""Multiply-adds in the time of the shortest step: sums have to wait for those of the step before."""
RESIDENT_BYTES = L2_BYTES // 4
"""Bytes that a panel of b, and the lines of a that a row tile meets, may have together for the lines to be there still
when the next tile comes, where no hardware fetches them ahead. Weight gradients of convolutions with a stride took up
to twice as long when there were more."""

# -- compact code, for products that take less than their compilation -----------------------------------------------

COMPACT_WORK = 16_000_000.0
"""Multiply-adds up to which a product may be compact: about 3 milliseconds."""
COMPACT_REPEATED = 1 / 12
"""The part of all rows that compact code may compute twice to save a second form of tile."""
COMPACT_SLOWER = 0.04
"""How much longer a product may take, as a part of its time, for less code: of a small one the first step is waited
for, but there are many steps."""
TILE_FORM_WORK = 400_000.0
"""Multiply-adds that more code must save to be worth it: a tenth of a millisecond a step, where LLVM takes five to ten
for a form of tile once."""

# -- the loop over the sum ------------------------------------------------------------------------------------------

SUM_STEPS = 1024
"""Steps of a sum in a block. A tile has some 24 sums, which take some 50 cycles to add to those of the blocks before,
half a per cent of a block; most products of networks are no deeper."""
SUM_BLOCKS = 256
"""Blocks of a sum, of copies, that are added up one after the other."""
CHUNK_STEPS = 256
"""Steps of the sum that a chunk of it has at least; twice as many where chunks are made for the cache's sake."""
SPLIT_STEPS = 2048
"""Steps from which on the sum is cut in chunks because a and b are far larger than the second-level cache."""
MOST_CHUNKS = 64
"""Chunks of a sum, at most: each has a copy of the result in memory."""
STRIDED_BYTES = 512
"""Bytes from one step of the sum to the next from which on a row is read in strides."""
STRIDED_RUN = 64
"""Steps of one stride after which hardware fetches the next lines by itself."""
UNROLLED_WORK = 96
"""Multiply-adds of the largest k nest that is written out without a loop."""
TURN_WORK = 64
"""Multiply-adds that one turn of the innermost loop should have at least, where each step reads another line of a. With
40 such a product took an eighth longer (the weight gradient of a BERT's layer of 1024), with one step a turn half."""
NEAR_TURN_WORK = 40
"""The same where steps are neighbours in a: more makes code, which LLVM takes its time for, and none of it faster."""
COMPACT_TURN_WORK = 20
"""The same in compact code: one step of a usual tile, which has 24 to 28."""

# -- fetching ahead of use ------------------------------------------------------------------------------------------

COPY_AHEAD = 8
"""Steps of the sum that are fetched ahead of the copy: no hardware does it from page to page."""
NARROW_AHEAD = 32
"""Steps of the sum that vectors of rows are fetched ahead: no hardware does it from page to page."""
NARROW_FETCHING = 3
"""Columns from which on there is time to ask for the next tile's rows: with two it took longer, not shorter."""
WALKED_AHEAD = 12
"""Steps of depth from a vector's prefetch to its use."""
FETCH_LEVEL = 2
"""The cache that an epilogue's memory is asked into. A tile of an optimizer's tensors is a hundred lines, more than a
core waits for at its first level: the sums' own reads would stand behind them. Into the second level Adam's step on a
gradient of [784, 512] in bf16 took 0.98 ms instead of 1.12, from memory (Zen 4)."""
FETCHED_VECTORS = 32
"""Vectors of the largest tile whose epilogue's memory is asked for beforehand: of the tile engine's, rows are long."""

# -- epilogues ------------------------------------------------------------------------------------------------------

INLINE_EPILOGUE = 480
"""Instructions of epilogue that one tile may have inline."""
LONG_SUM_STEPS = 128
"""Steps of a sum beside which it costs nothing that could be measured to have the epilogue in a loop."""
LONG_SUM_EPILOGUE = 96
"""Instructions of epilogue inline behind so long a sum: of a tile that is stored as it is, not more."""

# -- copies of both operands in blocks ------------------------------------------------------------------------------

BLOCK_STEPS = 256
"""Words along the sum in a block."""
LOW_BLOCK_ROWS = 64
"""Rows of a up to which a block of b is low and wide, if lines of memory are along the columns. On a weight of
4,096 x 4,096 in 8 bits one row took 5.2 ms by high blocks and 3.9 by low ones, 16 rows 11.4 and 10.2 (Zen 3): each step
of the sum is in another page of memory."""
LOW_BLOCK_STEPS = 64
"""Words along the sum in such a block: as many pages as the first of a core's tables of them has (64 on Zen 3)."""
BLOCK_ROW_BYTES = 192 << 10
"""Bytes of packed rows in a block."""
BLOCK_COLUMN_BYTES = 192 << 10
"""Bytes of packed columns in a block."""
BLOCK_SUM_BYTES = 192 << 10
"""Bytes of sums between blocks."""
BLOCK_ROWS = 128
"""Rows of a block at least, for packing the columns to pay."""
FILLED_UNITS = 4
"""Units of the sum that copies are filled up to with zeros: what a turn of the inner loop takes at most."""
SHORT_STEP_WORK = 16
"""Multiply-adds of a unit up to which a turn takes so many of them, and else half."""

# -- Winograd's algorithm -------------------------------------------------------------------------------------------

WINOGRAD_CHANNELS = 16
"""Channels, and columns, from which on the transformations are a small part."""
WINOGRAD_TILES = 96
"""Tiles from which on transforming the filter is a small part."""
WINOGRAD_GRADIENT_TILES = 192
"""Tiles from which on transforming a filter's gradient back is a small part."""
WINOGRAD_WORK = 2_000_000
"""Multiply-adds of the definition from which on what is saved pays for more code: about half a millisecond."""
WINOGRAD_SAVED = 1.6
"""Multiplications of the definition for one here, from which on it is faster. Tiles that reach over the edge cost as
much as others: of 7 x 7 results 1.7 remain of 2.25, of 5 x 5 less than pays."""
WINOGRAD_BLOCK = 128
"""Channels in a block of results, and columns: 16 elements of some 28 tiles by as many are a quarter of a megabyte."""
WINOGRAD_BLOCK_TILES = 28
"""Tiles in a block of results, at most: as many as read a panel of the filter while it is in the first-level cache."""
WINOGRAD_GRADIENT_BLOCK = 64
"""Channels in a block of a filter's gradient, and columns: 16 elements of as many by as many, again."""
WINOGRAD_GRADIENT_STEPS = 32
"""Tiles in a block of a filter's gradient."""
WINOGRAD_THREAD_CHANNELS = 64
"""Channels of a panel that a thread transforms at least."""
WINOGRAD_THREAD_COLUMNS = 2048
"""Columns of a filter's gradient that a thread transforms back at least, those of all its channels together."""
WINOGRAD_TURN = 2
"""Steps of the sum in a turn: channels, or tiles of a gradient, come in multiples of it."""

# -- products that are walked, whatever their sizes -----------------------------------------------------------------

WALKED_WORK = 20_000_000.0
"""Multiply-adds of the largest product that is walked: some milliseconds."""
WALKED_APART_WORK = 1_000_000.0
"""The same where columns are gathered, which takes twice as long."""
WALKED_NARROW_WORK = 2_000_000.0
"""The same of so few columns that code of its own has lanes along something else, and takes a fourth of the time."""
SHALLOW_CHANNELS = 8
"""Channels below which a window is walked in so short steps that code of its own takes a third of the time or less."""
SHALLOW_WORK = 500_000.0
"""Multiply-adds of the largest product with such a window that is walked."""
WALKED_FEW_ROWS = 4
"""Rows below which a tile is one row, but wider."""
WALKED_WINDOWS = 256
"""Windows of a product, at most: each is a line of a table."""
WINDOW_BLOCK = 256
"""Windows whose sums are a block, of those that are not in a table: there may be millions."""


def walked_rows(lanes: int) -> int:
    """Rows of a tile of two vectors whose sums stay in registers."""
    return 14 if lanes >= WIDEST_LANES else 6
