#include "runtime/counters.h"

namespace habana {

Counters& GetCounters() {
  static Counters counters;
  return counters;
}

}  // namespace habana
