// An answer of Python's to C++ that leaves a Python exception as it was.
#include <memory>
#include <optional>

#include "bridge/parts.h"

namespace habana {

namespace {

// A method of a class that answers with one value, also while a Python exception is set.
//
// PyTorch asks a device guard that is written in Python for its type whenever a stream is taken back, also
// while the exception of a hook passes through C++, in a function that may throw nothing
// (torch/csrc/acc/Module.cpp). To CPython it is an error that a call returns while an exception is set. So
// the exception is set aside for as long as the method is held, and the caller holds it for the call:
//
//   the method is looked up    Get sets the exception aside
//   it is called               the value
//   it is dropped              pending sets the exception again
struct Undisturbed {
  explicit Undisturbed(nb::object answer) : value(std::move(answer)) {}

  nb::object value;
  std::optional<nb::error_scope> pending;
};

PyObject* Get(PyObject* self, PyObject*, PyObject*) {
  if (PyErr_Occurred() == nullptr) {
    Py_INCREF(self);
    return self;
  }
  auto method = std::make_unique<Undisturbed>(nb::inst_ptr<Undisturbed>(self)->value);
  method->pending.emplace();
  return nb::cast(method.release(), nb::rv_policy::take_ownership).release().ptr();
}

PyType_Slot g_slots[] = {{Py_tp_descr_get, reinterpret_cast<void*>(Get)}, {0, nullptr}};

}  // namespace

void DefineUndisturbed(nb::module_& m) {
  nb::class_<Undisturbed>(m, "Undisturbed", nb::type_slots(g_slots))
      .def(nb::init<nb::object>(), nb::arg("value"))
      .def("__call__", [](const Undisturbed& method) { return method.value; });
}

}  // namespace habana
