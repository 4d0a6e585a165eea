#include "runtime/late_ops.h"

#include <mutex>

namespace habana {

namespace {

struct Held {
  std::mutex mutex;
  Registrar registrar{nullptr, nullptr};
};

Held& TheRegistrar() {
  static Held* held = new Held;
  return *held;
}

Status NotLoaded() {
  return Status(Code::kFailedPrecondition, "Habana module not initialized. Call load_habana_module() first.");
}

}  // namespace

void SetRegistrar(const Registrar& registrar) {
  Held& held = TheRegistrar();
  std::lock_guard<std::mutex> lock(held.mutex);
  held.registrar = registrar;
}

// One at a time: an op's kernels follow it.
Status RegisterOp(const NewOp& op) {
  Held& held = TheRegistrar();
  std::lock_guard<std::mutex> lock(held.mutex);
  return held.registrar.op == nullptr ? NotLoaded() : held.registrar.op(op);
}

Status RegisterKernel(const Registration& kernel) {
  Held& held = TheRegistrar();
  std::lock_guard<std::mutex> lock(held.mutex);
  return held.registrar.kernel == nullptr ? NotLoaded() : held.registrar.kernel(kernel);
}

}  // namespace habana
