// What Python plans for a kernel's node: asked for at the first use, once.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "runtime/callbacks.h"

namespace habana {

template <typename Plan>
class Planned {
 public:
  explicit Planned(std::string node_def) : node_def_(std::move(node_def)) {}

  // `ask` is the callback that makes the plan. Takes the GIL the first time; two threads may both ask, and
  // the first answer counts.
  Status Get(Status (*Callbacks::*ask)(const std::string& node_def, Plan* plan),
             std::shared_ptr<const Plan>* plan) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      *plan = plan_;
    }
    if (*plan != nullptr) return {};
    auto made = std::make_shared<Plan>();
    {
      CallbackScope python;
      HABANA_RETURN_IF_ERROR(python.status());
      HABANA_RETURN_IF_ERROR(((*python.operator->()).*ask)(node_def_, made.get()));
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (plan_ == nullptr) plan_ = std::move(made);
    *plan = plan_;
    return {};
  }

 private:
  const std::string node_def_;
  std::mutex mutex_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace habana
