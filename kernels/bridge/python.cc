#include "bridge/python.h"

#include <mutex>
#include <vector>

namespace habana {

namespace {

std::mutex g_dead_mutex;
std::vector<PyObject*>* g_dead = new std::vector<PyObject*>;

// Whether Python is just making TensorFlow's exception of a failed op; raising another one there would leave
// the caller with neither.
bool MakingTensorFlowError() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == nullptr) return false;
  PyCodeObject* code = PyFrame_GetCode(frame);
  const char* file = PyUnicode_AsUTF8(code->co_filename);
  const std::string name = file == nullptr ? "" : file;
  Py_DECREF(reinterpret_cast<PyObject*>(code));
  for (const std::string end :
       {"tensorflow/python/eager/core.py", "tensorflow/python/framework/errors_impl.py"}) {
    if (name.size() >= end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0)
      return true;
  }
  return false;
}

int RaiseCarried(void* arg) {
  if (MakingTensorFlowError() && Py_AddPendingCall(RaiseCarried, arg) == 0) return 0;
  PyObject* exception = static_cast<PyObject*>(arg);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception)), exception);
  Py_DECREF(exception);
  return -1;
}

std::string Text(nb::handle object) {
  PyObject* text = PyObject_Str(object.ptr());
  if (text == nullptr) {
    PyErr_Clear();
    return "(no text)";
  }
  const char* utf8 = PyUnicode_AsUTF8(text);
  std::string result = utf8 == nullptr ? "(no text)" : utf8;
  Py_DECREF(text);
  PyErr_Clear();
  return result;
}

std::string LastFrame(const nb::python_error& error) {
  const nb::object traceback = error.traceback();
  if (!traceback.is_valid() || traceback.is_none()) return "";
  nb::object frame = traceback;
  while (!nb::getattr(frame, "tb_next").is_none()) frame = nb::getattr(frame, "tb_next");
  const nb::object code = nb::getattr(nb::getattr(frame, "tb_frame"), "f_code");
  return " (" + Text(nb::getattr(code, "co_filename")) + ":" + Text(nb::getattr(frame, "tb_lineno")) + ")";
}

}  // namespace

void DropDead() {
  std::vector<PyObject*> dead;
  {
    std::lock_guard<std::mutex> lock(g_dead_mutex);
    dead.swap(*g_dead);
  }
  for (PyObject* object : dead) Py_DECREF(object);
}

std::shared_ptr<void> Keep(nb::handle object) {
  if (object.is_none()) return nullptr;
  PyObject* raw = object.ptr();
  Py_INCREF(raw);
  return std::shared_ptr<void>(raw, [](void* p) {
    // Not here, even under the GIL: TensorFlow may hold its locks while it deletes a kernel, and what goes
    // with the object may be a function, whose removal takes the same ones.
    std::lock_guard<std::mutex> lock(g_dead_mutex);
    g_dead->push_back(static_cast<PyObject*>(p));
  });
}

nb::bytes Bytes(const std::string& text) { return nb::bytes(text.data(), text.size()); }

std::string FromBytes(nb::handle object) {
  const nb::bytes bytes = nb::cast<nb::bytes>(object);
  return std::string(bytes.c_str(), bytes.size());
}

Status StatusOf(const nb::python_error& error, const char* doing) {
  GetCounters().callback_errors.fetch_add(1, std::memory_order_relaxed);
  const nb::object value = nb::borrow<nb::object>(error.value());
  const std::string type = Text(nb::getattr(nb::type_name(error.type()), "__str__")());
  if (!error.matches(PyExc_Exception)) {
    // Raised again in the main thread as soon as it runs Python: no status could carry it.
    Py_INCREF(value.ptr());
    if (Py_AddPendingCall(RaiseCarried, value.ptr()) != 0) Py_DECREF(value.ptr());
    return Status(Code::kCancelled, std::string("interrupted (") + type + ") while " + doing);
  }
  if (error.matches(PyExc_MemoryError)) {
    return Status(Code::kResourceExhausted,
                  std::string("out of host memory (MemoryError) while ") + doing + ": " + Text(value));
  }
  Status status(Code::kInternal, "");
  for (const char* name : {"status_code", "error_code"}) {
    if (!nb::hasattr(value, name)) continue;
    const nb::object code = nb::getattr(value, name);
    if (nb::isinstance<nb::int_>(code)) {
      status.code = nb::cast<int>(code);
      status.message = Text(value);
      return status;
    }
  }
  status.message = std::string("HPU, while ") + doing + ": " + type + ": " + Text(value) + LastFrame(error);
  return status;
}

}  // namespace habana
