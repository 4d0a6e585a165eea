// The calls from native code into Python: methods of one Python object, and what they are given.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>

#include "bridge/parts.h"
#include "bridge/programs.h"
#include "runtime/callbacks.h"
#include "runtime/late_ops.h"

namespace habana {

namespace {

// The graph at hand as Python sees it; dead once the callback is over.
struct ItemView {
  GraphItem* item;

  GraphItem& get() const {
    if (item == nullptr) throw std::runtime_error("this graph item is used after its optimize call ended");
    return *item;
  }
};

// The hooks object. Leaked on purpose: it outlives every launch.
PyObject* g_hooks = nullptr;

nb::object Hook(const char* name) { return nb::getattr(nb::handle(g_hooks), name); }

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

// [(attr, serialized AttrValue)]
void ReadAttrs(nb::handle answer, StockOp* op) {
  for (const auto& [name, value] : nb::cast<std::vector<std::pair<std::string, nb::bytes>>>(answer)) {
    op->attrs.emplace_back(name, FromBytes(value));
  }
}

// (op, attrs)
Status GetStockPlan(const std::string& node_def, StockOp* op) {
  return WithPython("planning an op for the CPU", [&] {
    const nb::tuple answer = nb::cast<nb::tuple>(Hook("stock_plan")(Bytes(node_def)));
    op->op = nb::cast<std::string>(answer[0]);
    ReadAttrs(answer[1], op);
  });
}

// ("stock", dtype, op, read_only, attrs) or ("dataflow", dtype, info, assigns, results)
Status GetVariablePlan(const std::string& node_def, VariablePlan* plan) {
  return WithPython("planning an op on variables", [&] {
    const nb::tuple answer = nb::cast<nb::tuple>(Hook("variable_plan")(Bytes(node_def)));
    plan->stock = nb::cast<std::string>(answer[0]) == "stock";
    plan->dtype = nb::cast<int>(answer[1]);
    if (plan->stock) {
      plan->op.op = nb::cast<std::string>(answer[2]);
      plan->read_only = nb::cast<bool>(answer[3]);
      ReadAttrs(answer[4], &plan->op);
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
    const nb::object answer = Hook("resolve")(Bytes(cluster), signature);
    if (!nb::isinstance<OwnedProgram>(answer)) {
      throw nb::type_error(
          ("resolve returned " + nb::cast<std::string>(nb::repr(answer)) + ", which is no program").c_str());
    }
    *program = nb::cast<const OwnedProgram&>(answer).program;
    const Status valid = (*program)->Validate(&inputs);
    if (!valid.ok()) throw std::runtime_error(valid.message);
  });
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

Status WarnOfIndex(const std::string& text) {
  return WithPython("telling of an index out of range",
                    [&] { Hook("warn_of_index")(nb::str(text.data(), text.size())); });
}

Status NoCard(std::string* text) {
  return WithPython("looking for a card", [&] { *text = nb::cast<std::string>(Hook("no_card_text")()); });
}

Status ProfileStart() {
  return WithPython("starting a profile", [] { Hook("profile_start")(); });
}

Status ProfileStop(std::string* space) {
  return WithPython("ending a profile", [&] { *space = FromBytes(Hook("profile_stop")()); });
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

// Registers the methods of `hooks` as the runtime's callbacks.
void Attach(nb::object hooks) {
  PyObject* old = g_hooks;
  g_hooks = hooks.release().ptr();
  Py_XDECREF(old);
  SetCallbacks({GetNodeInfo, GetVariablePlan, GetStockPlan, GetClusterInfo, Resolve, Optimize, MemoryText,
                WarnOfIndex, NoCard, ProfileStart, ProfileStop, EagerContext, ReleaseGil, RestoreGil});
}

// Takes them away again; see WithdrawCallbacks.
bool Withdraw(double timeout_seconds) {
  nb::gil_scoped_release gil;
  return WithdrawCallbacks(timeout_seconds);
}

using RegistrationTuple =
    std::tuple<std::string, std::vector<std::pair<std::string, int>>, std::vector<std::string>, std::string>;

Registration::Kind KindOf(const std::string& text) {
  using Kind = Registration::Kind;
  for (const auto& [name, kind] :
       {std::pair("op", Kind::kOp), std::pair("in_place", Kind::kInPlace),
        std::pair("variable", Kind::kVariable), std::pair("stock", Kind::kStock)}) {
    if (text == name) return kind;
  }
  throw nb::value_error("a kernel has an unknown kind");
}

void Register(const std::vector<RegistrationTuple>& rows) {
  std::vector<Registration> registrations;
  for (const auto& [op, types, host, kind] : rows) registrations.push_back({op, types, host, KindOf(kind)});
  SetRegistrations(std::move(registrations));
}

using ShapePartTuple = std::tuple<int, int64_t, int64_t, int64_t>;

void RegisterLateOp(const std::string& name, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const std::vector<std::string>& attrs,
                    const std::vector<std::optional<std::vector<ShapePartTuple>>>& shapes) {
  NewOp op{name, inputs, outputs, attrs, {}};
  for (const auto& shape : shapes) {
    OutputShape output{shape.has_value(), {}};
    if (shape.has_value()) {
      for (const auto& [input, begin, end, length] : *shape)
        output.parts.push_back({input, begin, end, length});
    }
    op.shapes.push_back(std::move(output));
  }
  Check(RegisterOp(op));
}

void RegisterLateKernels(const std::vector<RegistrationTuple>& rows) {
  for (const auto& [op, types, host, kind] : rows) Check(RegisterKernel({op, types, host, KindOf(kind)}));
}

std::vector<nb::bytes> BytesList(const std::vector<std::string>& texts) {
  std::vector<nb::bytes> list;
  for (const std::string& text : texts) list.push_back(Bytes(text));
  return list;
}

}  // namespace

bool Attached() { return g_hooks != nullptr; }

void DefineHooks(nb::module_& m) {
  m.def("attach", &Attach, nb::arg("hooks"));
  m.def("withdraw", &Withdraw, nb::arg("timeout_seconds"));
  m.def("set_registrations", &Register, nb::arg("rows"));
  m.def("register_op", &RegisterLateOp, nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"),
        nb::arg("attrs"), nb::arg("shapes"));
  m.def("register_kernels", &RegisterLateKernels, nb::arg("rows"));
  m.def("forget_eager_context", &ForgetEagerContext);
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

}  // namespace habana
