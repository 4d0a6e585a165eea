// TensorFlow's C interface: a pluggable device (see status.h).
//
// TensorFlow makes the structures and hands them to SE_InitPlugin; a plugin fills them in, and says by
// struct_size which fields it knows. `ext` is for later versions of the interface.
#pragma once

#include "tensorflow_c/status.h"
#include "tensorflow_c/tensor.h"

extern "C" {

typedef struct SP_Stream_st* SP_Stream;
typedef struct SP_Event_st* SP_Event;
typedef struct SP_Timer_st* SP_Timer;
typedef void (*SE_StatusCallbackFn)(void* arg, TF_Status* status);

enum SE_EventStatus : unsigned { SE_EVENT_UNKNOWN, SE_EVENT_ERROR, SE_EVENT_PENDING, SE_EVENT_COMPLETE };

struct SP_AllocatorStats;

struct SP_DeviceMemoryBase {
  size_t struct_size;
  void* ext;
  void* opaque;
  uint64_t size;
  uint64_t payload;
};
inline constexpr size_t SP_DEVICE_MEMORY_BASE_STRUCT_SIZE =
    offsetof(SP_DeviceMemoryBase, payload) + sizeof(SP_DeviceMemoryBase::payload);

struct SP_Device {
  size_t struct_size;
  void* ext;
  int32_t ordinal;
  void* device_handle;
  const char* hardware_name;
  const char* device_vendor;
  const char* pci_bus_id;
};
inline constexpr size_t SP_DEVICE_STRUCT_SIZE =
    offsetof(SP_Device, pci_bus_id) + sizeof(SP_Device::pci_bus_id);

struct SE_CreateDeviceParams {
  size_t struct_size;
  void* ext;
  int32_t ordinal;
  SP_Device* device;
};

struct SP_DeviceFns {
  size_t struct_size;
  void* ext;
  int32_t (*get_numa_node)(const SP_Device* device);
  int64_t (*get_memory_bandwidth)(const SP_Device* device);
  double (*get_gflops)(const SP_Device* device);
};
inline constexpr size_t SP_DEVICE_FNS_STRUCT_SIZE =
    offsetof(SP_DeviceFns, get_gflops) + sizeof(SP_DeviceFns::get_gflops);

struct SE_CreateDeviceFnsParams {
  size_t struct_size;
  void* ext;
  SP_DeviceFns* device_fns;
};

struct SP_TimerFns {
  size_t struct_size;
  void* ext;
  uint64_t (*nanoseconds)(SP_Timer timer);
};
inline constexpr size_t SP_TIMER_FNS_STRUCT_SIZE =
    offsetof(SP_TimerFns, nanoseconds) + sizeof(SP_TimerFns::nanoseconds);

struct SP_StreamExecutor {
  size_t struct_size;
  void* ext;
  void (*allocate)(const SP_Device* device, uint64_t size, int64_t space, SP_DeviceMemoryBase* memory);
  void (*deallocate)(const SP_Device* device, SP_DeviceMemoryBase* memory);
  void* (*host_memory_allocate)(const SP_Device* device, uint64_t size);
  void (*host_memory_deallocate)(const SP_Device* device, void* memory);
  void* (*unified_memory_allocate)(const SP_Device* device, uint64_t size);
  void (*unified_memory_deallocate)(const SP_Device* device, void* memory);
  TF_Bool (*get_allocator_stats)(const SP_Device* device, SP_AllocatorStats* stats);
  TF_Bool (*device_memory_usage)(const SP_Device* device, int64_t* free, int64_t* total);
  void (*create_stream)(const SP_Device* device, SP_Stream* stream, TF_Status* status);
  void (*destroy_stream)(const SP_Device* device, SP_Stream stream);
  void (*create_stream_dependency)(const SP_Device* device, SP_Stream dependent, SP_Stream other,
                                   TF_Status* status);
  void (*get_stream_status)(const SP_Device* device, SP_Stream stream, TF_Status* status);
  void (*create_event)(const SP_Device* device, SP_Event* event, TF_Status* status);
  void (*destroy_event)(const SP_Device* device, SP_Event event);
  SE_EventStatus (*get_event_status)(const SP_Device* device, SP_Event event);
  void (*record_event)(const SP_Device* device, SP_Stream stream, SP_Event event, TF_Status* status);
  void (*wait_for_event)(const SP_Device* device, SP_Stream stream, SP_Event event, TF_Status* status);
  void (*create_timer)(const SP_Device* device, SP_Timer* timer, TF_Status* status);
  void (*destroy_timer)(const SP_Device* device, SP_Timer timer);
  void (*start_timer)(const SP_Device* device, SP_Stream stream, SP_Timer timer, TF_Status* status);
  void (*stop_timer)(const SP_Device* device, SP_Stream stream, SP_Timer timer, TF_Status* status);
  void (*memcpy_dtoh)(const SP_Device* device, SP_Stream stream, void* to, const SP_DeviceMemoryBase* from,
                      uint64_t size, TF_Status* status);
  void (*memcpy_htod)(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to, const void* from,
                      uint64_t size, TF_Status* status);
  void (*memcpy_dtod)(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* to,
                      const SP_DeviceMemoryBase* from, uint64_t size, TF_Status* status);
  void (*sync_memcpy_dtoh)(const SP_Device* device, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
                           TF_Status* status);
  void (*sync_memcpy_htod)(const SP_Device* device, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
                           TF_Status* status);
  void (*sync_memcpy_dtod)(const SP_Device* device, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
                           uint64_t size, TF_Status* status);
  void (*block_host_for_event)(const SP_Device* device, SP_Event event, TF_Status* status);
  void (*block_host_until_done)(const SP_Device* device, SP_Stream stream, TF_Status* status);
  void (*synchronize_all_activity)(const SP_Device* device, TF_Status* status);
  void (*mem_zero)(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* location, uint64_t size,
                   TF_Status* status);
  void (*memset)(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* location, uint8_t pattern,
                 uint64_t size, TF_Status* status);
  void (*memset32)(const SP_Device* device, SP_Stream stream, SP_DeviceMemoryBase* location, uint32_t pattern,
                   uint64_t size, TF_Status* status);
  TF_Bool (*host_callback)(const SP_Device* device, SP_Stream stream, SE_StatusCallbackFn callback,
                           void* arg);
};
inline constexpr size_t SP_STREAMEXECUTOR_STRUCT_SIZE =
    offsetof(SP_StreamExecutor, host_callback) + sizeof(SP_StreamExecutor::host_callback);

struct SE_CreateStreamExecutorParams {
  size_t struct_size;
  void* ext;
  SP_StreamExecutor* stream_executor;
};

struct SP_Platform {
  size_t struct_size;
  void* ext;
  const char* name;
  const char* type;
  TF_Bool supports_unified_memory;
  TF_Bool use_bfc_allocator;
  TF_Bool force_memory_growth;
};
inline constexpr size_t SP_PLATFORM_STRUCT_SIZE =
    offsetof(SP_Platform, force_memory_growth) + sizeof(SP_Platform::force_memory_growth);

struct SP_PlatformFns {
  size_t struct_size;
  void* ext;
  void (*get_device_count)(const SP_Platform* platform, int* count, TF_Status* status);
  void (*create_device)(const SP_Platform* platform, SE_CreateDeviceParams* params, TF_Status* status);
  void (*destroy_device)(const SP_Platform* platform, SP_Device* device);
  void (*create_device_fns)(const SP_Platform* platform, SE_CreateDeviceFnsParams* params, TF_Status* status);
  void (*destroy_device_fns)(const SP_Platform* platform, SP_DeviceFns* fns);
  void (*create_stream_executor)(const SP_Platform* platform, SE_CreateStreamExecutorParams* params,
                                 TF_Status* status);
  void (*destroy_stream_executor)(const SP_Platform* platform, SP_StreamExecutor* executor);
  void (*create_timer_fns)(const SP_Platform* platform, SP_TimerFns* fns, TF_Status* status);
  void (*destroy_timer_fns)(const SP_Platform* platform, SP_TimerFns* fns);
};
inline constexpr size_t SP_PLATFORM_FNS_STRUCT_SIZE =
    offsetof(SP_PlatformFns, destroy_timer_fns) + sizeof(SP_PlatformFns::destroy_timer_fns);

struct SE_PlatformRegistrationParams {
  size_t struct_size;
  void* ext;
  int32_t major_version;
  int32_t minor_version;
  int32_t patch_version;
  SP_Platform* platform;
  SP_PlatformFns* platform_fns;
  void (*destroy_platform)(SP_Platform* platform);
  void (*destroy_platform_fns)(SP_PlatformFns* fns);
};

void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status* status);

}  // extern "C"
