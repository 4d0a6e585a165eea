// The Python module habana_tf._native._bridge: the only place where Python and native code meet.
//
// Two directions. Python calls: make and run programs, settings and counters of the runtime. Native
// code calls back: `attach(hooks)` registers the methods of one Python object as the runtime's callbacks, and
// `withdraw()` takes them away before the interpreter goes. It needs no TensorFlow.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bridge/parts.h"
#include "runtime/callbacks.h"
#include "runtime/card.h"
#include "runtime/counters.h"
#include "runtime/exchange.h"
#include "runtime/host_memory.h"
#include "runtime/launched.h"
#include "runtime/thread_pool.h"
#include "runtime/timeline.h"

namespace habana {
namespace {

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

// What Python has done for the card from `start` until now, which native code does for TensorFlow: added to
// the counters, and to a recording that is under way. subject: see EventKind; op: of an op on the CPU its
// name.
void CountEvent(int kind, int64_t start, int64_t subject, const std::string& op) {
  const int64_t end = MonotonicNow();
  const auto what = static_cast<EventKind>(kind);
  if (what == EventKind::kResolve) {
    GetCounters().resolutions.fetch_add(1, std::memory_order_relaxed);
    GetCounters().resolve_nanoseconds.fetch_add(end - start, std::memory_order_relaxed);
  } else if (what == EventKind::kOnCard || what == EventKind::kToCard || what == EventKind::kFromCard) {
    CountCopy(what == EventKind::kOnCard, subject)->fetch_add(end - start, std::memory_order_relaxed);
  } else if (what == EventKind::kCpuOp) {
    CountCpuOp(op, end - start);
    if (Recording()) subject = OpNumber(op);
  } else {
    throw nb::value_error("native code counts events of this kind by itself");
  }
  if (Recording()) Record({start, end, subject, what, 0, 1, 0});
}

void DefineCounters(nb::module_& m) {
  m.def("count_event", &CountEvent, nb::arg("kind"), nb::arg("start"), nb::arg("subject"),
        nb::arg("op") = "");
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
  m.def("count_update", &CountUpdate, nb::arg("by"));
  m.def("count_recipe", [] { Published().recipes.fetch_add(1, std::memory_order_relaxed); });
  m.def("count_recompiled", [] { Published().recompiled.fetch_add(1, std::memory_order_relaxed); });
  m.def("count_hit", [] { Published().hits.fetch_add(1, std::memory_order_relaxed); });
}

// element: TensorFlow's number of a type. longer: in errors, with what the user sets a timeout.
void DefineExchange(nb::module_& m) {
  const char* longer = "CommunicationOptions(timeout_seconds=...)";
  m.def(
      "make_exchange",
      [](int size, const std::string& job, int task, const std::string& longer) {
        int exchange = -1, descriptor = -1;
        Check(MakeExchange(size, {job, task, longer}, &exchange, &descriptor));
        return std::pair(exchange, descriptor);
      },
      nb::arg("size"), nb::arg("job"), nb::arg("task"), nb::arg("longer") = longer);
  m.def(
      "join_exchange",
      [](const std::string& path, int rank, int size, const std::string& job, int task,
         const std::string& longer) {
        int exchange = -1;
        Check(JoinExchange(path, rank, size, {job, task, longer}, &exchange));
        return exchange;
      },
      nb::arg("path"), nb::arg("rank"), nb::arg("size"), nb::arg("job"), nb::arg("task"),
      nb::arg("longer") = longer);
  m.def(
      "run_sum",
      [](int exchange, uint64_t key, int element, size_t count, uintptr_t in, uintptr_t out,
         double timeout_seconds) {
        Status status;
        {
          nb::gil_scoped_release gil;
          status =
              RunSum(exchange, {key, static_cast<Element>(element), count, reinterpret_cast<const char*>(in),
                                reinterpret_cast<char*>(out), timeout_seconds});
        }
        Check(status);
      },
      nb::arg("exchange"), nb::arg("key"), nb::arg("element"), nb::arg("count"), nb::arg("in"),
      nb::arg("out"), nb::arg("timeout_seconds"));
  m.def("leave_exchange", &LeaveExchange, nb::arg("exchange"));
}

}  // namespace
}  // namespace habana

NB_MODULE(_bridge, m) {
  using namespace habana;  // the module body is a list of the names above
  nb::set_leak_warnings(false);
  m.doc() = "Calls between Python and habana_tf's native runtime.";
  DefinePrograms(m);
  DefineAddresses(m);
  DefineCounters(m);
  DefineHooks(m);
  DefineCard(m);
  DefineKernelCalls(m);
  DefineExchange(m);
  DefineUndisturbed(m);
}
