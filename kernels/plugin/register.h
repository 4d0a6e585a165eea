// What TensorFlow refuses to register is said and counted.
#pragma once

#include <cstdio>
#include <string>

#include "plugin/status.h"
#include "runtime/counters.h"

namespace habana {

inline void Report(const std::string& what, const TfStatus& status) {
  GetCounters().registration_errors.fetch_add(1);
  std::fprintf(stderr, "habana_tf: TensorFlow refused %s: %s\n", what.c_str(), status.message().c_str());
}

}  // namespace habana
