// Making and running programs from Python.
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "bridge/python.h"
#include "runtime/program.h"

namespace habana {

using CallTuple = std::tuple<uint64_t, std::vector<int>, std::vector<int64_t>, int64_t, int64_t>;
using BufferTuple = std::tuple<int, int, int64_t, int64_t>;
using OutputTuple = std::tuple<int, std::vector<int64_t>>;
using StateTuple = std::tuple<int, uint64_t>;
using CopyTuple = std::tuple<int, int, int>;                     // call, input, output
using UpdateTuple = std::tuple<size_t, size_t>;                  // input, output
using WindowTuple = std::tuple<int, int64_t, int64_t, int64_t>;  // buffer, start, step, block
using CarriedTuple = std::tuple<int, int, int, int>;             // now, next, from, to
// first, calls, trips, windows, carried, blocks
using LoopTuple =
    std::tuple<int64_t, int64_t, int64_t, std::vector<WindowTuple>, std::vector<CarriedTuple>, int64_t>;

using TensorTuple = std::tuple<int, std::vector<int64_t>>;  // element type, shape
// name, ints, floats, text, kind
using CustomAttrTuple =
    std::tuple<std::string, std::vector<int64_t>, std::vector<double>, std::string, std::string>;
// address, op, path of the library, inputs, outputs, attributes, work items, bytes of workspace
using CustomTuple =
    std::tuple<uint64_t, std::string, std::string, std::vector<TensorTuple>, std::vector<TensorTuple>,
               std::vector<CustomAttrTuple>, int64_t, int64_t, bool>;

// buffer, whether its type has a sign, bound, what the index is
using IndexCheckTuple = std::tuple<int, bool, uint64_t, std::string>;

// A program as an object of Python's, which owns it.
struct OwnedProgram {
  ProgramPtr program;
};

// A call without an address is one of a kernel in C, whose first buffer is one of `customs`.
// numbers: what the recipe's extents are bound to; of the same numbers there is one program while it lives.
OwnedProgram MakeProgram(const std::string& name, const std::vector<CallTuple>& calls,
                         const std::vector<BufferTuple>& buffers, const std::vector<OutputTuple>& outputs,
                         int64_t workspace, const std::vector<StateTuple>& states,
                         const std::vector<CopyTuple>& copies, std::shared_ptr<RecipeData> data,
                         const std::vector<int64_t>& numbers, const std::vector<LoopTuple>& loops,
                         const std::vector<CustomTuple>& customs, const std::vector<UpdateTuple>& in_place,
                         const std::vector<IndexCheckTuple>& index_checks, bool bad_index_is_error);

// A program whose body is `callable(inputs, outputs, states)`: memoryviews of bytes, and 24 bytes per state.
OwnedProgram MakeInterpreted(const std::string& name, const std::vector<OutputTuple>& outputs,
                             const std::vector<StateTuple>& states, nb::object callable);

// Runs a program on C-contiguous arrays, outside TensorFlow. Returns its outputs as flat arrays of bytes.
nb::list RunProgram(const OwnedProgram& owned, nb::sequence inputs, nb::sequence states);

nb::dict ProgramStats(const OwnedProgram& owned);

}  // namespace habana
