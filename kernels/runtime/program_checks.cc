// What a program must hold, checked once when it is made, so that the executor need not.
#include <algorithm>
#include <string>

#include "runtime/checked.h"
#include "runtime/program.h"

namespace habana {

// Whether a call has what RunCustom expects.
bool Program::IsCustom(const Call& call) const {
  if (call.buffers.size() < 3) return false;
  const Buffer& kernel = buffers[static_cast<size_t>(call.buffers[0])];
  if (kernel.kind != BufferKind::kCustom || static_cast<size_t>(kernel.index) >= customs.size()) return false;
  const CustomKernel& custom = customs[static_cast<size_t>(kernel.index)];
  if (buffers[static_cast<size_t>(call.buffers[1])].kind != BufferKind::kErrors) return false;
  if (call.buffers.size() != 3 + custom.inputs.size() + custom.outputs.size()) return false;
  size_t at = 2;
  for (const auto* tensors : {&custom.inputs, &custom.outputs}) {
    for (const CustomTensor& tensor : *tensors) {
      const Checked nbytes = NumBytes(DataTypeSize(tensor.dtype), tensor.dims);
      if (!nbytes.Within(0, buffers[static_cast<size_t>(call.buffers[at++])].nbytes)) return false;
    }
  }
  return buffers[static_cast<size_t>(call.buffers[at])].nbytes >= custom.workspace &&
         call.grid == custom.items;
}

Status Program::Validate(const std::vector<InputView>* inputs) const {
  const auto bad = [this](const std::string& what) {
    return Status(Code::kInternal, "program '" + name + "': " + what);
  };
  for (size_t i = 0; i < buffers.size(); ++i) {
    const Buffer& b = buffers[i];
    const std::string which = "buffer " + std::to_string(i);
    if (b.index < 0 || b.offset < 0 || b.nbytes < 0) return bad(which + " has a negative field");
    const Checked last = Checked(b.offset) + b.nbytes;
    if (!last.ok()) return bad(which + " ends past 2^63");
    const size_t end = static_cast<size_t>(last.value());
    const size_t index = static_cast<size_t>(b.index);
    switch (b.kind) {
      case BufferKind::kInput:
        if (inputs == nullptr) break;
        if (index >= inputs->size()) return bad(which + " names a missing input");
        if (end > (*inputs)[index].nbytes) return bad(which + " reaches past its input");
        break;
      case BufferKind::kOutput:
        if (index >= outputs.size()) return bad(which + " names a missing output");
        if (end > outputs[index].nbytes) return bad(which + " reaches past its output");
        break;
      case BufferKind::kWorkspace:
        if (end > workspace) return bad(which + " reaches past the workspace");
        break;
      case BufferKind::kConstants:
        if (end > constant_bytes()) return bad(which + " reaches past the constants");
        break;
      case BufferKind::kWindow:
        if (index >= buffers.size()) return bad(which + " is a part of a missing buffer");
        break;
      case BufferKind::kState:
      case BufferKind::kErrors:
        break;
      case BufferKind::kCustom:
        if (index >= customs.size()) return bad(which + " is a missing kernel");
        break;
      default:
        return bad(which + " has an unknown kind");
    }
  }
  for (const Copy& copy : copies) {
    if (copy.call >= calls.size() || copy.output >= outputs.size() || copy.input < 0) {
      return bad("a copy names a missing call, input or output");
    }
  }
  const auto size = [this](int id) {
    return id < 0 || static_cast<size_t>(id) >= buffers.size() ? -1 : buffers[static_cast<size_t>(id)].nbytes;
  };
  for (const IndexCheck& check : index_checks) {
    const int64_t nbytes = size(check.buffer);
    if (nbytes != 4 && nbytes != 8) return bad("an index check looks at no number");
    if (buffers[static_cast<size_t>(check.buffer)].kind != BufferKind::kWorkspace) {
      return bad("an index check looks at what is not in the workspace");
    }
  }
  for (size_t i = 0; i < loops.size(); ++i) {
    const Loop& loop = loops[i];
    const std::string which = "loop " + std::to_string(i);
    if (loop.trips < 0 || loop.calls > calls.size() || loop.first > calls.size() - loop.calls) {
      return bad(which + " has no such calls");
    }
    if (loop.blocks < 1) return bad(which + " has no block");
    // Of no bytes all blocks may be at one place.
    const auto stands = [&](const Window& w) { return w.block == 0 && size(w.buffer) != 0; };
    if (loop.blocks > 1 && std::all_of(loop.windows.begin(), loop.windows.end(), stands)) {
      return bad(which + " has several blocks of the same memory");
    }
    if (i > 0 && loop.first < loops[i - 1].first) return bad(which + " is out of order");
    for (const Window& w : loop.windows) {
      if (size(w.buffer) < 0 || buffers[static_cast<size_t>(w.buffer)].kind != BufferKind::kWindow) {
        return bad(which + " moves what is no window");
      }
      const Buffer& part = buffers[static_cast<size_t>(w.buffer)];
      const Checked moved = Checked(std::max<int64_t>(loop.trips - 1, 0)) * w.step;
      const Checked beside = Checked(loop.blocks - 1) * w.block;
      if (!moved.ok() || !beside.ok()) return bad(which + " moves a window past 2^63");
      const Checked least = Checked(w.start) + std::min<int64_t>(moved.value(), 0) +
                            Checked(std::min<int64_t>(beside.value(), 0));
      const Checked most = Checked(w.start) + std::max<int64_t>(moved.value(), 0) +
                           Checked(std::max<int64_t>(beside.value(), 0)) + Checked(part.nbytes);
      if (loop.trips > 0 && (!least.Within(0, INT64_MAX) || !most.Within(0, size(part.index)))) {
        return bad(which + " moves a window out of its buffer");
      }
    }
    for (const Carried& value : loop.carried) {
      const int64_t nbytes = size(value.now);
      if (nbytes < 0 || size(value.next) != nbytes || size(value.from) < nbytes ||
          (value.to != -1 && size(value.to) != nbytes)) {
        return bad(which + " carries values of different sizes");
      }
    }
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call& call = calls[i];
    if (call.fn == nullptr) return bad("call " + std::to_string(i) + " has no code");
    if (call.grid < 0 || call.grain < 1) return bad("call " + std::to_string(i) + " has no such work items");
    for (int id : call.buffers) {
      if (id < 0 || static_cast<size_t>(id) >= buffers.size()) {
        return bad("call " + std::to_string(i) + " names a missing buffer");
      }
    }
    if (call.fn == RunCustom && !IsCustom(call))
      return bad("call " + std::to_string(i) + " of a kernel has wrong buffers");
  }
  return {};
}

}  // namespace habana
