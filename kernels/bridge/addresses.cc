// Launches and tensors on addresses, for a front end in Python that has its own memory.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "bridge/parts.h"
#include "bridge/programs.h"
#include "runtime/card.h"
#include "runtime/checked.h"
#include "runtime/counters.h"
#include "runtime/program.h"

namespace habana {

namespace {

// The structs of DLPack 0.8, which capsules called "dltensor" hold (https://dmlc.github.io/dlpack).
struct DLTensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

// The addresses of tensors whose memory nothing uses any more. A tensor may die on any thread, under any lock
// and after the interpreter, so that its deleter only notes it, and Python asks.
struct Dead {
  std::mutex mutex;
  std::vector<uintptr_t> addresses;
};
Dead& g_dead = *new Dead;

struct Lent {
  DLManagedTensor managed;
  std::vector<int64_t> sizes;  // shape, then strides
  bool reported;
};

void Return(DLManagedTensor* managed) {
  auto* lent = static_cast<Lent*>(managed->context);
  if (lent->reported) {
    std::lock_guard<std::mutex> lock(g_dead.mutex);
    g_dead.addresses.push_back(reinterpret_cast<uintptr_t>(managed->tensor.data));
  }
  delete lent;
}

void ReturnUnused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;  // taken: its owner calls the deleter
  auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

// A DLPack capsule of memory at an address. reported: once nothing uses it, DeadTensors has its address.
nb::object Lend(uintptr_t address, int device_type, int code, int bits, nb::handle shape, nb::handle strides,
                bool reported) {
  auto lent = std::make_unique<Lent>();
  const size_t rank = nb::len(shape);
  if (nb::len(strides) != rank) throw nb::value_error("a tensor has as many strides as axes");
  lent->sizes.reserve(2 * rank);
  for (nb::handle n : shape) lent->sizes.push_back(nb::cast<int64_t>(n));
  for (nb::handle n : strides) lent->sizes.push_back(nb::cast<int64_t>(n));
  lent->reported = reported;
  lent->managed = {{reinterpret_cast<void*>(address), device_type, 0, static_cast<int32_t>(rank),
                    static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1, lent->sizes.data(),
                    lent->sizes.data() + rank, 0},
                   lent.get(),
                   Return};
  PyObject* capsule = PyCapsule_New(&lent->managed, "dltensor", ReturnUnused);
  if (capsule == nullptr) throw nb::python_error();
  lent.release();
  return nb::steal(capsule);
}

std::vector<uintptr_t> DeadTensors() {
  std::vector<uintptr_t> dead;
  std::lock_guard<std::mutex> lock(g_dead.mutex);
  dead.swap(g_dead.addresses);
  return dead;
}

// A program with the types and shapes of its inputs, checked once, to be run on addresses.
class AddressedLaunch {
 public:
  AddressedLaunch(const OwnedProgram& owned,
                  std::vector<std::tuple<int, std::vector<int64_t>>> inputs)  // element type, shape
      : program_(owned.program), inputs_(std::move(inputs)) {
    for (const auto& [dtype, dims] : inputs_) {
      const Checked nbytes = NumBytes(DataTypeSize(dtype), dims);
      if (!nbytes.ok()) throw nb::value_error("an input has a size that no tensor can have");
      views_.push_back(
          {dtype, static_cast<int>(dims.size()), dims.data(), nullptr, static_cast<size_t>(nbytes.value())});
    }
    const Status valid = program_->Validate(&views_);
    if (!valid.ok()) throw nb::value_error(valid.message.c_str());
    if (!program_->states.empty()) throw nb::value_error("a launch on addresses has no random states");
  }
  AddressedLaunch(const AddressedLaunch&) = delete;
  AddressedLaunch& operator=(const AddressedLaunch&) = delete;

  size_t Workspace() const { return program_->workspace; }

  // All addresses are multiples of 64, but those of the inputs `parts`: these are parts of memory that others
  // may be all of, and aligned to their elements, which is all that code asks of what it reads. An output may
  // have the address of an input: where the program does not write in place there, or reads a part of that
  // memory too, it is written elsewhere first. Gives what is to be told, the first time: an index out of
  // range.
  std::string Run(const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& outputs,
                  const std::vector<size_t>& parts, uintptr_t workspace) const {
    if (inputs.size() != views_.size() || outputs.size() != program_->outputs.size()) {
      throw nb::value_error("a launch has other inputs or outputs than its program");
    }
    std::vector<InputView> views = views_;
    std::vector<char*> targets(outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) views[i].data = reinterpret_cast<char*>(inputs[i]);
    std::vector<std::pair<size_t, std::unique_ptr<char, decltype(&std::free)>>> elsewhere;
    for (size_t k = 0; k < outputs.size(); ++k) {
      targets[k] = reinterpret_cast<char*>(outputs[k]);
      const auto at = std::find(inputs.begin(), inputs.end(), outputs[k]);
      const Output& out = program_->outputs[k];
      const bool in_place = at == inputs.end() || out.over == at - inputs.begin();
      if (out.nbytes == 0 || (in_place && !ReadsPart(views, parts, targets[k], out.nbytes))) continue;
      targets[k] = static_cast<char*>(AlignedMemory(out.nbytes));
      elsewhere.emplace_back(k, std::unique_ptr<char, decltype(&std::free)>(targets[k], &std::free));
      if (targets[k] == nullptr) throw std::bad_alloc();
    }
    std::string warning;
    Status status;
    {
      nb::gil_scoped_release gil;
      status =
          program_->Run({&views, targets.data(), reinterpret_cast<char*>(workspace), nullptr, 0, &warning});
      for (const auto& [k, data] : elsewhere) {
        if (!status.ok()) break;  // what an input held stays
        std::memcpy(reinterpret_cast<char*>(outputs[k]), data.get(), program_->outputs[k].nbytes);
      }
    }
    Check(status);
    return warning;
  }

 private:
  // Whether one of the inputs `parts` has memory in common with these bytes.
  static bool ReadsPart(const std::vector<InputView>& inputs, const std::vector<size_t>& parts,
                        const char* data, size_t nbytes) {
    return std::any_of(parts.begin(), parts.end(), [&](size_t part) {
      const InputView& input = inputs.at(part);
      return input.data < data + nbytes && data < input.data + input.nbytes;
    });
  }

  const ProgramPtr program_;
  const std::vector<std::tuple<int, std::vector<int64_t>>> inputs_;
  std::vector<InputView> views_;
};

void SetDeviceBytes(int64_t bytes) {
  GetCounters().device_bytes.store(bytes, std::memory_order_relaxed);
  PublishMemory(bytes);
}

}  // namespace

void DefineAddresses(nb::module_& m) {
  nb::class_<AddressedLaunch>(m, "AddressedLaunch")
      .def(nb::init<const OwnedProgram&, std::vector<std::tuple<int, std::vector<int64_t>>>>(),
           nb::arg("program"), nb::arg("inputs"))
      .def_prop_ro("workspace", &AddressedLaunch::Workspace)
      .def("run", &AddressedLaunch::Run, nb::arg("inputs"), nb::arg("outputs"), nb::arg("parts"),
           nb::arg("workspace"));
  m.def("lend", &Lend);
  m.def("dead_tensors", &DeadTensors);
  m.def("set_device_bytes", &SetDeviceBytes, nb::arg("bytes"));
}

}  // namespace habana
