// TF_InitProfiler: a session of TensorFlow's profiler gets the launches of its time as planes of an XSpace.
//
// Python makes the XSpace (habana_tf/tensorflow/profiler/session.py), because it knows what the programs are
// made of. An error is TensorFlow's to report: it drops this profiler's planes, and the program runs on.
#include <algorithm>
#include <cstring>
#include <string>

#include "plugin/status.h"
#include "runtime/callbacks.h"
#include "tensorflow_c/pluggable_profiler.h"

namespace habana {
namespace {

// What `collect` gives. TensorFlow has one session at a time, and asks twice: for the size, then for the
// bytes.
std::string& g_collected = *new std::string;

void Start(const TP_Profiler*, TF_Status* status) {
  g_collected.clear();
  CallbackScope python;
  Assign(python.status().ok() ? python->profile_start() : python.status(), status);
}

void Stop(const TP_Profiler*, TF_Status* status) {
  CallbackScope python;
  Assign(python.status().ok() ? python->profile_stop(&g_collected) : python.status(), status);
}

void Collect(const TP_Profiler*, uint8_t* buffer, size_t* nbytes, TF_Status* status) {
  if (buffer == nullptr) {
    *nbytes = g_collected.size();
  } else {
    *nbytes = std::min(*nbytes, g_collected.size());
    std::memcpy(buffer, g_collected.data(), *nbytes);
    std::string().swap(g_collected);
  }
  TF_SetStatus(status, TF_OK, "");
}

void DestroyProfiler(TP_Profiler*) {}
void DestroyProfilerFns(TP_ProfilerFns*) {}

}  // namespace
}  // namespace habana

extern "C" __attribute__((visibility("default"))) void TF_InitProfiler(TF_ProfilerRegistrationParams* params,
                                                                       TF_Status* status) {
  params->struct_size = TF_PROFILER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->profiler->struct_size = TP_PROFILER_STRUCT_SIZE;
  params->profiler->device_type = "HPU";
  params->profiler_fns->struct_size = TP_PROFILER_FNS_STRUCT_SIZE;
  params->profiler_fns->start = habana::Start;
  params->profiler_fns->stop = habana::Stop;
  params->profiler_fns->collect_data_xspace = habana::Collect;
  params->destroy_profiler = habana::DestroyProfiler;
  params->destroy_profiler_fns = habana::DestroyProfilerFns;
  TF_SetStatus(status, TF_OK, "");
}
