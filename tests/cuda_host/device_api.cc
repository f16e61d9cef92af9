// Devices and errors of the emulated runtime.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "cuda_host/api_calls.h"

using rl::emulated::device_shape;

namespace {

thread_local int current_device = 0;

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  RL_EMULATED_CALL();
  *version = device_shape().driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  RL_EMULATED_CALL();
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  RL_EMULATED_CALL();
  *count = device_shape().devices;
  return *count == 0 ? call.fail(cudaErrorNoDevice) : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  RL_EMULATED_CALL();
  if (device < 0 || device >= device_shape().devices) return call.fail(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  RL_EMULATED_CALL();
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  RL_EMULATED_CALL();
  if (device < 0 || device >= device_shape().devices) return call.fail(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "Emulated GPU %d", device);
  properties->totalGlobalMem = device_shape().memory_bytes;
  properties->sharedMemPerBlock = 48 << 10;
  properties->regsPerBlock = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->major = device_shape().major;
  properties->minor = device_shape().minor;
  properties->multiProcessorCount = device_shape().multiprocessors;
  properties->unifiedAddressing = 1;
  properties->l2CacheSize = 4 << 20;
  properties->maxThreadsPerMultiProcessor = 1536;
  properties->sharedMemPerMultiprocessor = device_shape().shared_bytes_max + 1024;
  properties->sharedMemPerBlockOptin = device_shape().shared_bytes_max;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  RL_EMULATED_CALL();
  if (device < 0 || device >= device_shape().devices) return call.fail(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 << 10;
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = 32;
      return cudaSuccess;
    case cudaDevAttrMaxRegistersPerBlock:
      *value = 65536;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = device_shape().multiprocessors;
      return cudaSuccess;
    case cudaDevAttrComputeMode:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = 4 << 20;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 1536;
      return cudaSuccess;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = device_shape().major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = device_shape().minor;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(device_shape().shared_bytes_max + 1024);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(device_shape().shared_bytes_max);
      return cudaSuccess;
  }
  return call.fail(cudaErrorInvalidValue);
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  RL_EMULATED_CALL();
  if (device < 0 || device >= device_shape().devices) return call.fail(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const std::lock_guard lock(rl::emulated::emulator_mutex());
  return rl::emulated::last_error(true);
}
cudaError_t cudaPeekAtLastError() {
  const std::lock_guard lock(rl::emulated::emulator_mutex());
  return rl::emulated::last_error(false);
}

#define RL_ERROR_NAME(name) \
  case name:                \
    return #name;
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    RL_ERROR_NAME(cudaSuccess)
    RL_ERROR_NAME(cudaErrorInvalidValue)
    RL_ERROR_NAME(cudaErrorMemoryAllocation)
    RL_ERROR_NAME(cudaErrorInitializationError)
    RL_ERROR_NAME(cudaErrorCudartUnloading)
    RL_ERROR_NAME(cudaErrorInvalidConfiguration)
    RL_ERROR_NAME(cudaErrorInvalidDevicePointer)
    RL_ERROR_NAME(cudaErrorInvalidMemcpyDirection)
    RL_ERROR_NAME(cudaErrorStubLibrary)
    RL_ERROR_NAME(cudaErrorInsufficientDriver)
    RL_ERROR_NAME(cudaErrorDevicesUnavailable)
    RL_ERROR_NAME(cudaErrorInvalidDeviceFunction)
    RL_ERROR_NAME(cudaErrorNoDevice)
    RL_ERROR_NAME(cudaErrorInvalidDevice)
    RL_ERROR_NAME(cudaErrorInvalidKernelImage)
    RL_ERROR_NAME(cudaErrorDeviceUninitialized)
    RL_ERROR_NAME(cudaErrorNoKernelImageForDevice)
    RL_ERROR_NAME(cudaErrorECCUncorrectable)
    RL_ERROR_NAME(cudaErrorUnsupportedPtxVersion)
    RL_ERROR_NAME(cudaErrorContained)
    RL_ERROR_NAME(cudaErrorOperatingSystem)
    RL_ERROR_NAME(cudaErrorInvalidResourceHandle)
    RL_ERROR_NAME(cudaErrorNotReady)
    RL_ERROR_NAME(cudaErrorIllegalAddress)
    RL_ERROR_NAME(cudaErrorLaunchOutOfResources)
    RL_ERROR_NAME(cudaErrorLaunchTimeout)
    RL_ERROR_NAME(cudaErrorContextIsDestroyed)
    RL_ERROR_NAME(cudaErrorAssert)
    RL_ERROR_NAME(cudaErrorHostMemoryAlreadyRegistered)
    RL_ERROR_NAME(cudaErrorHostMemoryNotRegistered)
    RL_ERROR_NAME(cudaErrorHardwareStackError)
    RL_ERROR_NAME(cudaErrorIllegalInstruction)
    RL_ERROR_NAME(cudaErrorMisalignedAddress)
    RL_ERROR_NAME(cudaErrorInvalidAddressSpace)
    RL_ERROR_NAME(cudaErrorInvalidPc)
    RL_ERROR_NAME(cudaErrorLaunchFailure)
    RL_ERROR_NAME(cudaErrorTensorMemoryLeak)
    RL_ERROR_NAME(cudaErrorNotPermitted)
    RL_ERROR_NAME(cudaErrorNotSupported)
    RL_ERROR_NAME(cudaErrorSystemNotReady)
    RL_ERROR_NAME(cudaErrorSystemDriverMismatch)
    RL_ERROR_NAME(cudaErrorCompatNotSupportedOnDevice)
    RL_ERROR_NAME(cudaErrorMpsClientTerminated)
    RL_ERROR_NAME(cudaErrorExternalDevice)
    RL_ERROR_NAME(cudaErrorUnknown)
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }

}  // extern "C"
