// The runtime's callbacks, as methods of one Python object.
#pragma once

#include "bridge/python.h"
#include "runtime/callbacks.h"

namespace habana {

// The graph at hand as Python sees it; dead once the callback is over.
struct ItemView {
  GraphItem* item;

  GraphItem& get() const {
    if (item == nullptr) throw std::runtime_error("this graph item is used after its optimize call ended");
    return *item;
  }
};

// Registers the methods of `hooks` as the runtime's callbacks.
void Attach(nb::object hooks);
bool Attached();

// Takes them away again; see WithdrawCallbacks.
bool Withdraw(double timeout_seconds);

}  // namespace habana
