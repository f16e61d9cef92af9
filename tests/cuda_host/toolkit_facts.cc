// RL_FACTS_NAME is the function to define. Nothing of the emulation but toolkit_facts.h is
// included, because the same file must compile with the toolkit's headers alone.
#include "cuda_host/toolkit_facts.h"

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

namespace {

// The type as the compiler writes it: "... [with T = cudaError (*)(void**, long unsigned int);
// ...".
template <typename T>
std::string type_name() {
  const std::string text = __PRETTY_FUNCTION__;
  const size_t begin = text.find("T = ") + 4;
  return text.substr(begin, text.find(';', begin) - begin);
}

}  // namespace

#define RL_TYPE(type) facts[#type] = type_name<type>()
#define RL_SIZE(type) facts["sizeof " #type] = std::to_string(sizeof(type))
#define RL_NUMBER(value) facts[#value] = std::to_string(static_cast<long long>(value))
#define RL_FUNCTION(name) facts[#name] = type_name<decltype(&name)>()
#define RL_MEMBER(type, member) facts[#type "." #member] = type_name<decltype(type::member)>()

namespace rl::emulated {
namespace {

void add_numbers(Facts& facts) {
  RL_NUMBER(cudaSuccess);
  RL_NUMBER(cudaErrorInvalidValue);
  RL_NUMBER(cudaErrorMemoryAllocation);
  RL_NUMBER(cudaErrorInitializationError);
  RL_NUMBER(cudaErrorCudartUnloading);
  RL_NUMBER(cudaErrorInvalidConfiguration);
  RL_NUMBER(cudaErrorInvalidDevicePointer);
  RL_NUMBER(cudaErrorInvalidMemcpyDirection);
  RL_NUMBER(cudaErrorStubLibrary);
  RL_NUMBER(cudaErrorInsufficientDriver);
  RL_NUMBER(cudaErrorDevicesUnavailable);
  RL_NUMBER(cudaErrorInvalidDeviceFunction);
  RL_NUMBER(cudaErrorNoDevice);
  RL_NUMBER(cudaErrorInvalidDevice);
  RL_NUMBER(cudaErrorInvalidKernelImage);
  RL_NUMBER(cudaErrorDeviceUninitialized);
  RL_NUMBER(cudaErrorNoKernelImageForDevice);
  RL_NUMBER(cudaErrorECCUncorrectable);
  RL_NUMBER(cudaErrorUnsupportedPtxVersion);
  RL_NUMBER(cudaErrorOperatingSystem);
  RL_NUMBER(cudaErrorInvalidResourceHandle);
  RL_NUMBER(cudaErrorNotReady);
  RL_NUMBER(cudaErrorIllegalAddress);
  RL_NUMBER(cudaErrorLaunchOutOfResources);
  RL_NUMBER(cudaErrorLaunchTimeout);
  RL_NUMBER(cudaErrorContextIsDestroyed);
  RL_NUMBER(cudaErrorAssert);
  RL_NUMBER(cudaErrorHostMemoryAlreadyRegistered);
  RL_NUMBER(cudaErrorHostMemoryNotRegistered);
  RL_NUMBER(cudaErrorHardwareStackError);
  RL_NUMBER(cudaErrorIllegalInstruction);
  RL_NUMBER(cudaErrorMisalignedAddress);
  RL_NUMBER(cudaErrorInvalidAddressSpace);
  RL_NUMBER(cudaErrorInvalidPc);
  RL_NUMBER(cudaErrorLaunchFailure);
  RL_NUMBER(cudaErrorNotPermitted);
  RL_NUMBER(cudaErrorNotSupported);
  RL_NUMBER(cudaErrorSystemNotReady);
  RL_NUMBER(cudaErrorSystemDriverMismatch);
  RL_NUMBER(cudaErrorCompatNotSupportedOnDevice);
  RL_NUMBER(cudaErrorMpsClientTerminated);
  RL_NUMBER(cudaErrorExternalDevice);
  RL_NUMBER(cudaErrorUnknown);
  RL_NUMBER(cudaMemcpyHostToHost);
  RL_NUMBER(cudaMemcpyHostToDevice);
  RL_NUMBER(cudaMemcpyDeviceToHost);
  RL_NUMBER(cudaMemcpyDeviceToDevice);
  RL_NUMBER(cudaMemcpyDefault);
  RL_NUMBER(cudaMemoryTypeUnregistered);
  RL_NUMBER(cudaMemoryTypeHost);
  RL_NUMBER(cudaMemoryTypeDevice);
  RL_NUMBER(cudaMemoryTypeManaged);
  RL_NUMBER(cudaDevAttrMaxThreadsPerBlock);
  RL_NUMBER(cudaDevAttrMaxSharedMemoryPerBlock);
  RL_NUMBER(cudaDevAttrWarpSize);
  RL_NUMBER(cudaDevAttrMaxRegistersPerBlock);
  RL_NUMBER(cudaDevAttrMultiProcessorCount);
  RL_NUMBER(cudaDevAttrComputeMode);
  RL_NUMBER(cudaDevAttrL2CacheSize);
  RL_NUMBER(cudaDevAttrMaxThreadsPerMultiProcessor);
  RL_NUMBER(cudaDevAttrUnifiedAddressing);
  RL_NUMBER(cudaDevAttrComputeCapabilityMajor);
  RL_NUMBER(cudaDevAttrComputeCapabilityMinor);
  RL_NUMBER(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  RL_NUMBER(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  RL_NUMBER(cudaFuncAttributeMaxDynamicSharedMemorySize);
  RL_NUMBER(cudaFuncAttributePreferredSharedMemoryCarveout);
  RL_NUMBER(cudaHostAllocDefault);
  RL_NUMBER(cudaHostAllocPortable);
  RL_NUMBER(cudaHostAllocMapped);
  RL_NUMBER(cudaHostRegisterDefault);
  RL_NUMBER(cudaHostRegisterPortable);
  RL_NUMBER(cudaStreamDefault);
  RL_NUMBER(cudaStreamNonBlocking);
  RL_NUMBER(cudaEventDefault);
  RL_NUMBER(cudaEventBlockingSync);
  RL_NUMBER(cudaEventDisableTiming);
  facts["cudaStreamLegacy"] = std::to_string(reinterpret_cast<size_t>(cudaStreamLegacy));
  facts["cudaStreamPerThread"] = std::to_string(reinterpret_cast<size_t>(cudaStreamPerThread));
}

void add_blas_numbers(Facts& facts) {
  RL_NUMBER(CUBLAS_STATUS_SUCCESS);
  RL_NUMBER(CUBLAS_STATUS_NOT_INITIALIZED);
  RL_NUMBER(CUBLAS_STATUS_ALLOC_FAILED);
  RL_NUMBER(CUBLAS_STATUS_INVALID_VALUE);
  RL_NUMBER(CUBLAS_STATUS_ARCH_MISMATCH);
  RL_NUMBER(CUBLAS_STATUS_MAPPING_ERROR);
  RL_NUMBER(CUBLAS_STATUS_EXECUTION_FAILED);
  RL_NUMBER(CUBLAS_STATUS_INTERNAL_ERROR);
  RL_NUMBER(CUBLAS_STATUS_NOT_SUPPORTED);
  RL_NUMBER(CUBLAS_STATUS_LICENSE_ERROR);
  RL_NUMBER(CUBLAS_COMPUTE_32F);
  RL_NUMBER(CUBLAS_COMPUTE_32F_PEDANTIC);
  RL_NUMBER(CUBLAS_OP_N);
  RL_NUMBER(CUBLAS_OP_T);
  RL_NUMBER(CUBLAS_OP_C);
  RL_NUMBER(CUDA_R_32F);
  RL_NUMBER(CUDA_R_16BF);
  RL_NUMBER(CUBLASLT_ORDER_COL);
  RL_NUMBER(CUBLASLT_ORDER_ROW);
  RL_NUMBER(CUBLASLT_MATRIX_LAYOUT_TYPE);
  RL_NUMBER(CUBLASLT_MATRIX_LAYOUT_ORDER);
  RL_NUMBER(CUBLASLT_MATRIX_LAYOUT_ROWS);
  RL_NUMBER(CUBLASLT_MATRIX_LAYOUT_COLS);
  RL_NUMBER(CUBLASLT_MATRIX_LAYOUT_LD);
  RL_NUMBER(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  RL_NUMBER(CUBLASLT_MATMUL_DESC_SCALE_TYPE);
  RL_NUMBER(CUBLASLT_MATMUL_DESC_TRANSA);
  RL_NUMBER(CUBLASLT_MATMUL_DESC_TRANSB);
  RL_NUMBER(CUBLASLT_REDUCTION_SCHEME_NONE);
  RL_NUMBER(CUBLASLT_REDUCTION_SCHEME_INPLACE);
  RL_NUMBER(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
  RL_NUMBER(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
  RL_NUMBER(CUBLASLT_REDUCTION_SCHEME_MASK);
  RL_NUMBER(CUBLASLT_MATMUL_PREF_SEARCH_MODE);
  RL_NUMBER(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
  RL_NUMBER(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
  RL_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
  RL_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
  RL_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
  RL_NUMBER(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
  RL_NUMBER(CUBLASLT_ALGO_CAP_SPLITK_SUPPORT);
  RL_NUMBER(CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK);
  RL_NUMBER(CUBLASLT_ALGO_CAP_TILE_IDS);
  RL_NUMBER(CUBLASLT_ALGO_CAP_STAGES_IDS);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_ID);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_TILE_ID);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_STAGES_ID);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID);
  RL_NUMBER(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
  RL_NUMBER(CUBLASLT_MATMUL_TILE_UNDEFINED);
  RL_NUMBER(CUBLASLT_MATMUL_TILE_64x64);
  RL_NUMBER(CUBLASLT_MATMUL_TILE_128x64);
  RL_NUMBER(CUBLASLT_MATMUL_TILE_128x128);
}

void add_types(Facts& facts) {
  RL_TYPE(cudaError_t);
  RL_TYPE(cudaStream_t);
  RL_TYPE(cudaEvent_t);
  RL_TYPE(cudaHostFn_t);
  RL_SIZE(dim3);
  RL_MEMBER(dim3, x);
  RL_MEMBER(cudaDeviceProp, name);
  RL_MEMBER(cudaDeviceProp, totalGlobalMem);
  RL_MEMBER(cudaDeviceProp, sharedMemPerBlock);
  RL_MEMBER(cudaDeviceProp, regsPerBlock);
  RL_MEMBER(cudaDeviceProp, warpSize);
  RL_MEMBER(cudaDeviceProp, maxThreadsPerBlock);
  RL_MEMBER(cudaDeviceProp, major);
  RL_MEMBER(cudaDeviceProp, minor);
  RL_MEMBER(cudaDeviceProp, multiProcessorCount);
  RL_MEMBER(cudaDeviceProp, unifiedAddressing);
  RL_MEMBER(cudaDeviceProp, l2CacheSize);
  RL_MEMBER(cudaDeviceProp, maxThreadsPerMultiProcessor);
  RL_MEMBER(cudaDeviceProp, sharedMemPerMultiprocessor);
  RL_MEMBER(cudaDeviceProp, sharedMemPerBlockOptin);
  RL_MEMBER(cudaPointerAttributes, type);
  RL_MEMBER(cudaPointerAttributes, device);
  RL_MEMBER(cudaPointerAttributes, devicePointer);
  RL_MEMBER(cudaPointerAttributes, hostPointer);
  RL_MEMBER(cudaFuncAttributes, sharedSizeBytes);
  RL_MEMBER(cudaFuncAttributes, constSizeBytes);
  RL_MEMBER(cudaFuncAttributes, localSizeBytes);
  RL_MEMBER(cudaFuncAttributes, maxThreadsPerBlock);
  RL_MEMBER(cudaFuncAttributes, numRegs);
  RL_MEMBER(cudaFuncAttributes, ptxVersion);
  RL_MEMBER(cudaFuncAttributes, binaryVersion);
  RL_MEMBER(cudaFuncAttributes, cacheModeCA);
  RL_MEMBER(cudaFuncAttributes, maxDynamicSharedSizeBytes);
  RL_TYPE(cublasLtHandle_t);
  RL_SIZE(cublasLtMatrixLayoutOpaque_t);
  RL_SIZE(cublasLtMatmulAlgo_t);
  RL_SIZE(cublasLtMatmulDescOpaque_t);
  RL_SIZE(cublasLtMatmulPreferenceOpaque_t);
  RL_SIZE(cublasLtMatmulHeuristicResult_t);
  RL_MEMBER(cublasLtMatmulHeuristicResult_t, algo);
  RL_MEMBER(cublasLtMatmulHeuristicResult_t, workspaceSize);
  RL_MEMBER(cublasLtMatmulHeuristicResult_t, state);
  RL_MEMBER(cublasLtMatmulHeuristicResult_t, wavesCount);
}

void add_functions(Facts& facts) {
  RL_FUNCTION(cudaDriverGetVersion);
  RL_FUNCTION(cudaRuntimeGetVersion);
  RL_FUNCTION(cudaGetDeviceCount);
  RL_FUNCTION(cudaSetDevice);
  RL_FUNCTION(cudaGetDevice);
  RL_FUNCTION(cudaGetDeviceProperties);
  RL_FUNCTION(cudaDeviceGetAttribute);
  RL_FUNCTION(cudaDeviceGetPCIBusId);
  RL_FUNCTION(cudaGetLastError);
  RL_FUNCTION(cudaPeekAtLastError);
  RL_FUNCTION(cudaGetErrorName);
  RL_FUNCTION(cudaGetErrorString);
  RL_FUNCTION(cudaMalloc);
  RL_FUNCTION(cudaFree);
  RL_FUNCTION(cudaMallocAsync);
  RL_FUNCTION(cudaFreeAsync);
  RL_FUNCTION(cudaMallocHost);
  RL_FUNCTION(cudaHostAlloc);
  RL_FUNCTION(cudaFreeHost);
  RL_FUNCTION(cudaHostRegister);
  RL_FUNCTION(cudaHostUnregister);
  RL_FUNCTION(cudaMemGetInfo);
  RL_FUNCTION(cudaPointerGetAttributes);
  RL_FUNCTION(cudaMemcpy);
  RL_FUNCTION(cudaMemcpyAsync);
  RL_FUNCTION(cudaMemcpy2DAsync);
  RL_FUNCTION(cudaMemset);
  RL_FUNCTION(cudaMemsetAsync);
  RL_FUNCTION(cudaFuncSetAttribute);
  RL_FUNCTION(cudaFuncGetAttributes);
  RL_FUNCTION(cudaLaunchKernel);
  RL_FUNCTION(cudaLaunchHostFunc);
  RL_FUNCTION(cudaStreamCreate);
  RL_FUNCTION(cudaStreamCreateWithFlags);
  RL_FUNCTION(cudaStreamCreateWithPriority);
  RL_FUNCTION(cudaStreamDestroy);
  RL_FUNCTION(cudaStreamSynchronize);
  RL_FUNCTION(cudaStreamQuery);
  RL_FUNCTION(cudaStreamWaitEvent);
  RL_FUNCTION(cudaEventCreate);
  RL_FUNCTION(cudaEventCreateWithFlags);
  RL_FUNCTION(cudaEventDestroy);
  RL_FUNCTION(cudaEventRecord);
  RL_FUNCTION(cudaEventQuery);
  RL_FUNCTION(cudaEventSynchronize);
  RL_FUNCTION(cudaEventElapsedTime);
  RL_FUNCTION(cudaDeviceSynchronize);
}

void add_blas_functions(Facts& facts) {
  RL_FUNCTION(cublasLtCreate);
  RL_FUNCTION(cublasLtDestroy);
  RL_FUNCTION(cublasLtGetVersion);
  RL_FUNCTION(cublasLtMatmul);
  RL_FUNCTION(cublasLtMatmulDescCreate);
  RL_FUNCTION(cublasLtMatmulDescDestroy);
  RL_FUNCTION(cublasLtMatmulDescSetAttribute);
  RL_FUNCTION(cublasLtMatrixLayoutCreate);
  RL_FUNCTION(cublasLtMatrixLayoutDestroy);
  RL_FUNCTION(cublasLtMatrixLayoutSetAttribute);
  RL_FUNCTION(cublasLtMatmulPreferenceCreate);
  RL_FUNCTION(cublasLtMatmulPreferenceDestroy);
  RL_FUNCTION(cublasLtMatmulPreferenceSetAttribute);
  RL_FUNCTION(cublasLtMatmulAlgoGetHeuristic);
  RL_FUNCTION(cublasLtMatmulAlgoGetIds);
  RL_FUNCTION(cublasLtMatmulAlgoInit);
  RL_FUNCTION(cublasLtMatmulAlgoCheck);
  RL_FUNCTION(cublasLtMatmulAlgoConfigSetAttribute);
  RL_FUNCTION(cublasLtMatmulAlgoConfigGetAttribute);
  RL_FUNCTION(cublasLtMatmulAlgoCapGetAttribute);
}

void add_driver(Facts& facts) {
  RL_NUMBER(CUDA_SUCCESS);
  RL_NUMBER(CUDA_ERROR_INVALID_VALUE);
  RL_NUMBER(CUDA_ERROR_OUT_OF_MEMORY);
  RL_NUMBER(CU_MEM_HANDLE_TYPE_NONE);
  RL_NUMBER(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  RL_NUMBER(CU_MEM_LOCATION_TYPE_DEVICE);
  RL_NUMBER(CU_MEM_ALLOCATION_TYPE_PINNED);
  RL_NUMBER(CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  RL_TYPE(CUresult);
  RL_TYPE(CUdeviceptr);
  RL_TYPE(CUmemGenericAllocationHandle);
  RL_SIZE(CUmemAllocationProp);
  RL_SIZE(CUmemAccessDesc);
  RL_MEMBER(CUmemAllocationProp, type);
  RL_MEMBER(CUmemAllocationProp, requestedHandleTypes);
  RL_MEMBER(CUmemAllocationProp, location);
  RL_MEMBER(CUmemAllocationProp, win32HandleMetaData);
  RL_MEMBER(CUmemAccessDesc, location);
  RL_MEMBER(CUmemAccessDesc, flags);
  RL_MEMBER(CUmemLocation, type);
  RL_MEMBER(CUmemLocation, id);
  RL_FUNCTION(cuMemAddressReserve);
  RL_FUNCTION(cuMemAddressFree);
  RL_FUNCTION(cuMemCreate);
  RL_FUNCTION(cuMemRelease);
  RL_FUNCTION(cuMemMap);
  RL_FUNCTION(cuMemUnmap);
  RL_FUNCTION(cuMemSetAccess);
  RL_FUNCTION(cuMemGetAllocationGranularity);
}

}  // namespace

Facts RL_FACTS_NAME() {
  Facts facts;
  add_numbers(facts);
  add_blas_numbers(facts);
  add_types(facts);
  add_functions(facts);
  add_blas_functions(facts);
  add_driver(facts);
  return facts;
}

}  // namespace rl::emulated
