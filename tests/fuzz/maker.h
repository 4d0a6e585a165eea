// Well formed programs made of bytes. Functions that touch every byte of their buffers stand for generated
// code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/bytes.h"
#include "runtime/program.h"

namespace habana {

constexpr int kUint8 = 4;

inline bool Writable(BufferKind root) {
  return root == BufferKind::kOutput || root == BufferKind::kWorkspace;
}

inline BufferKind Root(const Program& program, size_t buffer) {
  const Buffer* b = &program.buffers[buffer];
  while (b->kind == BufferKind::kWindow) b = &program.buffers[static_cast<size_t>(b->index)];
  return b->kind;
}

// Reads all bytes, or writes them.
inline int64_t TouchBytes(char* data, int64_t nbytes, bool writes) {
  int64_t sum = 0;
  if (writes && nbytes > 0) std::memset(data, 0x5a, static_cast<size_t>(nbytes));
  for (int64_t i = 0; i < nbytes; ++i) sum += data[i];
  return sum;
}

inline volatile int64_t g_sum;

// In the place of a generated function. dims: bytes of each buffer, and whether it is written.
inline void Touch(char** buffers, const int64_t* dims, int64_t begin, int64_t /*end*/) {
  if (begin != 0) return;
  for (int64_t k = 0; k < dims[0]; ++k) {
    g_sum = TouchBytes(buffers[k], dims[1 + 2 * k], dims[2 + 2 * k] != 0);
  }
}

inline int64_t BytesOf(const habana_tensor& tensor) {
  int64_t nbytes = static_cast<int64_t>(DataTypeSize(tensor.dtype));
  for (int32_t k = 0; k < tensor.rank; ++k) nbytes *= tensor.shape[k];
  return nbytes;
}

// In the place of a kernel in C.
inline int TouchCustom(const habana_call* call, int64_t begin, int64_t /*end*/) {
  if (begin != 0) return 0;
  for (int32_t k = 0; k < call->num_inputs; ++k) {
    g_sum = TouchBytes(static_cast<char*>(call->inputs[k].data), BytesOf(call->inputs[k]), false);
  }
  for (int32_t k = 0; k < call->num_outputs; ++k) {
    g_sum = TouchBytes(static_cast<char*>(call->outputs[k].data), BytesOf(call->outputs[k]), true);
  }
  g_sum = TouchBytes(static_cast<char*>(call->workspace), call->workspace_bytes, true);
  return 0;
}

// A well formed program with its inputs.
class Maker {
 public:
  explicit Maker(Bytes* bytes) : bytes_(*bytes) {}

  std::unique_ptr<Program> Make(std::vector<size_t>* inputs, size_t* num_states) {
    program_ = std::make_unique<Program>();
    program_->name = "fuzz";
    for (int64_t k = bytes_.Below(3); k >= 0; --k) {
      inputs->push_back(Size());
      Add(BufferKind::kInput, static_cast<int>(inputs->size()) - 1, inputs->back());
    }
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      const size_t nbytes = Size();
      program_->outputs.push_back({kUint8, {static_cast<int64_t>(nbytes)}, nbytes});
      Add(BufferKind::kOutput, static_cast<int>(program_->outputs.size()) - 1, nbytes);
    }
    const std::string constants(Size(), 'c');
    program_->data = std::make_shared<RecipeData>(constants.data(), constants.size(), nullptr);
    Add(BufferKind::kConstants, 0, constants.size());
    *num_states = static_cast<size_t>(bytes_.Below(3));
    for (size_t k = 0; k < *num_states; ++k) {
      program_->states.push_back({static_cast<int>(k), 1});
      Add(BufferKind::kState, static_cast<int>(k), sizeof(RandomState));
    }
    Add(BufferKind::kInput, 0, inputs->front() / 2);
    AddSteps(0);
    if (!inputs->empty() && !program_->outputs.empty() && !program_->calls.empty() && bytes_.OneIn(3)) {
      const auto call = static_cast<size_t>(bytes_.Below(static_cast<int64_t>(program_->calls.size())));
      program_->copies.push_back({call, 0, 0});
    }
    if (bytes_.OneIn(3)) {
      const int number = Work(bytes_.OneIn(2) ? 4 : 8);
      program_->index_checks.push_back({number, bytes_.OneIn(2), 100, bytes_.OneIn(2), "an index"});
    }
    return std::move(program_);
  }

 private:
  size_t Size() { return static_cast<size_t>(bytes_.OneIn(6) ? 0 : bytes_.Below(96)); }

  int Add(BufferKind kind, int index, size_t nbytes, int64_t offset = 0) {
    program_->buffers.push_back({kind, index, offset, static_cast<int64_t>(nbytes)});
    const int number = static_cast<int>(program_->buffers.size()) - 1;
    if (kind != BufferKind::kCustom && kind != BufferKind::kErrors) there_.push_back(number);
    return number;
  }

  // A buffer in the workspace.
  int Work(size_t nbytes) {
    const size_t offset = program_->workspace;
    program_->workspace += nbytes;
    return Add(BufferKind::kWorkspace, 0, nbytes, static_cast<int64_t>(offset));
  }

  int64_t BytesOf(int buffer) const { return program_->buffers[static_cast<size_t>(buffer)].nbytes; }

  // A buffer that is there and may be written, or a new one.
  int Target(int64_t nbytes, bool exactly) {
    for (int tries = 0; tries < 4; ++tries) {
      const int found = bytes_.Of(there_);
      const bool fits = exactly ? BytesOf(found) == nbytes : BytesOf(found) >= nbytes;
      if (fits && Writable(Root(*program_, static_cast<size_t>(found)))) return found;
    }
    return Work(static_cast<size_t>(nbytes));
  }

  void AddSteps(int depth) {
    for (int64_t k = bytes_.Below(4); k >= 0; --k) {
      if (depth < 3 && bytes_.OneIn(3)) {
        AddLoop(depth);
      } else if (bytes_.OneIn(5)) {
        AddCustom();
      } else {
        AddCall();
      }
    }
  }

  void AddCall() {
    Call call{Touch, {}, {}, bytes_.Below(200), 1 + bytes_.Below(20)};
    for (int64_t k = bytes_.Below(4); k >= 0; --k) call.buffers.push_back(bytes_.Of(there_));
    program_->calls.push_back(std::move(call));
  }

  void AddCustom() {
    CustomKernel kernel{TouchCustom, "Op", "library", {}, {}, {}, bytes_.Below(9), bytes_.Below(32), false};
    Call call{RunCustom, {}, {}, kernel.items, 1};
    const int number = static_cast<int>(program_->customs.size());
    call.buffers = {Add(BufferKind::kCustom, number, 0), Add(BufferKind::kErrors, 0, 0)};
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      call.buffers.push_back(bytes_.Of(there_));
      kernel.inputs.push_back({kUint8, {BytesOf(call.buffers.back())}});
    }
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      const int64_t nbytes = bytes_.Below(40);
      call.buffers.push_back(Target(nbytes, false));
      kernel.outputs.push_back({kUint8, {1, nbytes}});
    }
    call.buffers.push_back(Target(kernel.workspace, false));
    program_->customs.push_back(std::move(kernel));
    program_->calls.push_back(std::move(call));
  }

  void AddLoop(int depth) {
    const std::vector<int> outside = there_;
    const size_t at = program_->loops.size();
    Loop loop{program_->calls.size(), 0, bytes_.Below(5), {}, {}, 1};
    if (!in_blocks_ && bytes_.OneIn(2)) loop.blocks = 1 + bytes_.Below(4);
    const int64_t parts = std::max<int64_t>(loop.trips, 1) * loop.blocks;
    for (int64_t k = bytes_.Below(3) + (loop.blocks > 1 ? 1 : 0); k > 0; --k) {
      const int whole = bytes_.Of(there_);
      const int64_t nbytes = BytesOf(whole) / parts;
      const int part = Add(BufferKind::kWindow, whole, static_cast<size_t>(nbytes));
      const bool back = bytes_.OneIn(3);
      const int64_t row = loop.trips > 0 ? nbytes * loop.blocks : 0;
      loop.windows.push_back({part, back ? row * (loop.trips - 1) : 0, back ? -row : row, nbytes});
    }
    for (int64_t k = bytes_.Below(3); k > 0; --k) {
      const int from = bytes_.Of(there_);
      const auto nbytes = static_cast<size_t>(BytesOf(from));
      const int now = Work(nbytes);
      const int next = bytes_.OneIn(3) ? now : Work(nbytes);
      loop.carried.push_back({now, next, from, bytes_.OneIn(3) ? -1 : Target(BytesOf(from), true)});
    }
    program_->loops.push_back(loop);
    const bool outer = std::exchange(in_blocks_, in_blocks_ || loop.blocks > 1);
    AddSteps(depth + 1);
    in_blocks_ = outer;
    loop.calls = program_->calls.size() - loop.first;
    program_->loops[at] = std::move(loop);
    there_ = outside;
  }

  Bytes& bytes_;
  std::unique_ptr<Program> program_;
  std::vector<int> there_;  // the buffers that a call at this place may name
  bool in_blocks_ = false;
};

}  // namespace habana
