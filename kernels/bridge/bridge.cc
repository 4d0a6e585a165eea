// The Python module habana_tf._native._bridge: the only place where Python and native code meet.
//
// Two directions. Python calls: make, run and free programs, settings and counters of the runtime. Native
// code calls back: `attach(hooks)` registers the methods of one Python object as the runtime's callbacks, and
// `withdraw()` takes them away before the interpreter goes. It needs no TensorFlow.
#include <Python.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <tuple>

#include "runtime/callbacks.h"
#include "runtime/counters.h"
#include "runtime/host_memory.h"
#include "runtime/program.h"
#include "runtime/resolver.h"
#include "runtime/thread_pool.h"

namespace nb = nanobind;

namespace habana {
namespace {

// ---------------------------------------------------------------------------------------------------------
// Python objects that native code owns. They are let go of under the GIL only, so a program that dies on a
// native thread leaves its object in a list that the next call from Python empties.

std::mutex g_dead_mutex;
std::vector<PyObject*>* g_dead = new std::vector<PyObject*>;

void DropDead() {
  std::vector<PyObject*> dead;
  {
    std::lock_guard<std::mutex> lock(g_dead_mutex);
    dead.swap(*g_dead);
  }
  for (PyObject* object : dead) Py_DECREF(object);
}

std::shared_ptr<void> Keep(nb::handle object) {
  if (object.is_none()) return nullptr;
  PyObject* raw = object.ptr();
  Py_INCREF(raw);
  return std::shared_ptr<void>(raw, [](void* p) {
    std::lock_guard<std::mutex> lock(g_dead_mutex);
    g_dead->push_back(static_cast<PyObject*>(p));
  });
}

// ---------------------------------------------------------------------------------------------------------
// Python exceptions as statuses.

// Whether Python is just making TensorFlow's exception of a failed op; raising another one there would leave
// the caller with neither.
bool MakingTensorFlowError() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) return false;
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const std::string name = file == nullptr ? "" : file;
  Py_DECREF(reinterpret_cast<PyObject*>(code));
  for (const std::string end :
       {"tensorflow/python/eager/core.py", "tensorflow/python/framework/errors_impl.py"}) {
    if (name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
      return true;
  }
  return false;
}

int RaiseCarried(void* arg) {
  if (MakingTensorFlowError() && Py_AddPendingCall(RaiseCarried, arg) == 0) return 0;
  PyObject* exception = static_cast<PyObject*>(arg);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  Py_DECREF(exception);
  return -1;
}

std::string Text(nb::handle object) {
  PyObject* text = PyObject_Str(object.ptr());
  if (text == nullptr) {
    PyErr_Clear();
    return "(no text)";
  }
  const char* utf8 = PyUnicode_AsUTF8(text);
  std::string result = utf8 == nullptr ? "(no text)" : utf8;
  Py_DECREF(text);
  PyErr_Clear();
  return result;
}

std::string LastFrame(const nb::python_error& error) {
  const nb::object traceback = error.traceback();
  if (!traceback.is_valid() || traceback.is_none()) return "";
  nb::object frame = traceback;
  while (!nb::getattr(frame, "tb_next").is_none()) frame = nb::getattr(frame, "tb_next");
  const nb::object code = nb::getattr(nb::getattr(frame, "tb_frame"), "f_code");
  return " (" + Text(nb::getattr(code, "co_filename")) + ":" + Text(nb::getattr(frame, "tb_lineno")) + ")";
}

// What an interrupt (any BaseException that is no Exception) and a lack of memory become; everything else is
// a status with the exception's own code (`tf_code`), or INTERNAL.
Status StatusOf(const nb::python_error& error, const char* doing) {
  GetCounters().callback_errors.fetch_add(1, std::memory_order_relaxed);
  const nb::object value = nb::borrow<nb::object>(error.value());
  const std::string type = Text(nb::getattr(nb::type_name(error.type()), "__str__")());
  if (!error.matches(PyExc_Exception)) {
    // Raised again in the main thread as soon as it runs Python: no status could carry it.
    Py_INCREF(value.ptr());
    if (Py_AddPendingCall(RaiseCarried, value.ptr()) != 0) Py_DECREF(value.ptr());
    return Status(Code::kCancelled, std::string("interrupted (") + type + ") while " + doing);
  }
  if (error.matches(PyExc_MemoryError)) {
    return Status(Code::kResourceExhausted,
                  std::string("out of host memory (MemoryError) while ") + doing + ": " + Text(value));
  }
  Status status(Code::kInternal, "");
  for (const char* name : {"tf_code", "error_code"}) {
    if (!nb::hasattr(value, name)) continue;
    const nb::object code = nb::getattr(value, name);
    if (nb::isinstance<nb::int_>(code)) {
      status.code = nb::cast<int>(code);
      status.message = Text(value);
      return status;
    }
  }
  status.message = std::string("HPU, while ") + doing + ": " + type + ": " + Text(value) + LastFrame(error);
  return status;
}

// Runs `body` under the GIL and turns what it throws into a status.
template <typename F>
Status WithPython(const char* doing, F body) {
  nb::gil_scoped_acquire gil;
  try {
    body();
    DropDead();
    return {};
  } catch (const nb::python_error& error) {
    try {
      return StatusOf(error, doing);
    } catch (const std::exception& second) {
      return Status(Code::kInternal, std::string("HPU, while ") + doing + ": " + second.what());
    }
  } catch (const std::exception& error) {
    GetCounters().callback_errors.fetch_add(1, std::memory_order_relaxed);
    return Status(Code::kInternal, std::string("HPU, while ") + doing + ": " + error.what());
  }
}

// ---------------------------------------------------------------------------------------------------------
// Callbacks.

// The hooks object. Leaked on purpose: it outlives every launch.
PyObject* g_hooks = nullptr;

nb::object Hook(const char* name) { return nb::getattr(nb::handle(g_hooks), name); }

nb::bytes Bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

std::string FromBytes(nb::handle object) {
  const nb::bytes bytes = nb::cast<nb::bytes>(object);
  return std::string(bytes.c_str(), bytes.size());
}

// (cluster, order, fixed inputs, seeds)
void ReadInfo(const nb::tuple& answer, ClusterInfo* info) {
  info->cluster = FromBytes(answer[0]);
  info->order = nb::cast<std::vector<int>>(answer[1]);
  info->fixed = nb::cast<std::vector<int>>(answer[2]);
  for (const auto& seeds : nb::cast<std::vector<std::pair<int64_t, int64_t>>>(answer[3])) {
    info->states.emplace_back(static_cast<uint64_t>(seeds.first), static_cast<uint64_t>(seeds.second));
  }
}

Status GetNodeInfo(const std::string& node_def, ClusterInfo* info) {
  return WithPython("making a cluster of a node",
                    [&] { ReadInfo(nb::cast<nb::tuple>(Hook("node_info")(Bytes(node_def))), info); });
}

Status GetClusterInfo(const std::string& cluster, ClusterInfo* info) {
  return WithPython("reading a cluster",
                    [&] { ReadInfo(nb::cast<nb::tuple>(Hook("cluster_info")(Bytes(cluster))), info); });
}

// ("stock", dtype, op, read_only, [(attr, serialized AttrValue)]) or ("dataflow", dtype, info, assigns,
// results)
Status GetVariablePlan(const std::string& node_def, VariablePlan* plan) {
  return WithPython("planning an op on variables", [&] {
    const nb::tuple answer = nb::cast<nb::tuple>(Hook("variable_plan")(Bytes(node_def)));
    plan->stock = nb::cast<std::string>(answer[0]) == "stock";
    plan->dtype = nb::cast<int>(answer[1]);
    if (plan->stock) {
      plan->op = nb::cast<std::string>(answer[2]);
      plan->read_only = nb::cast<bool>(answer[3]);
      for (const auto& [name, value] : nb::cast<std::vector<std::pair<std::string, nb::bytes>>>(answer[4])) {
        plan->attrs.emplace_back(name, FromBytes(value));
      }
      return;
    }
    ReadInfo(nb::cast<nb::tuple>(answer[2]), &plan->info);
    plan->assigns = nb::cast<std::vector<std::pair<int, int>>>(answer[3]);
    plan->results = nb::cast<std::vector<int>>(answer[4]);
  });
}

Status Resolve(const std::string& cluster, const std::vector<InputView>& inputs,
               const std::vector<char>& fixed, ProgramPtr* program) {
  return WithPython("compiling a cluster", [&] {
    nb::list signature;
    for (size_t i = 0; i < inputs.size(); ++i) {
      nb::list dims;
      for (int d = 0; d < inputs[i].rank; ++d) dims.append(inputs[i].dims[d]);
      nb::object value = nb::none();
      if (i < fixed.size() && fixed[i]) value = nb::bytes(inputs[i].data, inputs[i].nbytes);
      signature.append(nb::make_tuple(inputs[i].dtype, nb::tuple(dims), value));
    }
    const int64_t handle = nb::cast<int64_t>(Hook("resolve")(Bytes(cluster), signature));
    *program = FindProgram(handle);
    if (*program == nullptr) {
      throw std::runtime_error("resolve returned " + std::to_string(handle) + ", which is no program");
    }
    const Status valid = (*program)->Validate(&inputs);
    if (!valid.ok()) throw std::runtime_error(valid.message);
  });
}

// The graph at hand as Python sees it; dead once the callback is over.
struct ItemView {
  GraphItem* item;

  GraphItem& get() const {
    if (item == nullptr) throw std::runtime_error("this graph item is used after its optimize call ended");
    return *item;
  }
};

void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

Status Optimize(const char* graph, size_t nbytes, GraphItem* item, std::string* out, bool* changed) {
  return WithPython("optimizing a graph", [&] {
    const nb::object view = nb::cast(ItemView{item});
    struct Invalidate {
      nb::handle view;
      ~Invalidate() { nb::cast<ItemView&>(view).item = nullptr; }
    } invalidate{view};
    const nb::object answer = Hook("optimize")(nb::bytes(graph, nbytes), view);
    *changed = !answer.is_none();
    if (*changed) *out = FromBytes(answer);
  });
}

Status MemoryText(std::string* text) {
  return WithPython("reading memory statistics",
                    [&] { *text = nb::cast<std::string>(Hook("memory_text")()); });
}

Status EagerContext(void** context) {
  return WithPython("looking up the eager context", [&] {
    const nb::object capsule = Hook("eager_context")();
    *context = nullptr;
    if (capsule.is_none()) return;
    *context = PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()));
    if (*context == nullptr) throw nb::python_error();
  });
}

void* ReleaseGil() { return PyGILState_Check() ? PyEval_SaveThread() : nullptr; }

void RestoreGil(void* state) {
  if (state != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state));
}

void Attach(nb::object hooks) {
  PyObject* old = g_hooks;
  g_hooks = hooks.release().ptr();
  Py_XDECREF(old);
  SetCallbacks({GetNodeInfo, GetVariablePlan, GetClusterInfo, Resolve, Optimize, MemoryText, EagerContext,
                ReleaseGil, RestoreGil});
}

bool Withdraw(double timeout_seconds) {
  nb::gil_scoped_release gil;
  return WithdrawCallbacks(timeout_seconds);
}

// ---------------------------------------------------------------------------------------------------------
// Programs.

using CallTuple = std::tuple<uint64_t, std::vector<int>, std::vector<int64_t>, int64_t, int64_t>;
using BufferTuple = std::tuple<int, int, int64_t, int64_t>;
using OutputTuple = std::tuple<int, std::vector<int64_t>>;
using StateTuple = std::tuple<int, uint64_t>;

void SetOutputs(Program* program, const std::vector<OutputTuple>& outputs,
                const std::vector<StateTuple>& states) {
  for (const auto& [dtype, dims] : outputs) {
    const size_t size = DataTypeSize(dtype);
    if (size == 0) throw nb::value_error("an output has a data type that is not a plain number");
    int64_t elements = 1;
    for (int64_t d : dims) {
      if (d < 0) throw nb::value_error("an output has a negative extent");
      elements *= d;
    }
    program->outputs.push_back({dtype, dims, static_cast<size_t>(elements) * size});
  }
  for (const auto& [index, reserve] : states) {
    if (index < 0) throw nb::value_error("a random state has a negative index");
    program->states.push_back({index, reserve});
  }
}

int64_t MakeProgram(const std::string& name, const std::vector<CallTuple>& calls,
                    const std::vector<BufferTuple>& buffers, const std::vector<OutputTuple>& outputs,
                    int64_t workspace, nb::bytes constants, const std::vector<StateTuple>& states,
                    nb::object keepalive) {
  DropDead();
  auto program = std::make_shared<Program>();
  program->name = name;
  if (workspace < 0) throw nb::value_error("a program has a negative workspace");
  program->workspace = static_cast<size_t>(workspace);
  program->SetConstants(constants.c_str(), constants.size());
  for (const auto& [kind, index, offset, nbytes] : buffers) {
    program->buffers.push_back({static_cast<BufferKind>(kind), index, offset, nbytes});
  }
  for (const auto& [address, ids, dims, grid, grain] : calls) {
    program->calls.push_back({reinterpret_cast<KernelFn>(address), ids, dims, grid, grain});
  }
  SetOutputs(program.get(), outputs, states);
  program->keepalive = Keep(keepalive);
  const Status valid = program->Validate(nullptr);
  if (!valid.ok()) throw nb::value_error(valid.message.c_str());
  return RegisterProgram(std::move(program));
}

nb::object MemoryView(void* data, size_t nbytes, bool writable) {
  static char nothing[1];
  char* start = data == nullptr ? nothing : static_cast<char*>(data);
  PyObject* view =
      PyMemoryView_FromMemory(start, static_cast<Py_ssize_t>(nbytes), writable ? PyBUF_WRITE : PyBUF_READ);
  if (view == nullptr) throw nb::python_error();
  return nb::steal(view);
}

int64_t MakeInterpreted(const std::string& name, const std::vector<OutputTuple>& outputs,
                        const std::vector<StateTuple>& states, nb::object callable) {
  DropDead();
  auto program = std::make_shared<Program>();
  program->name = name;
  SetOutputs(program.get(), outputs, states);
  program->keepalive = Keep(callable);
  program->body = [](const Program& self, const LaunchArgs& args) {
    CallbackScope python;
    // Without hooks (programs run from Python's own tests) the caller's GIL vouches for the interpreter.
    if (!python.status().ok() && g_hooks != nullptr) return python.status();
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
      const nb::handle body(static_cast<PyObject*>(self.keepalive.get()));
      body(inputs, outputs_list, states_list);
    });
  };
  return RegisterProgram(std::move(program));
}

// A 64-byte aligned copy or result.
struct Aligned {
  char* data;
  explicit Aligned(size_t nbytes)
      : data(static_cast<char*>(
            std::aligned_alloc(kAlignment, (nbytes + kAlignment) / kAlignment * kAlignment))) {}
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
};

nb::list RunProgram(int64_t handle, nb::sequence inputs, nb::sequence states) {
  const ProgramPtr program = FindProgram(handle);
  if (program == nullptr) throw nb::value_error("no such program");
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
  if (!status.ok()) throw std::runtime_error(status.message);
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

bool Free(int64_t handle) {
  const bool freed = FreeProgram(handle);
  DropDead();
  return freed;
}

nb::dict ProgramStats(int64_t handle) {
  const ProgramPtr program = FindProgram(handle);
  if (program == nullptr) throw nb::value_error("no such program");
  nb::dict stats;
  stats["name"] = program->name;
  stats["launches"] = program->launches.load();
  stats["nanoseconds"] = program->nanoseconds.load();
  stats["calls"] = program->calls.size();
  stats["workspace"] = program->workspace;
  stats["constants"] = program->constant_bytes();
  stats["interpreted"] = static_cast<bool>(program->body);
  return stats;
}

nb::dict CounterValues() {
  const Counters& c = GetCounters();
  nb::dict values;
  values["launches"] = c.launches.load();
  values["interpreted_launches"] = c.interpreted_launches.load();
  values["misses"] = c.misses.load();
  values["resolutions"] = c.resolutions.load();
  values["callback_errors"] = c.callback_errors.load();
  values["optimize_calls"] = c.optimize_calls.load();
  values["optimize_errors"] = c.optimize_errors.load();
  values["registration_errors"] = c.registration_errors.load();
  values["unaligned_copies"] = c.unaligned_copies.load();
  values["variable_ops"] = c.variable_ops.load();
  values["host_memory_refusals"] = c.host_memory_refusals.load();
  values["hbm_refusals"] = c.hbm_refusals.load();
  values["device_bytes"] = c.device_bytes.load();
  return values;
}

using RegistrationTuple =
    std::tuple<std::string, std::vector<std::pair<std::string, int>>, std::vector<std::string>, bool, bool>;

void Register(const std::vector<RegistrationTuple>& rows) {
  std::vector<Registration> registrations;
  for (const auto& [op, types, host, in_place, variable] : rows) {
    registrations.push_back({op, types, host, in_place, variable});
  }
  SetRegistrations(std::move(registrations));
}

std::vector<nb::bytes> BytesList(const std::vector<std::string>& texts) {
  std::vector<nb::bytes> list;
  for (const std::string& text : texts) list.push_back(Bytes(text));
  return list;
}

}  // namespace
}  // namespace habana

NB_MODULE(_bridge, m) {
  using namespace habana;  // NOLINT: the module body is a list of the names above
  nb::set_leak_warnings(false);
  m.doc() = "Calls between Python and habana_tf's native runtime.";

  m.def("make_program", &MakeProgram, nb::arg("name"), nb::arg("calls"), nb::arg("buffers"),
        nb::arg("outputs"), nb::arg("workspace") = 0, nb::arg("constants") = nb::bytes("", 0),
        nb::arg("states") = std::vector<StateTuple>(), nb::arg("keepalive") = nb::none());
  m.def("make_interpreted", &MakeInterpreted, nb::arg("name"), nb::arg("outputs"), nb::arg("states"),
        nb::arg("callable"));
  m.def("run_program", &RunProgram, nb::arg("handle"), nb::arg("inputs"), nb::arg("states") = nb::list());
  m.def("free_program", &Free, nb::arg("handle"));
  m.def("program_stats", &ProgramStats, nb::arg("handle"));
  m.def("set_threads", &SetThreads, nb::arg("n"));
  m.def("get_threads", &GetThreads);
  m.def("counters", &CounterValues);
  m.def("host_memory", [] {
    const HostMemory host = ReadHostMemory();
    return std::make_tuple(host.total, host.available);
  });

  m.def("attach", &Attach, nb::arg("hooks"));
  m.def("withdraw", &Withdraw, nb::arg("timeout_seconds"));
  m.def("set_registrations", &Register, nb::arg("rows"));
  m.def(
      "set_card",
      [](const std::string& chip, const std::string& bus_id, int64_t hbm_bytes) {
        SetCard({chip, bus_id, hbm_bytes});
      },
      nb::arg("chip"), nb::arg("bus_id"), nb::arg("hbm_bytes"));
  m.def("in_forked_child", &InForkedChild);

  nb::class_<ItemView>(m, "GraphItem")
      .def("nodes_to_preserve",
           [](const ItemView& view) {
             std::vector<std::string> names;
             Check(view.get().NodesToPreserve(&names));
             return names;
           })
      .def("fetch_nodes",
           [](const ItemView& view) {
             std::vector<std::string> names;
             Check(view.get().FetchNodes(&names));
             return names;
           })
      .def("output_properties", [](const ItemView& view, const std::string& node) {
        std::vector<std::string> properties;
        Check(view.get().OutputProperties(node, &properties));
        return BytesList(properties);
      });
}
