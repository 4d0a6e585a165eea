// Making, running and freeing programs from Python.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "bridge/python.h"

namespace habana {

using CallTuple = std::tuple<uint64_t, std::vector<int>, std::vector<int64_t>, int64_t, int64_t>;
using BufferTuple = std::tuple<int, int, int64_t, int64_t>;
using OutputTuple = std::tuple<int, std::vector<int64_t>>;
using StateTuple = std::tuple<int, uint64_t>;
using CopyTuple = std::tuple<int, int, int>;  // call, input, output

int64_t MakeProgram(const std::string& name, const std::vector<CallTuple>& calls,
                    const std::vector<BufferTuple>& buffers, const std::vector<OutputTuple>& outputs,
                    int64_t workspace, nb::bytes constants, const std::vector<StateTuple>& states,
                    nb::object keepalive, const std::vector<CopyTuple>& copies);

// A program whose body is `callable(inputs, outputs, states)`: memoryviews of bytes, and 24 bytes per state.
int64_t MakeInterpreted(const std::string& name, const std::vector<OutputTuple>& outputs,
                        const std::vector<StateTuple>& states, nb::object callable);

// Runs a program on C-contiguous arrays, outside TensorFlow. Returns its outputs as flat arrays of bytes.
nb::list RunProgram(int64_t handle, nb::sequence inputs, nb::sequence states);

bool Free(int64_t handle);
nb::dict ProgramStats(int64_t handle);

}  // namespace habana
