// The calls from native code into Python.
//
// Neither the runtime nor the plugin has a Python symbol. The bridge registers plain functions here and
// withdraws them before the interpreter goes. Rules:
//  - no native lock is held during a call (calls take the GIL);
//  - a call that finds them withdrawn, or the process forked, gets a status that says so;
//  - Withdraw waits for calls under way.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/export.h"
#include "runtime/program.h"
#include "runtime/status.h"

namespace habana {

// What TensorFlow's Grappler tells about the graph at hand; the plugin implements it.
class GraphItem {
 public:
  virtual ~GraphItem() = default;
  virtual Status NodesToPreserve(std::vector<std::string>* names) = 0;
  virtual Status FetchNodes(std::vector<std::string>* names) = 0;
  // Serialized OpInfo.TensorProperties, one per output. Shapes are inferred at the first call.
  virtual Status OutputProperties(const std::string& node, std::vector<std::string>* properties) = 0;
};

// A cluster and what a kernel must know of it.
struct ClusterInfo {
  std::string cluster;
  std::vector<int> order;                             // program input -> op input; empty: the same
  std::vector<int> fixed;                             // program inputs whose value belongs to the signature
  std::vector<std::pair<uint64_t, uint64_t>> states;  // seed, seed2 of each random state
};

// An op that TensorFlow's own CPU kernel runs.
struct StockOp {
  std::string op;
  std::vector<std::pair<std::string, std::string>> attrs;  // name, serialized AttrValue
};

// How an op on resource variables runs outside a launch; see plugin/variables.cc.
struct VariablePlan {
  bool stock = false;                        // run TensorFlow's CPU kernel on copies of the variables
  int dtype = 0;                             // of the variables
  bool read_only = false;                    // of a stock op: the variables stay as they are
  StockOp op;                                // of a stock op
  ClusterInfo info;                          // otherwise: its dataflow form
  std::vector<std::pair<int, int>> assigns;  // (program output, op input that names the variable)
  std::vector<int> results;                  // program outputs that are the op's outputs, in order
};

struct Callbacks {
  Status (*node_info)(const std::string& node_def, ClusterInfo* info);
  Status (*variable_plan)(const std::string& node_def, VariablePlan* plan);
  // How TensorFlow's CPU kernel runs an op that stands on HPU; see plugin/stock.h.
  Status (*stock_plan)(const std::string& node_def, StockOp* op);
  Status (*cluster_info)(const std::string& cluster, ClusterInfo* info);
  // fixed[i] tells whether the value of input i belongs to the signature.
  Status (*resolve)(const std::string& cluster, const std::vector<InputView>& inputs,
                    const std::vector<char>& fixed, ProgramPtr* program);
  Status (*optimize)(const char* graph, size_t nbytes, GraphItem* item, std::string* out, bool* changed);
  // One line for a person: bytes in use and in total on the card.
  Status (*memory_text)(std::string* text);
  // A launch met an index out of range.
  Status (*warn_of_index)(const std::string& text);
  // Why this process has no card: the holders of the cards, and what to do.
  Status (*no_card)(std::string* text);
  // A session of TensorFlow's profiler begins; it ends, and gives a serialized XSpace.
  Status (*profile_start)();
  Status (*profile_stop)(std::string* space);
  // The user's TFE_Context, or null when there is none.
  Status (*eager_context)(void** context);
  // Lets go of the GIL if this thread holds it, and takes it back: around waits for another thread.
  void* (*release_gil)();
  void (*restore_gil)(void* state);
};

HABANA_EXPORT void SetCallbacks(const Callbacks& callbacks);

// No call starts after this; waits up to `timeout_seconds` for those under way. False when some remain.
HABANA_EXPORT bool WithdrawCallbacks(double timeout_seconds);

// True in a child that was forked after SetCallbacks.
HABANA_EXPORT bool InForkedChild();
HABANA_EXPORT Status ForkedChildStatus();

// Access to the callbacks for the time of one call.
class HABANA_EXPORT CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

  const Status& status() const { return status_; }
  const Callbacks* operator->() const { return callbacks_; }

 private:
  const Callbacks* callbacks_ = nullptr;
  Status status_;
};

// Kernels that Python asks the plugin to register, set before TensorFlow loads it.
struct Registration {
  // in place: output 0 may take over an input's buffer. Variable: an op on resource variables. Stock: an op
  // that HPU has not and TensorFlow's CPU kernel runs; the placer prefers a CPU where the program leaves it
  // the choice.
  enum class Kind { kOp, kInPlace, kVariable, kStock };

  std::string op;
  std::vector<std::pair<std::string, int>> types;  // one TensorFlow data type per type attribute
  std::vector<std::string> host;                   // arguments that live in host memory
  Kind kind = Kind::kOp;
};

HABANA_EXPORT void SetRegistrations(std::vector<Registration> registrations);
HABANA_EXPORT const std::vector<Registration>& GetRegistrations();

// The user's TFE_Context, kept so that Python's lock is taken for it once. Python forgets it before it makes
// another context.
HABANA_EXPORT Status EagerContextOfProcess(void** context);
HABANA_EXPORT void ForgetEagerContext();

// The card this process simulates, set before TensorFlow loads the plugin.
struct Card {
  std::string chip = "GAUDI2";
  std::string bus_id;
  int64_t hbm_bytes = int64_t{96} << 30;
};

HABANA_EXPORT void SetCard(const Card& card);
HABANA_EXPORT const Card& GetCard();

}  // namespace habana
