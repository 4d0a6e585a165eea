// Changes of one field of a program, most of which make it invalid.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "fuzz/bytes.h"
#include "fuzz/maker.h"
#include "runtime/program.h"

namespace habana {

// Changes one field of a program.
class Mutator {
 public:
  Mutator(Bytes* bytes, Program* program) : bytes_(*bytes), program_(*program) {}

  void Change() {
    switch (bytes_.Below(10)) {
      case 0:
      case 1:
        return ChangeBuffer();
      case 2:
      case 3:
        return ChangeCall();
      case 4:
      case 5:
        return ChangeLoop();
      case 6:
        return ChangeCustom();
      case 7:
        return Swap();
      case 8:
        return ChangeRest();
      default:
        program_.workspace = static_cast<size_t>(bytes_.Below(128));
    }
  }

 private:
  template <class T>
  void Number(T* field) {
    *field = static_cast<T>(bytes_.Another(static_cast<int64_t>(*field)));
  }

  void BufferNumber(int* field) {
    if (bytes_.OneIn(4)) return Number(field);
    *field = static_cast<int>(bytes_.Below(static_cast<int64_t>(program_.buffers.size()) + 1));
  }

  void ChangeBuffer() {
    Buffer& b = bytes_.Of(program_.buffers);
    switch (bytes_.Below(4)) {
      case 0:
        b.kind = static_cast<BufferKind>(bytes_.Below(10) - 1);
        break;
      case 1:
        BufferNumber(&b.index);
        break;
      case 2:
        Number(&b.offset);
        break;
      default:
        Number(&b.nbytes);
    }
  }

  void ChangeCall() {
    if (program_.calls.empty()) return;
    Call& call = bytes_.Of(program_.calls);
    switch (bytes_.Below(6)) {
      case 0:
        Number(&call.grid);
        break;
      case 1:
        Number(&call.grain);
        break;
      case 2:
        call.fn = bytes_.OneIn(2) ? RunCustom : bytes_.OneIn(8) ? nullptr : Touch;
        break;
      case 3:
        call.buffers.push_back(0);
        BufferNumber(&call.buffers.back());
        break;
      default:
        if (!call.buffers.empty()) BufferNumber(&bytes_.Of(call.buffers));
    }
  }

  void ChangeLoop() {
    if (program_.loops.empty()) return;
    Loop& loop = bytes_.Of(program_.loops);
    switch (bytes_.Below(7)) {
      case 0:
        return Number(&loop.first);
      case 1:
        return Number(&loop.calls);
      case 2:
        return Number(&loop.trips);
      case 3:
        return Number(&loop.blocks);
      case 4:
        if (!loop.carried.empty()) {
          Carried& value = bytes_.Of(loop.carried);
          int* const fields[] = {&value.now, &value.next, &value.from, &value.to};
          BufferNumber(fields[bytes_.Below(4)]);
        }
        return;
      default:
        if (!loop.windows.empty()) {
          Window& w = bytes_.Of(loop.windows);
          int64_t* const fields[] = {&w.start, &w.step, &w.block};
          const int64_t which = bytes_.Below(4);
          if (which == 3) return BufferNumber(&w.buffer);
          Number(fields[which]);
        }
    }
  }

  void ChangeCustom() {
    if (program_.customs.empty()) return;
    CustomKernel& kernel = bytes_.Of(program_.customs);
    const int64_t which = bytes_.Below(4);
    if (which == 0) return Number(&kernel.items);
    if (which == 1) return Number(&kernel.workspace);
    std::vector<CustomTensor>& tensors = which == 2 ? kernel.inputs : kernel.outputs;
    if (tensors.empty() || bytes_.OneIn(6)) return tensors.push_back({kUint8, {1}});
    CustomTensor& tensor = bytes_.Of(tensors);
    if (bytes_.OneIn(3)) {
      tensor.dtype = static_cast<int>(bytes_.Below(30));
    } else {
      Number(&bytes_.Of(tensor.dims));
    }
  }

  void Swap() {
    const int64_t which = bytes_.Below(3);
    if (which == 0) std::swap(bytes_.Of(program_.buffers), bytes_.Of(program_.buffers));
    if (which == 1 && !program_.calls.empty()) {
      std::swap(bytes_.Of(program_.calls), bytes_.Of(program_.calls));
    }
    if (which == 2 && !program_.loops.empty()) {
      std::swap(bytes_.Of(program_.loops), bytes_.Of(program_.loops));
    }
  }

  void ChangeRest() {
    const int64_t which = bytes_.Below(3);
    if (which == 0 && !program_.copies.empty()) {
      Copy& copy = program_.copies[0];
      if (bytes_.OneIn(3)) return Number(&copy.call);
      if (bytes_.OneIn(2)) return Number(&copy.input);
      return Number(&copy.output);
    }
    if (which == 1 && !program_.index_checks.empty()) BufferNumber(&program_.index_checks[0].buffer);
    if (which == 2 && !program_.states.empty()) Number(&bytes_.Of(program_.states).index);
  }

  Bytes& bytes_;
  Program& program_;
};

}  // namespace habana
