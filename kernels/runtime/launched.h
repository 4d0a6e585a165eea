// How often each program of this process was launched, and how long TensorFlow's CPU kernels took within ops
// of HPU. A launch adds to the counters of its program and to nothing else; a program that goes leaves what
// it counted here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/export.h"

namespace habana {

class Program;

// Of a program that was launched. Nanoseconds: of all its launches on this host; ended: when the last of them
// was done, by CLOCK_MONOTONIC. Number 0 stands for those that went too long ago to be told apart.
struct Launched {
  int64_t number;
  std::string name;
  int64_t launches;
  int64_t nanoseconds;
  int64_t ended;
};

// Numbers of programs that went and are told apart.
constexpr size_t kMostGone = 65536;

// A program exists from the one to the other.
void Enter(const Program* program);
void Leave(const Program* program);

HABANA_EXPORT std::vector<Launched> ReadLaunched();

// An op that a CPU kernel of TensorFlow ran for HPU, and what it took.
HABANA_EXPORT void CountCpuOp(const std::string& op, int64_t nanoseconds);
// Per op how many, and nanoseconds.
HABANA_EXPORT std::map<std::string, std::pair<int64_t, int64_t>> ReadCpuOps();

}  // namespace habana
