// SE_InitPlugin: the device "HPU".
//
// Its memory is host memory, so pointers are real addresses (TensorFlow does arithmetic on them) and every
// copy is a memcpy. Work on a stream is complete when the call that enqueues it returns; events are complete
// when they are recorded. One process has one card.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "plugin/copies.h"
#include "plugin/memory.h"
#include "plugin/status.h"
#include "runtime/callbacks.h"
#include "runtime/card.h"
#include "runtime/program.h"
#include "runtime/timeline.h"
#include "tensorflow_c/stream_executor.h"

struct SP_Stream_st {};
struct SP_Event_st {};
struct SP_Timer_st {
  std::chrono::steady_clock::time_point start;
  std::chrono::steady_clock::time_point stop;
};

namespace habana {
namespace {

void Ok(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

// In a forked child TensorFlow itself would wait forever: it gets an error instead.
bool Alive(TF_Status* status) {
  if (!InForkedChild()) {
    Ok(status);
    return true;
  }
  Assign(ForkedChildStatus(), status);
  return false;
}

// A copy claims the card. When none is free it goes ahead all the same: TensorFlow ends the process when a
// copy fails, and what is copied is this process's own memory. The first launch then gets the error.
bool Usable(TF_Status* status) {
  if (!Alive(status)) return false;
  if (!CardReady()) ClaimCardQuietly();
  return true;
}

// ---- memory ----

void Allocate(const SP_Device*, uint64_t size, int64_t, SP_DeviceMemoryBase* mem) {
  mem->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  mem->ext = nullptr;
  mem->payload = 0;
  mem->opaque = AllocateHbm(size);
  mem->size = mem->opaque == nullptr ? 0 : size;
}

void Deallocate(const SP_Device*, SP_DeviceMemoryBase* mem) {
  FreeHbm(mem->opaque);
  mem->opaque = nullptr;
  mem->size = 0;
}

void* HostMemoryAllocate(const SP_Device*, uint64_t size) { return AlignedMemory(size); }

void HostMemoryDeallocate(const SP_Device*, void* mem) { std::free(mem); }

// TensorFlow's own allocator keeps the statistics.
TF_Bool GetAllocatorStats(const SP_Device*, SP_AllocatorStats*) { return false; }

// TensorFlow leaves 6 % of what is free to a driver. This card has none: what it leaves is added, so that the
// limit of its allocator is the capacity of the chip.
TF_Bool DeviceMemoryUsage(const SP_Device*, int64_t* free, int64_t* total) {
  const int64_t capacity = GetCard().hbm_bytes;
  *total = capacity;
  *free = static_cast<int64_t>(static_cast<double>(capacity) / 0.94);
  return true;
}

// ---- streams, events, timers ----

void CreateStream(const SP_Device*, SP_Stream* stream, TF_Status* status) {
  *stream = new SP_Stream_st;
  Ok(status);
}
void DestroyStream(const SP_Device*, SP_Stream stream) { delete stream; }
void CreateStreamDependency(const SP_Device*, SP_Stream, SP_Stream, TF_Status* status) { Alive(status); }
void GetStreamStatus(const SP_Device*, SP_Stream, TF_Status* status) { Alive(status); }

void CreateEvent(const SP_Device*, SP_Event* event, TF_Status* status) {
  *event = new SP_Event_st;
  Ok(status);
}
void DestroyEvent(const SP_Device*, SP_Event event) { delete event; }
SE_EventStatus GetEventStatus(const SP_Device*, SP_Event) { return SE_EVENT_COMPLETE; }
void RecordEvent(const SP_Device*, SP_Stream, SP_Event, TF_Status* status) { Ok(status); }
void WaitForEvent(const SP_Device* const, SP_Stream, SP_Event, TF_Status* const status) { Ok(status); }
void BlockHostForEvent(const SP_Device*, SP_Event, TF_Status* status) { Ok(status); }
void BlockHostUntilDone(const SP_Device*, SP_Stream, TF_Status* status) { Ok(status); }
void SynchronizeAllActivity(const SP_Device*, TF_Status* status) { Ok(status); }

TF_Bool HostCallback(const SP_Device*, SP_Stream, SE_StatusCallbackFn callback, void* arg) {
  TfStatus status;
  callback(arg, status.get());
  return true;
}

void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status* status) {
  *timer = new SP_Timer_st;
  Ok(status);
}
void DestroyTimer(const SP_Device*, SP_Timer timer) { delete timer; }
void StartTimer(const SP_Device*, SP_Stream, SP_Timer timer, TF_Status* status) {
  timer->start = std::chrono::steady_clock::now();
  Ok(status);
}
void StopTimer(const SP_Device*, SP_Stream, SP_Timer timer, TF_Status* status) {
  timer->stop = std::chrono::steady_clock::now();
  Ok(status);
}
uint64_t TimerNanoseconds(SP_Timer timer) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(timer->stop - timer->start).count());
}

// ---- copies ----

void* At(const void* host) { return const_cast<void*>(host); }
void* At(const SP_DeviceMemoryBase* card) { return card->opaque; }

template <EventKind kind, typename To, typename From>
void SyncMemcpy(const SP_Device*, To* to, const From* from, uint64_t size, TF_Status* status) {
  if (Usable(status)) RecordedCopy(kind, At(to), At(from), size);
}
template <EventKind kind, typename To, typename From>
void Memcpy(const SP_Device* device, SP_Stream, To* to, const From* from, uint64_t size, TF_Status* status) {
  SyncMemcpy<kind>(device, to, from, size, status);
}

void MemZero(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* location, uint64_t size, TF_Status* status) {
  if (Usable(status)) std::memset(location->opaque, 0, size);
}
void Memset(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* location, uint8_t pattern, uint64_t size,
            TF_Status* status) {
  if (Usable(status)) std::memset(location->opaque, pattern, size);
}
void Memset32(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* location, uint32_t pattern, uint64_t size,
              TF_Status* status) {
  if (!Usable(status)) return;
  char* at = static_cast<char*>(location->opaque);
  for (uint64_t i = 0; i < size; i += sizeof(pattern)) {
    std::memcpy(at + i, &pattern, size - i < sizeof(pattern) ? size - i : sizeof(pattern));
  }
}

// ---- platform ----

void GetDeviceCount(const SP_Platform*, int* count, TF_Status* status) {
  *count = 1;
  Ok(status);
}

void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status* status) {
  static const std::string* hardware = new std::string(GetCard().chip + " (simulated)");
  static const std::string* bus = new std::string(GetCard().bus_id);
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->ordinal = params->ordinal;
  params->device->device_handle = nullptr;
  params->device->hardware_name = hardware->c_str();
  params->device->device_vendor = "Habana Labs (simulated)";
  params->device->pci_bus_id = bus->c_str();
  Ok(status);
}
void DestroyDevice(const SP_Platform*, SP_Device*) {}

int32_t GetNumaNode(const SP_Device*) { return -1; }
int64_t GetMemoryBandwidth(const SP_Device*) { return -1; }
double GetGflops(const SP_Device*) { return -1; }

void CreateDeviceFns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status* status) {
  params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
  params->device_fns->get_numa_node = GetNumaNode;
  params->device_fns->get_memory_bandwidth = GetMemoryBandwidth;
  params->device_fns->get_gflops = GetGflops;
  Ok(status);
}
void DestroyDeviceFns(const SP_Platform*, SP_DeviceFns*) {}

void CreateStreamExecutor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status* status) {
  SP_StreamExecutor* se = params->stream_executor;
  se->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  se->allocate = Allocate;
  se->deallocate = Deallocate;
  se->host_memory_allocate = HostMemoryAllocate;
  se->host_memory_deallocate = HostMemoryDeallocate;
  se->get_allocator_stats = GetAllocatorStats;
  se->device_memory_usage = DeviceMemoryUsage;
  se->create_stream = CreateStream;
  se->destroy_stream = DestroyStream;
  se->create_stream_dependency = CreateStreamDependency;
  se->get_stream_status = GetStreamStatus;
  se->create_event = CreateEvent;
  se->destroy_event = DestroyEvent;
  se->get_event_status = GetEventStatus;
  se->record_event = RecordEvent;
  se->wait_for_event = WaitForEvent;
  se->create_timer = CreateTimer;
  se->destroy_timer = DestroyTimer;
  se->start_timer = StartTimer;
  se->stop_timer = StopTimer;
  se->memcpy_dtoh = Memcpy<EventKind::kFromCard>;
  se->memcpy_htod = Memcpy<EventKind::kToCard>;
  se->memcpy_dtod = Memcpy<EventKind::kOnCard>;
  se->sync_memcpy_dtoh = SyncMemcpy<EventKind::kFromCard>;
  se->sync_memcpy_htod = SyncMemcpy<EventKind::kToCard>;
  se->sync_memcpy_dtod = SyncMemcpy<EventKind::kOnCard>;
  se->block_host_for_event = BlockHostForEvent;
  se->block_host_until_done = BlockHostUntilDone;
  se->synchronize_all_activity = SynchronizeAllActivity;
  se->mem_zero = MemZero;
  se->memset = Memset;
  se->memset32 = Memset32;
  se->host_callback = HostCallback;
  Ok(status);
}
void DestroyStreamExecutor(const SP_Platform*, SP_StreamExecutor*) {}

void CreateTimerFns(const SP_Platform*, SP_TimerFns* timer, TF_Status* status) {
  timer->struct_size = SP_TIMER_FNS_STRUCT_SIZE;
  timer->nanoseconds = TimerNanoseconds;
  Ok(status);
}
void DestroyTimerFns(const SP_Platform*, SP_TimerFns*) {}

void DestroyPlatform(SP_Platform*) {}
void DestroyPlatformFns(SP_PlatformFns*) {}

}  // namespace
}  // namespace habana

extern "C" __attribute__((visibility("default"))) void SE_InitPlugin(SE_PlatformRegistrationParams* params,
                                                                     TF_Status* status) {
  using namespace habana;  // the table of the functions above
  if (GetRegistrations().empty()) {
    // Not by load_habana_module(): a device without compiler and kernels would leave all to the CPU.
    // TensorFlow ends the process when a plugin refuses, with a stack trace in front of what it said.
    std::fprintf(
        stderr,
        "habana_tf: HPU is loaded by habana_tf.load_habana_module() at the start of a program, not by "
        "TensorFlow. Unset TF_PLUGGABLE_DEVICE_LIBRARY_PATH, or take libhabana_plugin.so out of "
        "tensorflow-plugins.\n");
    std::_Exit(1);
  }
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "SIM_GAUDI";
  params->platform->type = "HPU";
  params->platform->supports_unified_memory = false;
  params->platform->use_bfc_allocator = true;
  // Without growth the allocator's tables for 96 GiB alone take gigabytes.
  params->platform->force_memory_growth = true;

  SP_PlatformFns* fns = params->platform_fns;
  fns->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  fns->get_device_count = GetDeviceCount;
  fns->create_device = CreateDevice;
  fns->destroy_device = DestroyDevice;
  fns->create_device_fns = CreateDeviceFns;
  fns->destroy_device_fns = DestroyDeviceFns;
  fns->create_stream_executor = CreateStreamExecutor;
  fns->destroy_stream_executor = DestroyStreamExecutor;
  fns->create_timer_fns = CreateTimerFns;
  fns->destroy_timer_fns = DestroyTimerFns;

  params->destroy_platform = DestroyPlatform;
  params->destroy_platform_fns = DestroyPlatformFns;
  TF_SetStatus(status, TF_OK, "");
}
