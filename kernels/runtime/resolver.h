// From the inputs of a launch to the program that runs them.
//
// There is one ClusterKernel per kernel object of TensorFlow. It maps signatures (types, shapes, and the
// values of inputs that fix a shape) to programs, least recently used ones dropped, and holds the random
// streams of its cluster. A miss calls Python; concurrent misses of one key in the process wait for one
// resolution.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/callbacks.h"
#include "runtime/export.h"
#include "runtime/program.h"
#include "runtime/random_state.h"
#include "runtime/status.h"

namespace habana {

// Invalidates the programs of all kernels: the meaning of clusters has changed.
HABANA_EXPORT void ForgetPrograms();

// How many recipes may have their code in memory before kernels drop the least recently used programs.
HABANA_EXPORT void SetMostRecipes(int64_t count);

struct Flight;

class HABANA_EXPORT ClusterKernel {
 public:
  // `text` is a serialized cluster, or with `is_node` a serialized NodeDef whose cluster Python makes.
  // order: the op input behind each program input, if they are not the same and Python does not know.
  ClusterKernel(std::string text, bool is_node, std::vector<int> order = {});
  // A cluster already known.
  explicit ClusterKernel(const ClusterInfo& info);
  ~ClusterKernel();
  ClusterKernel(const ClusterKernel&) = delete;
  ClusterKernel& operator=(const ClusterKernel&) = delete;

  // Has Python describe the cluster, once. Needed before any other call.
  Status Prepare();

  // The op input behind each program input; empty when they are the same.
  const std::vector<int>& order() const { return order_; }

  // Finds or makes the program for these inputs, given in program order.
  Status Find(const std::vector<InputView>& inputs, ProgramPtr* program);

  // The program for these inputs if this kernel has one, else null. Never calls Python.
  ProgramPtr FindKnown(const std::vector<InputView>& inputs);

  // Copies of the random states for one launch of `program`; the streams move on.
  void ReserveStates(const Program& program, std::vector<RandomState>* states);

 private:
  struct Entry {
    Entry(std::vector<int64_t> k, ProgramPtr p, int64_t now)
        : key(std::move(k)), program(std::move(p)), met(now) {}
    const std::vector<int64_t> key;
    const ProgramPtr program;
    std::atomic<int64_t> met;  // the number of misses in this process when it was last used
  };
  using Entries = std::unordered_multimap<size_t, Entry>;  // by hash of the key

  Status Adopt(const ClusterInfo& info);
  Status Resolve(const std::vector<InputView>& inputs, const std::vector<int64_t>& key, size_t hash,
                 const std::string& name, Flight* flight);
  Status FindOrResolve(const std::vector<InputView>& inputs, const std::vector<int64_t>& key, size_t hash,
                       ProgramPtr* program);
  ProgramPtr Lookup(const std::vector<int64_t>& key, size_t hash);
  std::vector<Entries::node_type> Oldest();
  std::vector<Entries::node_type> Before(int64_t miss);
  static void DropOldest();
  void Insert(const std::vector<int64_t>& key, size_t hash, const ProgramPtr& program, int64_t generation);

  const std::string text_;
  const bool is_node_;
  std::atomic<bool> prepared_{false};
  std::mutex prepare_mutex_;
  std::string cluster_;
  std::vector<int> order_;
  std::vector<char> fixed_;
  std::vector<std::unique_ptr<RandomStream>> streams_;

  std::shared_mutex mutex_;
  int64_t generation_ = 0;  // of what programs_ holds
  Entries programs_;
};

}  // namespace habana
