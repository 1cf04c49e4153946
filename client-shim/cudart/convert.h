// SPDX-License-Identifier: Apache-2.0
// The runtime's types as the driver's. Equal layout is said here, pair by pair, and checked for
// size; the rest does not compile.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <type_traits>

namespace farcall::cudart {

template <typename To, typename From>
inline constexpr bool kSameRecord = false;

#define FARCALL_SAME_RECORD(from, to)                 \
  template <>                                         \
  inline constexpr bool kSameRecord<to, from> = true; \
  static_assert(sizeof(from) == sizeof(to) && alignof(from) == alignof(to))

FARCALL_SAME_RECORD(cudaIpcEventHandle_t, CUipcEventHandle);
FARCALL_SAME_RECORD(cudaIpcMemHandle_t, CUipcMemHandle);
FARCALL_SAME_RECORD(cudaLaunchAttributeValue, CUlaunchAttributeValue);
FARCALL_SAME_RECORD(cudaLaunchAttribute, CUlaunchAttribute);
FARCALL_SAME_RECORD(cudaMemLocation, CUmemLocation);
FARCALL_SAME_RECORD(cudaMemAccessDesc, CUmemAccessDesc);
FARCALL_SAME_RECORD(cudaMemPoolProps, CUmemPoolProps);
FARCALL_SAME_RECORD(cudaMemPoolPtrExportData, CUmemPoolPtrExportData);
FARCALL_SAME_RECORD(cudaMemcpyAttributes, CUmemcpyAttributes);
FARCALL_SAME_RECORD(cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP);
FARCALL_SAME_RECORD(cudaArrayMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS);
FARCALL_SAME_RECORD(cudaArraySparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES);
FARCALL_SAME_RECORD(cudaResourceViewDesc, CUDA_RESOURCE_VIEW_DESC);
FARCALL_SAME_RECORD(cudaExternalMemoryHandleDesc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
FARCALL_SAME_RECORD(cudaExternalMemoryBufferDesc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
FARCALL_SAME_RECORD(cudaExternalSemaphoreHandleDesc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC);
FARCALL_SAME_RECORD(cudaExternalSemaphoreSignalParams, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS);
FARCALL_SAME_RECORD(cudaExternalSemaphoreWaitParams, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS);
FARCALL_SAME_RECORD(cudaExternalSemaphoreSignalNodeParams, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS);
FARCALL_SAME_RECORD(cudaExternalSemaphoreWaitNodeParams, CUDA_EXT_SEM_WAIT_NODE_PARAMS);
FARCALL_SAME_RECORD(cudaGraphEdgeData, CUgraphEdgeData);
FARCALL_SAME_RECORD(cudaGraphInstantiateParams, CUDA_GRAPH_INSTANTIATE_PARAMS);
FARCALL_SAME_RECORD(cudaGraphExecUpdateResultInfo, CUgraphExecUpdateResultInfo);
FARCALL_SAME_RECORD(cudaMemsetParams, CUDA_MEMSET_NODE_PARAMS);
FARCALL_SAME_RECORD(cudaHostNodeParams, CUDA_HOST_NODE_PARAMS);
FARCALL_SAME_RECORD(cudaMemAllocNodeParams, CUDA_MEM_ALLOC_NODE_PARAMS);
#undef FARCALL_SAME_RECORD
static_assert(sizeof(CUaccessPolicyWindow) == sizeof(cudaAccessPolicyWindow));

// Handles whose types have names of their own in each API.
template <typename To, typename From>
inline constexpr bool kSameHandle = false;
template <>
inline constexpr bool kSameHandle<CUarray_st, cudaArray> = true;
template <>
inline constexpr bool kSameHandle<CUmipmappedArray_st, cudaMipmappedArray> = true;
template <>
inline constexpr bool kSameHandle<CUgraphicsResource_st, cudaGraphicsResource> = true;
template <>
inline constexpr bool kSameHandle<CUasyncCallbackEntry_st, cudaAsyncCallbackEntry> = true;
template <>
inline constexpr bool kSameHandle<CUextMemory_st, CUexternalMemory_st> = true;
template <>
inline constexpr bool kSameHandle<CUextSemaphore_st, CUexternalSemaphore_st> = true;

template <typename To, typename From>
inline constexpr bool MayPass() {
  using T = std::remove_cv_t<To>;
  using F = std::remove_cv_t<From>;
  constexpr bool are_addresses = std::is_same_v<T, CUdeviceptr> && std::is_pointer_v<F>;
  // Callbacks are checked by eye: their arguments are handles, enumerations and addresses.
  constexpr bool are_callbacks = std::is_function_v<T> && std::is_function_v<F>;
  if constexpr (std::is_same_v<T, F> || std::is_void_v<T> || std::is_void_v<F> || are_addresses ||
                are_callbacks)
    return true;  // an address is bytes to whom it is handed
  else if constexpr (std::is_pointer_v<T> && std::is_pointer_v<F>)
    return MayPass<std::remove_pointer_t<T>, std::remove_pointer_t<F>>();
  else if constexpr (std::is_class_v<T> || std::is_union_v<T> || std::is_class_v<F>)
    return kSameRecord<T, F> || kSameHandle<T, F>;
  else
    return (std::is_enum_v<T> || std::is_integral_v<T>)&&sizeof(T) == sizeof(F);
}

template <typename To, typename From>
inline To As(From from) {
  if constexpr (std::is_same_v<To, From>) {
    return from;
  } else if constexpr (std::is_null_pointer_v<From>) {
    return To{};
  } else if constexpr (std::is_pointer_v<To> && std::is_pointer_v<From>) {
    static_assert(MayPass<std::remove_pointer_t<To>, std::remove_pointer_t<From>>(),
                  "no pair of equal layout: add it above, or write the call by hand");
    return (To)(from);  // also drops const: the driver takes fewer of them
  } else if constexpr (std::is_pointer_v<From>) {
    static_assert(std::is_same_v<To, CUdeviceptr>);
    return reinterpret_cast<CUdeviceptr>(from);
  } else if constexpr (std::is_class_v<From>) {
    static_assert(kSameRecord<To, From>);
    return std::bit_cast<To>(from);
  } else {
    return static_cast<To>(from);
  }
}

template <typename... Params, typename... Arguments>
inline CUresult Lower(CUresult (*call)(Params...), Arguments... arguments) {
  return call(As<Params>(arguments)...);
}

}  // namespace farcall::cudart
