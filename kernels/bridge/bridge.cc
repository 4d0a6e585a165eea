// The Python module habana_tf._native._bridge: the only place where Python and native code meet.
//
// Two directions. Python calls: make and run programs, settings and counters of the runtime. Native
// code calls back: `attach(hooks)` registers the methods of one Python object as the runtime's callbacks, and
// `withdraw()` takes them away before the interpreter goes. It needs no TensorFlow.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>

#include "bridge/hooks.h"
#include "bridge/kernel_calls.h"
#include "bridge/programs.h"
#include "bridge/python.h"
#include "runtime/callbacks.h"
#include "runtime/card.h"
#include "runtime/counters.h"
#include "runtime/exchange.h"
#include "runtime/host_memory.h"
#include "runtime/late_ops.h"
#include "runtime/launched.h"
#include "runtime/resolver.h"
#include "runtime/thread_pool.h"
#include "runtime/timeline.h"

namespace habana {
namespace {

void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

nb::dict CounterValues() {
  const Counters& c = GetCounters();
  nb::dict values;
#define HABANA_COUNTER(name) values[#name] = c.name.load();
  HABANA_COUNTERS(HABANA_COUNTER)
#undef HABANA_COUNTER
  return values;
}

// [(number, name, launches, nanoseconds, end of the last)]
nb::list LaunchedTuples() {
  std::vector<Launched> programs;
  {
    nb::gil_scoped_release gil;  // programs go, and take the lock, while they hold the GIL
    programs = ReadLaunched();
  }
  nb::list out;
  for (const Launched& p : programs) {
    out.append(nb::make_tuple(p.number, p.name, p.launches, p.nanoseconds, p.ended));
  }
  return out;
}

// {op: (how many, nanoseconds)}
nb::dict CpuOpTimes() {
  nb::dict out;
  for (const auto& [op, counted] : ReadCpuOps())
    out[op.c_str()] = nb::make_tuple(counted.first, counted.second);
  return out;
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
  throw nb::value_error("a kernel is of no known kind");
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

// ([(two ids of a thread, its name, events as they are in memory)], names of programs, names of ops, dropped)
nb::tuple ReadRecordTuple(int64_t since) {
  Recorded record;
  {
    nb::gil_scoped_release gil;
    record = ReadRecord(since);
  }
  nb::list threads;
  for (const RecordedThread& thread : record.threads) {
    const auto* data = reinterpret_cast<const char*>(thread.events.data());
    threads.append(nb::make_tuple(thread.id, thread.hash, thread.name,
                                  nb::bytes(data, thread.events.size() * sizeof(Event))));
  }
  const auto named = [](const std::map<int64_t, std::string>& names) {
    nb::dict out;
    for (const auto& [number, name] : names) out[nb::int_(number)] = name;
    return out;
  };
  return nb::make_tuple(threads, named(record.programs), named(record.ops), record.dropped);
}

std::vector<nb::bytes> BytesList(const std::vector<std::string>& texts) {
  std::vector<nb::bytes> list;
  for (const std::string& text : texts) list.push_back(Bytes(text));
  return list;
}

void DefinePrograms(nb::module_& m) {
  nb::class_<OwnedProgram>(m, "Program", nb::is_weak_referenceable());
  using Shared = std::shared_ptr<RecipeData>;
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
  m.def(
      "make_program",
      [](const std::string& name, const std::vector<CallTuple>& calls,
         const std::vector<BufferTuple>& buffers, const std::vector<OutputTuple>& outputs, int64_t workspace,
         const std::vector<StateTuple>& states, const std::vector<CopyTuple>& copies, const Shared* data,
         const std::vector<int64_t>& numbers, const std::vector<LoopTuple>& loops,
         const std::vector<CustomTuple>& customs, const std::vector<UpdateTuple>& in_place,
         const std::vector<IndexCheckTuple>& index_checks, bool bad_index_is_error) {
        return MakeProgram(name, calls, buffers, outputs, workspace, states, copies,
                           data == nullptr ? nullptr : *data, numbers, loops, customs, in_place, index_checks,
                           bad_index_is_error);
      },
      nb::arg("name"), nb::arg("calls"), nb::arg("buffers"), nb::arg("outputs"), nb::arg("workspace") = 0,
      nb::arg("states") = std::vector<StateTuple>(), nb::arg("copies") = std::vector<CopyTuple>(),
      nb::arg("data").none() = nb::none(), nb::arg("numbers") = std::vector<int64_t>(),
      nb::arg("loops") = std::vector<LoopTuple>(), nb::arg("customs") = std::vector<CustomTuple>(),
      nb::arg("in_place") = std::vector<UpdateTuple>(),
      nb::arg("index_checks") = std::vector<IndexCheckTuple>(), nb::arg("bad_index_is_error") = false);
  m.def("make_interpreted", &MakeInterpreted, nb::arg("name"), nb::arg("outputs"), nb::arg("states"),
        nb::arg("callable"));
  m.def("run_program", &RunProgram, nb::arg("program"), nb::arg("inputs"), nb::arg("states") = nb::list());
  m.def(
      "program_number", [](const OwnedProgram& owned) { return owned.program->number; }, nb::arg("program"));
  m.def("program_stats", &ProgramStats, nb::arg("program"));
  m.def("forget_programs", &ForgetPrograms);
  m.def("set_most_recipes", &SetMostRecipes, nb::arg("count"));
  m.def("recipes_in_memory", &RecipeData::InMemory);
}

void DefineCounters(nb::module_& m) {
  m.def("set_threads", &SetThreads, nb::arg("n"));
  m.def("get_threads", &GetThreads);
  m.def("counters", &CounterValues);
  m.def("launched", &LaunchedTuples);
  m.def("cpu_ops", &CpuOpTimes);
  m.def("start_recording", &StartRecording);
  m.def("stop_recording", &StopRecording);
  m.def("read_record", &ReadRecordTuple, nb::arg("since"));
  m.def("host_memory", [] {
    const HostMemory host = ReadHostMemory();
    return std::make_tuple(host.total, host.available);
  });
}

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

void DefineCard(nb::module_& m) {
  m.def(
      "set_card",
      [](const std::string& chip, const std::string& bus_id, int64_t hbm_bytes) {
        SetCard({chip, bus_id, hbm_bytes});
      },
      nb::arg("chip"), nb::arg("bus_id"), nb::arg("hbm_bytes"));

  m.def(
      "arm_card",
      [](int descriptor, const std::vector<int>& modules, const std::string& chip, int64_t hbm_bytes,
         const std::string& command) { ArmCard({descriptor, modules, chip, command, hbm_bytes}); },
      nb::arg("descriptor"), nb::arg("modules"), nb::arg("chip"), nb::arg("hbm_bytes"), nb::arg("command"));
  m.def("claim_card", &ClaimCard);
  m.def("held_card", &HeldCard);
  m.def("count_recipe", [] { Published().recipes.fetch_add(1, std::memory_order_relaxed); });
}

void DefineKernelsInC(nb::module_& m) {
  m.def("kernel_shapes", KernelShapes);
  m.def("kernel_number", KernelNumber);
  m.def("kernel_run", KernelRun);
}

void DefineExchange(nb::module_& m) {
  m.def(
      "make_exchange",
      [](int size, const std::string& job, int task) {
        int exchange = -1, descriptor = -1;
        Check(MakeExchange(size, {job, task}, &exchange, &descriptor));
        return std::pair(exchange, descriptor);
      },
      nb::arg("size"), nb::arg("job"), nb::arg("task"));
  m.def(
      "join_exchange",
      [](const std::string& path, int rank, int size, const std::string& job, int task) {
        int exchange = -1;
        Check(JoinExchange(path, rank, size, {job, task}, &exchange));
        return exchange;
      },
      nb::arg("path"), nb::arg("rank"), nb::arg("size"), nb::arg("job"), nb::arg("task"));
}

}  // namespace
}  // namespace habana

NB_MODULE(_bridge, m) {
  using namespace habana;  // the module body is a list of the names above
  nb::set_leak_warnings(false);
  m.doc() = "Calls between Python and habana_tf's native runtime.";
  DefinePrograms(m);
  DefineCounters(m);
  DefineHooks(m);
  DefineCard(m);
  DefineKernelsInC(m);
  DefineExchange(m);
}
