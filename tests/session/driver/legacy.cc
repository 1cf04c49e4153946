// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "driver.h"

namespace {

void Launches() {
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CHECK(D(cuModuleLoadData)(&module, kAddPtx));
  CHECK(D(cuModuleGetFunction)(&add, module, "add"));
  CUdeviceptr data = 0;
  CHECK(D(cuMemAlloc_v2)(&data, 64 * 4));
  CHECK(D(cuMemsetD32_v2)(data, 5, 64));
  CHECK(D(cuFuncSetBlockShape)(add, 64, 1, 1));
  CHECK(D(cuFuncSetSharedSize)(add, 0));
  CHECK(D(cuParamSetv)(add, 0, &data, sizeof(data)));
  CHECK(D(cuParamSeti)(add, 8, 3));
  CHECK(D(cuParamSetf)(add, 12, 1.5f));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLaunch)(add));  // no size yet
  CHECK(D(cuParamSetSize)(add, 16));
  CHECK(D(cuLaunch)(add));
  CHECK(D(cuLaunchGrid)(add, 1, 1));
  CUstream stream = nullptr;
  CHECK(D(cuStreamCreate)(&stream, 0));
  CHECK(D(cuParamSeti)(add, 8, 10));
  CHECK(D(cuLaunchGridAsync)(add, 1, 1, stream));
  int values[64] = {};
  CHECK(D(cuStreamSynchronize)(stream));
  CHECK(D(cuMemcpyDtoH_v2)(values, data, sizeof(values)));
  for (int value : values) EXPECT(value == 5 + 3 + 3 + 10);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuFuncSetBlockShape)(add, 0, 1, 1));
  int most = 0;
  CHECK(D(cuDeviceGetAttribute)(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
  CHECK(D(cuFuncSetSharedSize)(add, static_cast<unsigned>(most)));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuFuncSetSharedSize)(add, static_cast<unsigned>(most) + 1));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuFuncSetSharedSize)(add, ~0u));
  CHECK(D(cuFuncSetSharedSize)(add, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLaunchGrid)(add, 0, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuParamSetv)(add, -1, &data, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuParamSetv)(add, 1 << 20, &data, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuParamSetSize)(add, 1u << 20));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuLaunch)(nullptr));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuLaunchGridAsync)(add, 1, 1, reinterpret_cast<CUstream>(77)));
  CHECK(D(cuMemFree_v2)(data));
}

void NarrowAddresses() {
  CUdeviceptr_v1 low = 0;
  unsigned pitch = 0, free = 0, total = 0, bytes = 0;
  CHECK(D(cuMemGetInfo)(&free, &total));
  EXPECT(total != 0 && free <= total);
  CHECK(D(cuDeviceTotalMem)(&bytes, 0));
  EXPECT(bytes != 0);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuDeviceTotalMem)(nullptr, 0));
  // The device's memory lies above 4 GiB, and goes back when its address cannot be told.
  size_t free_before = 0, free_after = 0, all = 0;
  CHECK(D(cuMemGetInfo_v2)(&free_before, &all));
  CODE(CUDA_ERROR_OUT_OF_MEMORY, D(cuMemAlloc)(&low, 4096));
  CODE(CUDA_ERROR_OUT_OF_MEMORY, D(cuMemAllocPitch)(&low, &pitch, 64, 4, 4));
  CHECK(D(cuCtxSynchronize)());
  CHECK(D(cuMemGetInfo_v2)(&free_after, &all));
  EXPECT(free_after == free_before);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemAlloc)(nullptr, 4096));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemAlloc)(&low, 0));
  // An address that fits is nobody's.
  char text[8] = {};
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemFree)(0x1000));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpyHtoD)(0x1000, text, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpyDtoH)(text, 0x1000, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpyDtoD)(0x1000, 0x2000, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpyHtoDAsync)(0x1000, text, 8, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemsetD8)(0x1000, 1, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemsetD16)(0x1000, 1, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemsetD32)(0x1000, 1, 8));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemsetD2D8)(0x1000, 64, 1, 8, 2));
  CODE(CUDA_ERROR_NOT_FOUND, D(cuMemGetAddressRange)(&low, &bytes, 0x1000));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpy2D)(nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuMemcpy3DAsync)(nullptr, nullptr));
  // Between host memories there is nothing that does not fit.
  char from[6] = {'a', 'b', 'c', 'd', 'e', 'f'}, to[6] = {};
  CUDA_MEMCPY2D_v1 box{};
  box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_HOST;
  box.srcHost = from;
  box.srcPitch = 3;
  box.dstHost = to;
  box.dstPitch = 3;
  box.WidthInBytes = 2;
  box.Height = 2;
  CHECK(D(cuMemcpy2D)(&box));
  EXPECT(to[0] == 'a' && to[1] == 'b' && to[2] == 0 && to[3] == 'd' && to[4] == 'e');
  void* pinned = nullptr;
  CHECK(D(cuMemAllocHost)(&pinned, 4096));
  CHECK(D(cuMemFreeHost)(pinned));
}

void Contexts() {
  CUcontext made = nullptr, attached = nullptr, now = nullptr, primary = nullptr;
  CHECK(D(cuCtxGetCurrent)(&primary));
  CHECK(D(cuCtxCreate)(&made, 0, 0));
  CHECK(D(cuCtxAttach)(&attached, 0));
  EXPECT(attached == made);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuCtxAttach)(&attached, 1));
  CHECK(D(cuCtxDetach)(made));
  CHECK(D(cuCtxGetCurrent)(&now));
  EXPECT(now == made);
  CHECK(D(cuCtxDetach)(made));  // the last use
  CODE(CUDA_ERROR_INVALID_CONTEXT, D(cuCtxDetach)(made));
  CHECK(D(cuCtxGetCurrent)(&now));
  EXPECT(now == primary);
  CODE(CUDA_ERROR_INVALID_CONTEXT, D(cuCtxDetach)(primary));
}

void MemoryOperations() {
  CUdeviceptr data = 0;
  CUstream stream = nullptr;
  CHECK(D(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(D(cuMemAlloc_v2)(&data, 16));
  CHECK(D(cuMemsetD8_v2)(data, 0, 16));
  CHECK(D(cuStreamWriteValue32)(stream, data, 7, 0));
  CHECK(D(cuStreamWaitValue32)(stream, data, 7, CU_STREAM_WAIT_VALUE_EQ));
  CHECK(D(cuStreamWriteValue64)(stream, data + 8, 1ull << 40, 0));
  CHECK(D(cuStreamWaitValue64)(stream, data + 8, 1ull << 40, CU_STREAM_WAIT_VALUE_GEQ));
  CUstreamBatchMemOpParams operations[3] = {};
  operations[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operations[0].writeValue.address = data + 4;
  operations[0].writeValue.value = 11;
  operations[1].memoryBarrier.operation = CU_STREAM_MEM_OP_BARRIER;
  operations[2].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operations[2].waitValue.address = data + 4;
  operations[2].waitValue.value = 11;
  operations[2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  CHECK(D(cuStreamBatchMemOp)(stream, 3, operations, 0));
  CHECK(D(cuStreamSynchronize)(stream));
  uint32_t values[4] = {};
  CHECK(D(cuMemcpyDtoH_v2)(values, data, 16));
  EXPECT(values[0] == 7 && values[1] == 11 && values[2] == 0 && values[3] == 256);
  operations[1].operation = static_cast<CUstreamBatchMemOpType>(99);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuStreamBatchMemOp_v2)(stream, 3, operations, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuStreamBatchMemOp_v2)(stream, 1, nullptr, 0));
  operations[0].writeValue.address = 64;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuStreamBatchMemOp_v2)(stream, 1, operations, 0));
}

}  // namespace

void Legacy() {
  Launches();
  NarrowAddresses();
  Contexts();
  MemoryOperations();
}
