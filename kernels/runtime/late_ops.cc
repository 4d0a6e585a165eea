#include "runtime/late_ops.h"

#include <mutex>

namespace habana {

namespace {

struct Held {
  std::mutex mutex;
  Registrar registrar{nullptr, nullptr};
};

Held& g_held = *new Held;

Status NotLoaded() {
  return Status(Code::kFailedPrecondition, "Habana module not initialized. Call load_habana_module() first.");
}

}  // namespace

void SetRegistrar(const Registrar& registrar) {
  std::lock_guard<std::mutex> lock(g_held.mutex);
  g_held.registrar = registrar;
}

// One at a time: an op's kernels follow it.
Status RegisterOp(const NewOp& op) {
  std::lock_guard<std::mutex> lock(g_held.mutex);
  return g_held.registrar.op == nullptr ? NotLoaded() : g_held.registrar.op(op);
}

Status RegisterKernel(const Registration& kernel) {
  std::lock_guard<std::mutex> lock(g_held.mutex);
  return g_held.registrar.kernel == nullptr ? NotLoaded() : g_held.registrar.kernel(kernel);
}

}  // namespace habana
