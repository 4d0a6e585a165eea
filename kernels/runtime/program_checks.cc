// What a program must hold, checked once when it is made, so that the executor need not: with generated code
// that keeps to its buffers, a launch touches nothing else, and it ends. tests/fuzz tries it.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/checked.h"
#include "runtime/program.h"

namespace habana {

namespace {

// Work items of a call, or blocks of a loop: each has a byte at least, and no card has a terabyte.
constexpr int64_t kMostItems = 1ll << 40;
// Iterations, or blocks, of a loop that moves through no buffer. The compiler follows a loop of TensorFlow's
// for so many, see habana_tf/cluster/loop_counts.py.
constexpr int64_t kMostTrips = 1ll << 20;

class Checks {
 public:
  Checks(const Program& program, const std::vector<InputView>* inputs)
      : program_(program), inputs_(inputs), placed_(program.buffers.size(), false) {}

  // What is wrong; empty if nothing is.
  std::string Wrong() {
    for (size_t i = 0; i < program_.buffers.size(); ++i) {
      const std::string wrong = WrongBuffer(i);
      if (!wrong.empty()) return "buffer " + std::to_string(i) + " " + wrong;
    }
    for (const Copy& copy : program_.copies) {
      if (copy.call >= program_.calls.size() || copy.output >= program_.outputs.size() ||
          !IsInput(copy.input)) {
        return "a copy names a missing call, input or output";
      }
    }
    for (const IndexCheck& check : program_.index_checks) {
      const int64_t nbytes = Bytes(check.buffer);
      if (nbytes != 4 && nbytes != 8) return "an index check looks at no number";
      if (At(check.buffer).kind != BufferKind::kWorkspace) {
        return "an index check looks at what is not in the workspace";
      }
    }
    return WrongStep();
  }

 private:
  const Buffer& At(int buffer) const { return program_.buffers[static_cast<size_t>(buffer)]; }

  // -1 for one that is not there.
  int64_t Bytes(int buffer) const {
    return buffer < 0 || static_cast<size_t>(buffer) >= program_.buffers.size() ? -1 : At(buffer).nbytes;
  }

  bool IsInput(int input) const {
    return input >= 0 && (inputs_ == nullptr || static_cast<size_t>(input) < inputs_->size());
  }

  std::string WrongBuffer(size_t number) const {
    const Buffer& b = program_.buffers[number];
    if (b.index < 0 || b.offset < 0 || b.nbytes < 0) return "has a negative field";
    const Checked last = Checked(b.offset) + b.nbytes;
    if (!last.ok()) return "ends past 2^63";
    const size_t end = static_cast<size_t>(last.value());
    const size_t index = static_cast<size_t>(b.index);
    switch (b.kind) {
      case BufferKind::kInput:
        if (!IsInput(b.index)) return "names a missing input";
        return inputs_ != nullptr && end > (*inputs_)[index].nbytes ? "reaches past its input" : "";
      case BufferKind::kOutput:
        if (index >= program_.outputs.size()) return "names a missing output";
        return end > program_.outputs[index].nbytes ? "reaches past its output" : "";
      case BufferKind::kWorkspace:
        return end > program_.workspace ? "reaches past the workspace" : "";
      case BufferKind::kConstants:
        return end > program_.constant_bytes() ? "reaches past the constants" : "";
      case BufferKind::kWindow:  // of an earlier one, so that none is a part of itself
        return index >= number || Hidden(b.index) ? "is a part of a missing buffer" : "";
      case BufferKind::kState:
        return end > sizeof(RandomState) ? "reaches past its random state" : "";
      case BufferKind::kErrors:
        return end > 0 ? "has bytes, and is none that a call works on" : "";
      case BufferKind::kCustom:
        if (index >= program_.customs.size()) return "is a missing kernel";
        return end > 0 ? "has bytes, and is none that a call works on" : "";
    }
    return "has an unknown kind";
  }

  // Whether a buffer is none that calls work on: it only tells the runtime which kernel is called.
  bool Hidden(int buffer) const {
    return At(buffer).kind == BufferKind::kCustom || At(buffer).kind == BufferKind::kErrors;
  }

  // Whether a buffer may be written.
  bool Writable(int buffer) const {
    while (At(buffer).kind == BufferKind::kWindow) buffer = At(buffer).index;
    return At(buffer).kind == BufferKind::kOutput || At(buffer).kind == BufferKind::kWorkspace;
  }

  // Whether a buffer has an address: a window has one within its loop.
  bool Placed(int buffer) const {
    return At(buffer).kind != BufferKind::kWindow || placed_[static_cast<size_t>(buffer)];
  }

  // The calls in order, with the loops they are in.
  std::string WrongStep() {
    const std::vector<Loop>& loops = program_.loops;
    size_t next = 0;
    for (size_t c = 0; c <= program_.calls.size(); ++c) {
      while (!open_.empty() && End(*open_.back()) == c) Close();
      for (; next < loops.size() && loops[next].first <= c; ++next) {
        const std::string wrong = loops[next].first < c ? "is out of order" : WrongLoop(loops[next]);
        if (!wrong.empty()) return "loop " + std::to_string(next) + " " + wrong;
      }
      if (c == program_.calls.size()) break;
      const std::string wrong = WrongCall(program_.calls[c]);
      if (!wrong.empty()) return "call " + std::to_string(c) + " " + wrong;
    }
    return next < loops.size() ? "loop " + std::to_string(next) + " has calls that are not there" : "";
  }

  static size_t End(const Loop& loop) { return loop.first + loop.calls; }

  void Close() {
    for (const Window& w : open_.back()->windows) placed_[static_cast<size_t>(w.buffer)] = false;
    open_.pop_back();
  }

  std::string WrongLoop(const Loop& loop) {
    const size_t end = open_.empty() ? program_.calls.size() : End(*open_.back());
    if (loop.trips < 0 || loop.calls > end - loop.first) return "has calls that are not there";
    if (loop.blocks < 1) return "has no block";
    if (loop.calls == 0) {  // the executor passes it over
      const auto empty = [&](const Carried& value) { return Bytes(value.now) == 0; };
      const bool nothing = std::all_of(loop.carried.begin(), loop.carried.end(), empty);
      return nothing ? "" : "carries what no call makes";
    }
    if (loop.blocks > kMostItems) return "has more blocks than a card has bytes";
    // Of no bytes all blocks may be at one place.
    const auto stands = [&](const Window& w) { return w.block == 0 && Bytes(w.buffer) != 0; };
    if (loop.blocks > 1 && std::all_of(loop.windows.begin(), loop.windows.end(), stands)) {
      return "has several blocks of the same memory";
    }
    for (const Window& w : loop.windows) {
      const std::string wrong = WrongWindow(loop, w);
      if (!wrong.empty()) return wrong;
      if (loop.trips > 0 || w.step == 0) placed_[static_cast<size_t>(w.buffer)] = true;
    }
    if ((loop.trips > kMostTrips && !Moves(loop, &Window::step)) ||
        (loop.blocks > kMostTrips && !Moves(loop, &Window::block))) {
      return "has " + std::to_string(loop.blocks) + " blocks of " + std::to_string(loop.trips) +
             " iterations on the same memory";
    }
    for (const Carried& value : loop.carried) {
      const std::string wrong = WrongCarried(value);
      if (!wrong.empty()) return wrong;
    }
    for (const Window& w : loop.windows) placed_[static_cast<size_t>(w.buffer)] = true;  // for its calls
    open_.push_back(&loop);
    return {};
  }

  // Whether a window of a loop comes to other memory by this.
  bool Moves(const Loop& loop, int64_t Window::* by) const {
    return std::any_of(loop.windows.begin(), loop.windows.end(),
                       [&](const Window& w) { return w.*by != 0 && Bytes(w.buffer) > 0; });
  }

  std::string WrongWindow(const Loop& loop, const Window& w) const {
    if (Bytes(w.buffer) < 0 || At(w.buffer).kind != BufferKind::kWindow)
      return "moves a buffer that is not a window";
    const Buffer& part = At(w.buffer);
    if (!Placed(part.index)) return "moves a window of what has no place yet";
    const Checked moved = Checked(std::max<int64_t>(loop.trips - 1, 0)) * w.step;
    const Checked beside = Checked(loop.blocks - 1) * w.block;
    if (!moved.ok() || !beside.ok()) return "moves a window past 2^63";
    const Checked least = Checked(w.start) + std::min<int64_t>(moved.value(), 0) +
                          Checked(std::min<int64_t>(beside.value(), 0));
    const Checked most = Checked(w.start) + std::max<int64_t>(moved.value(), 0) +
                         Checked(std::max<int64_t>(beside.value(), 0)) + Checked(part.nbytes);
    // Of a tensor with no rows a row is nowhere, and never placed.
    const bool used = loop.trips > 0 || w.step == 0;
    if (used && (!least.Within(0, INT64_MAX) || !most.Within(0, Bytes(part.index)))) {
      return "moves a window out of its buffer";
    }
    return {};
  }

  std::string WrongCarried(const Carried& value) const {
    const int64_t nbytes = Bytes(value.now);
    if (nbytes < 0 || Bytes(value.next) != nbytes || Bytes(value.from) < nbytes ||
        (value.to != -1 && Bytes(value.to) != nbytes)) {
      return "carries values of different sizes";
    }
    for (int written : {value.now, value.next, value.to}) {
      if (written != -1 && !Writable(written)) return "carries a value to where none may be written";
    }
    for (int buffer : {value.now, value.next, value.from, value.to}) {
      if (buffer != -1 && (Hidden(buffer) || !Placed(buffer))) return "carries what has no place";
    }
    return {};
  }

  std::string WrongCall(const Call& call) const {
    if (call.fn == nullptr) return "has no code";
    Checked nbytes(0);
    for (int id : call.buffers) {
      if (Bytes(id) < 0) return "names a missing buffer";
      if (!Placed(id)) return "names a part of a buffer that its loops do not move";
      nbytes = nbytes + Bytes(id);
    }
    // More items than bytes never run: there is no memory for what they work on.
    const bool held = call.grid <= kMostItems || !nbytes.ok() || call.grid <= nbytes.value();
    if (call.grid < 0 || !held || call.grain < 1) return "has an impossible number of work items";
    return call.fn == RunCustom && !IsCustom(call) ? "of a kernel has wrong buffers" : "";
  }

  // Whether a call has what RunCustom expects.
  bool IsCustom(const Call& call) const {
    if (call.buffers.size() < 3 || At(call.buffers[0]).kind != BufferKind::kCustom) return false;
    if (At(call.buffers[1]).kind != BufferKind::kErrors) return false;
    const CustomKernel& custom = program_.customs[static_cast<size_t>(At(call.buffers[0]).index)];
    if (call.buffers.size() != 3 + custom.inputs.size() + custom.outputs.size()) return false;
    const int* at = &call.buffers[2];
    for (const CustomTensor& tensor : custom.inputs) {
      if (!Holds(*at++, tensor)) return false;
    }
    for (const CustomTensor& tensor : custom.outputs) {
      if (!Writable(*at) || !Holds(*at++, tensor)) return false;
    }
    return custom.workspace >= 0 && Bytes(*at) >= custom.workspace && Writable(*at) &&
           call.grid == custom.items;
  }

  bool Holds(int buffer, const CustomTensor& tensor) const {
    const size_t size = DataTypeSize(tensor.dtype);
    return size > 0 && !Hidden(buffer) && NumBytes(size, tensor.dims).Within(0, Bytes(buffer));
  }

  const Program& program_;
  const std::vector<InputView>* inputs_;
  std::vector<const Loop*> open_;  // the loops that the call at hand is in, the innermost last
  std::vector<bool> placed_;       // the windows that these place
};

}  // namespace

Status Program::Validate(const std::vector<InputView>* inputs) const {
  const std::string wrong = Checks(*this, inputs).Wrong();
  return wrong.empty() ? Status() : Status(Code::kInternal, "program '" + name + "': " + wrong);
}

}  // namespace habana
