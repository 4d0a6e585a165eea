// Making and running programs from Python.
#include "bridge/programs.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <tuple>

#include "bridge/parts.h"
#include "runtime/checked.h"
#include "runtime/program.h"
#include "runtime/resolver.h"

namespace habana {

namespace {

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
using IndexCheckTuple = std::tuple<int, bool, uint64_t, bool, std::string>;

using Shared = std::shared_ptr<RecipeData>;

void SetOutputs(Program* program, const std::vector<OutputTuple>& outputs,
                const std::vector<StateTuple>& states) {
  for (const auto& [dtype, dims] : outputs) {
    const size_t size = DataTypeSize(dtype);
    if (size == 0) throw nb::value_error("an output has a data type that is not a plain number");
    const Checked nbytes = NumBytes(size, dims);
    if (!nbytes.ok()) throw nb::value_error("an output has an extent, or a size, that no tensor can have");
    program->outputs.push_back({dtype, dims, static_cast<size_t>(nbytes.value())});
  }
  for (const auto& [index, reserve] : states) {
    if (index < 0) throw nb::value_error("a random state has a negative index");
    program->states.push_back({index, reserve});
  }
}

Loop LoopOf(const LoopTuple& tuple) {
  const auto& [first, count, trips, windows, carried, blocks] = tuple;
  if (first < 0 || count < 0) throw nb::value_error("a loop has a negative field");
  Loop loop{static_cast<size_t>(first), static_cast<size_t>(count), trips, {}, {}, blocks};
  for (const auto& [buffer, start, step, block] : windows) {
    loop.windows.push_back({buffer, start, step, block});
  }
  for (const auto& [now, next, from, to] : carried) loop.carried.push_back({now, next, from, to});
  return loop;
}

CustomKernel CustomOf(const CustomTuple& tuple) {
  const auto& [address, op, library, inputs, outputs, attrs, items, bytes, checked] = tuple;
  CustomKernel kernel{
      reinterpret_cast<CustomKernel::Run>(address), op, library, {}, {}, {}, items, bytes, checked};
  if (kernel.run == nullptr) throw nb::value_error("a kernel has no code");
  for (const auto& [dtype, dims] : inputs) kernel.inputs.push_back({dtype, dims});
  for (const auto& [dtype, dims] : outputs) kernel.outputs.push_back({dtype, dims});
  for (const auto& [attr, ints, floats, text, kind] : attrs) {
    kernel.attrs.push_back({attr, ints, floats, text, kind});
  }
  return kernel;
}

nb::object MemoryView(void* data, size_t nbytes, bool writable) {
  static char nothing[1];
  char* start = data == nullptr ? nothing : static_cast<char*>(data);
  PyObject* view =
      PyMemoryView_FromMemory(start, static_cast<Py_ssize_t>(nbytes), writable ? PyBUF_WRITE : PyBUF_READ);
  if (view == nullptr) throw nb::python_error();
  return nb::steal(view);
}

// A 64-byte aligned copy or result.
struct Aligned {
  char* data;
  explicit Aligned(size_t nbytes) : data(static_cast<char*>(AlignedMemory(nbytes + 1))) {
    if (data == nullptr) throw std::bad_alloc();
  }
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
};

// A call without an address is one of a kernel in C, whose first buffer is one of `customs`.
// numbers: what the recipe's extents are bound to; of the same numbers there is one program while it lives.
OwnedProgram MakeProgram(const std::string& name, const std::vector<CallTuple>& calls,
                         const std::vector<BufferTuple>& buffers, const std::vector<OutputTuple>& outputs,
                         int64_t workspace, const std::vector<StateTuple>& states,
                         const std::vector<CopyTuple>& copies, const Shared* data,
                         const std::vector<int64_t>& numbers, const std::vector<LoopTuple>& loops,
                         const std::vector<CustomTuple>& customs, const std::vector<UpdateTuple>& in_place,
                         const std::vector<IndexCheckTuple>& index_checks) {
  DropDead();
  auto program = std::make_shared<Program>();
  program->name = name;
  if (workspace < 0) throw nb::value_error("a program has a negative workspace");
  program->workspace = static_cast<size_t>(workspace);
  program->data = data == nullptr ? nullptr : *data;
  for (const auto& [kind, index, offset, nbytes] : buffers) {
    program->buffers.push_back({static_cast<BufferKind>(kind), index, offset, nbytes});
  }
  for (const auto& [address, ids, dims, grid, grain] : calls) {
    const auto fn = address == 0 ? RunCustom : reinterpret_cast<KernelFn>(address);
    program->calls.push_back({fn, ids, dims, grid, grain});
  }
  SetOutputs(program.get(), outputs, states);
  for (const auto& [call, input, output] : copies) {
    if (call < 0 || output < 0) throw nb::value_error("a copy has a negative field");
    program->copies.push_back({static_cast<size_t>(call), input, static_cast<size_t>(output)});
  }
  for (const auto& [input, output] : in_place) {
    if (output >= program->outputs.size()) throw nb::value_error("an update names a missing output");
    program->outputs[output].over = static_cast<int>(input);
  }
  for (const LoopTuple& loop : loops) program->loops.push_back(LoopOf(loop));
  for (const CustomTuple& kernel : customs) program->customs.push_back(CustomOf(kernel));
  for (const auto& [buffer, is_signed, bound, is_error, what] : index_checks) {
    program->index_checks.push_back({buffer, is_signed, bound, is_error, what});
  }
  const Status valid = program->Validate(nullptr);
  if (!valid.ok()) throw nb::value_error(valid.message.c_str());
  return {data == nullptr ? std::move(program) : (*data)->Add(numbers, std::move(program))};
}

// A program whose body is `callable(inputs, outputs, states)`: memoryviews of bytes, and 24 bytes per state.
OwnedProgram MakeInterpreted(const std::string& name, const std::vector<OutputTuple>& outputs,
                             const std::vector<StateTuple>& states, nb::object callable) {
  DropDead();
  auto program = std::make_shared<Program>();
  program->name = name;
  SetOutputs(program.get(), outputs, states);
  program->body = [kept = Keep(callable)](const Program& self, const LaunchArgs& args) {
    CallbackScope python;
    // Without hooks (programs run from Python's own tests) the caller's GIL vouches for the interpreter.
    if (!python.status().ok() && Attached()) return python.status();
    return WithPython("interpreting a cluster", [&] {
      nb::list inputs;
      nb::list outputs_list;
      nb::list states_list;
      for (const InputView& in : *args.inputs) inputs.append(MemoryView(in.data, in.nbytes, false));
      for (size_t i = 0; i < self.outputs.size(); ++i) {
        outputs_list.append(MemoryView(args.outputs[i], self.outputs[i].nbytes, true));
      }
      for (size_t i = 0; i < args.num_states; ++i) {
        states_list.append(nb::bytes(reinterpret_cast<const char*>(&args.states[i]), sizeof(RandomState)));
      }
      const nb::handle body(static_cast<PyObject*>(kept.get()));
      body(inputs, outputs_list, states_list);
    });
  };
  return {std::move(program)};
}

// Runs a program on C-contiguous arrays, outside TensorFlow. Returns its outputs as flat arrays of bytes.
nb::list RunProgram(const OwnedProgram& owned, nb::sequence inputs, nb::sequence states) {
  const ProgramPtr program = owned.program;
  std::vector<std::unique_ptr<Aligned>> copies;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<InputView> views;
  for (nb::handle input : inputs) {
    if (!nb::cast<bool>(nb::getattr(nb::getattr(input, "flags"), "c_contiguous"))) {
      throw nb::value_error("run_program takes C-contiguous arrays");
    }
    const nb::object interface = nb::getattr(input, "__array_interface__");
    const nb::object address = interface["data"][0];
    const size_t nbytes = nb::cast<size_t>(nb::getattr(input, "nbytes"));
    shapes.push_back(nb::cast<std::vector<int64_t>>(nb::getattr(input, "shape")));
    copies.push_back(std::make_unique<Aligned>(nbytes));
    if (nbytes > 0) {
      std::memcpy(copies.back()->data, reinterpret_cast<const void*>(nb::cast<uintptr_t>(address)), nbytes);
    }
    views.push_back({0, 0, nullptr, copies.back()->data, nbytes});
  }
  for (size_t i = 0; i < views.size(); ++i) {
    views[i].rank = static_cast<int>(shapes[i].size());
    views[i].dims = shapes[i].data();
  }
  std::vector<RandomState> state_values;
  for (nb::handle state : states) {
    const std::string bytes = FromBytes(state);
    if (bytes.size() != sizeof(RandomState)) throw nb::value_error("a random state has 24 bytes");
    RandomState value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    state_values.push_back(value);
  }
  const Status valid = program->Validate(&views);
  if (!valid.ok()) throw nb::value_error(valid.message.c_str());
  std::vector<std::unique_ptr<Aligned>> results;
  std::vector<char*> outputs;
  for (const Output& output : program->outputs) {
    results.push_back(std::make_unique<Aligned>(output.nbytes));
    outputs.push_back(results.back()->data);
  }
  Aligned workspace(program->workspace);
  Status status;
  {
    nb::gil_scoped_release gil;
    status = program->Run({&views, outputs.data(), workspace.data, state_values.data(), state_values.size()});
  }
  Check(status);
  const nb::object frombuffer = nb::module_::import_("numpy").attr("frombuffer");
  nb::list arrays;
  for (size_t i = 0; i < outputs.size(); ++i) {
    PyObject* bytes =
        PyByteArray_FromStringAndSize(outputs[i], static_cast<Py_ssize_t>(program->outputs[i].nbytes));
    if (bytes == nullptr) throw nb::python_error();
    arrays.append(frombuffer(nb::steal(bytes), "uint8"));
  }
  return arrays;
}

}  // namespace

void DefinePrograms(nb::module_& m) {
  nb::class_<OwnedProgram>(m, "Program", nb::is_weak_referenceable());
  nb::class_<Shared>(m, "RecipeData")
      .def(
          "__init__",
          [](Shared* self, nb::bytes constants, nb::object keepalive) {
            new (self)
                Shared(std::make_shared<RecipeData>(constants.c_str(), constants.size(), Keep(keepalive)));
          },
          nb::arg("constants"), nb::arg("keepalive").none())
      .def("find",
           [](const Shared& self, const std::vector<int64_t>& numbers) -> std::optional<OwnedProgram> {
             ProgramPtr found = self->Find(numbers);
             if (found == nullptr) return std::nullopt;
             return OwnedProgram{std::move(found)};
           })
      .def("alive", [](const Shared& self) { return self->Alive(); });
  m.def("make_program", &MakeProgram, nb::arg("name"), nb::arg("calls"), nb::arg("buffers"),
        nb::arg("outputs"), nb::arg("workspace") = 0, nb::arg("states") = std::vector<StateTuple>(),
        nb::arg("copies") = std::vector<CopyTuple>(), nb::arg("data").none() = nb::none(),
        nb::arg("numbers") = std::vector<int64_t>(), nb::arg("loops") = std::vector<LoopTuple>(),
        nb::arg("customs") = std::vector<CustomTuple>(), nb::arg("in_place") = std::vector<UpdateTuple>(),
        nb::arg("index_checks") = std::vector<IndexCheckTuple>());
  m.def("make_interpreted", &MakeInterpreted, nb::arg("name"), nb::arg("outputs"), nb::arg("states"),
        nb::arg("callable"));
  m.def("run_program", &RunProgram, nb::arg("program"), nb::arg("inputs"), nb::arg("states") = nb::list());
  m.def(
      "program_number", [](const OwnedProgram& owned) { return owned.program->number; }, nb::arg("program"));
  m.def("forget_programs", &ForgetPrograms);
  m.def("set_most_recipes", &SetMostRecipes, nb::arg("count"));
  m.def("recipes_in_memory", &RecipeData::InMemory);
}

}  // namespace habana
