// What the parts of the bridge share: Python objects held by native code, and Python exceptions as statuses.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "runtime/counters.h"
#include "runtime/status.h"

namespace habana {

namespace nb = nanobind;

// A reference that native code may drop on any thread and under any lock: the object waits until DropDead.
std::shared_ptr<void> Keep(nb::handle object);
void DropDead();

nb::bytes Bytes(const std::string& text);
std::string FromBytes(nb::handle object);

// Python's exception as a status. An interrupt (any BaseException that is no Exception) is raised again in
// the main thread, a lack of memory is RESOURCE_EXHAUSTED, and everything else has the exception's own code
// (`status_code`) or INTERNAL with the place it was raised.
Status StatusOf(const nb::python_error& error, const char* doing);

// Raises an error as RuntimeError.
inline void Check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message);
}

// Runs `body` under the GIL and turns what it throws into a status.
template <typename F>
Status WithPython(const char* doing, F body) {
  nb::gil_scoped_acquire gil;
  try {
    body();
    DropDead();
    return {};
  } catch (const nb::python_error& error) {
    try {
      return StatusOf(error, doing);
    } catch (const std::exception& second) {
      return Status(Code::kInternal, std::string("HPU, while ") + doing + ": " + second.what());
    }
  } catch (const std::exception& error) {
    GetCounters().callback_errors.fetch_add(1, std::memory_order_relaxed);
    return Status(Code::kInternal, std::string("HPU, while ") + doing + ": " + error.what());
  }
}

}  // namespace habana
