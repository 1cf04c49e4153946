// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "driver.h"

namespace {

void AddOn(CUfunction add, CUstream stream, CUdeviceptr data, unsigned value) {
  float unused = 0;
  void* parameters[] = {&data, &value, &unused};
  CHECK(D(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
}

void Work(CUgreenCtx green, CUcontext context, CUdeviceptr data) {
  CUstream stream = nullptr;
  CUgreenCtx owner = nullptr;
  CUcontext primary = nullptr, found = nullptr;
  CHECK(D(cuCtxGetCurrent)(&primary));
  CHECK(D(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_DEFAULT, 0));
  CHECK(D(cuStreamGetGreenCtx)(stream, &owner));
  EXPECT(owner == green);
  CHECK(D(cuStreamGetGreenCtx)(nullptr, &owner));
  EXPECT(owner == nullptr);
  CHECK(D(cuStreamGetCtx_v2)(stream, &found, &owner));
  EXPECT(found == primary && owner == green);
  CHECK(D(cuCtxPushCurrent_v2)(context));
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CHECK(D(cuModuleLoadData)(&module, kAddPtx));
  CHECK(D(cuModuleGetFunction)(&add, module, "add"));
  AddOn(add, stream, data, 2);
  CUevent event = nullptr;
  CHECK(D(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(D(cuGreenCtxRecordEvent)(green, event));
  CHECK(D(cuEventSynchronize)(event));
  CHECK(D(cuGreenCtxWaitEvent)(green, event));
  AddOn(add, stream, data, 3);
  CHECK(D(cuStreamSynchronize)(stream));
  CUdeviceptr kept = 0;
  CHECK(D(cuMemAlloc_v2)(&kept, 4096));
  CHECK(D(cuMemsetD32_v2)(kept, 9, 4));
  CHECK(D(cuCtxPopCurrent_v2)(&found));
  EXPECT(found == context);
  int value = 0;
  CHECK(D(cuMemcpyDtoH_v2)(&value, kept, 4));
  EXPECT(value == 9);
  CHECK(D(cuStreamDestroy_v2)(stream));
}

}  // namespace

void Green() {
  CUdevResource whole{}, of_context{}, part{}, remaining{}, groups[2] = {};
  CUcontext primary = nullptr;
  CHECK(D(cuCtxGetCurrent)(&primary));
  CHECK(D(cuDeviceGetDevResource)(0, &whole, CU_DEV_RESOURCE_TYPE_SM));
  int count = 0;
  CHECK(D(cuDeviceGetAttribute)(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
  EXPECT(whole.type == CU_DEV_RESOURCE_TYPE_SM && whole.sm.smCount == static_cast<unsigned>(count));
  CHECK(D(cuCtxGetDevResource)(primary, &of_context, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT(of_context.sm.smCount == whole.sm.smCount);
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuDeviceGetDevResource)(0, nullptr, CU_DEV_RESOURCE_TYPE_SM));
  CODE(CUDA_ERROR_INVALID_DEVICE, D(cuDeviceGetDevResource)(77, &whole, CU_DEV_RESOURCE_TYPE_SM));

  unsigned possible = 0;
  constexpr unsigned kSingly = CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING;
  CHECK(D(cuDevSmResourceSplitByCount)(nullptr, &possible, &whole, nullptr, kSingly, 2));
  EXPECT(possible >= 2);
  unsigned asked = 1;
  CHECK(D(cuDevSmResourceSplitByCount)(groups, &asked, &whole, &remaining, kSingly, 2));
  EXPECT(asked == 1 && groups[0].sm.smCount >= 2);
  EXPECT(groups[0].sm.smCount + remaining.sm.smCount == whole.sm.smCount);
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuDevSmResourceSplitByCount)(groups, &asked, &whole, nullptr, 0, 1u << 20));
  CUdevResource none{};
  CODE(CUDA_ERROR_INVALID_RESOURCE_TYPE,
       D(cuDevSmResourceSplitByCount)(groups, &asked, &none, nullptr, 0, 2));

  CUdevResourceDesc description = nullptr;
  CHECK(D(cuDevResourceGenerateDesc)(&description, groups, 1));
  CUdevResource mixed[2] = {groups[0], whole};
  CUdevResourceDesc unused = nullptr;
  CODE(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, D(cuDevResourceGenerateDesc)(&unused, mixed, 2));
  CUgreenCtx green = nullptr;
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuGreenCtxCreate)(&green, description, 0, 0));
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuGreenCtxCreate)(&green, nullptr, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(D(cuGreenCtxCreate)(&green, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
  CHECK(D(cuGreenCtxGetDevResource)(green, &part, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT(part.sm.smCount == groups[0].sm.smCount);
  unsigned long long id = 0;
  CHECK(D(cuGreenCtxGetId)(green, &id));
  EXPECT(id != 0);
  CUcontext context = nullptr;
  CHECK(D(cuCtxFromGreenCtx)(&context, green));
  CHECK(D(cuCtxGetDevResource)(context, &part, CU_DEV_RESOURCE_TYPE_SM));
  EXPECT(part.sm.smCount == groups[0].sm.smCount);
  CODE(CUDA_ERROR_INVALID_CONTEXT, D(cuCtxDestroy_v2)(context));

  CUdeviceptr data = 0;
  CHECK(D(cuMemAlloc_v2)(&data, 32 * 4));
  CHECK(D(cuMemsetD32_v2)(data, 1, 32));
  Work(green, context, data);
  std::vector<int> values(32);
  CHECK(D(cuMemcpyDtoH_v2)(values.data(), data, 32 * 4));
  for (int value : values) EXPECT(value == 1 + 2 + 3);

  // All work of an ordinary context.
  CUevent event = nullptr;
  CHECK(D(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  CHECK(D(cuMemsetD32Async)(data, 7, 32, nullptr));
  CHECK(D(cuCtxRecordEvent)(primary, event));
  CHECK(D(cuCtxWaitEvent)(primary, event));
  CHECK(D(cuEventSynchronize)(event));
  CHECK(D(cuEventQuery)(event));
  CODE(CUDA_ERROR_INVALID_CONTEXT, D(cuCtxRecordEvent)(nullptr, event));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuCtxRecordEvent)(primary, nullptr));

  CHECK(D(cuGreenCtxDestroy)(green));
  CODE(CUDA_ERROR_INVALID_CONTEXT, D(cuGreenCtxDestroy)(green));
  CODE(CUDA_ERROR_INVALID_CONTEXT,
       D(cuGreenCtxGetDevResource)(green, &part, CU_DEV_RESOURCE_TYPE_SM));
  CHECK(D(cuMemcpyDtoH_v2)(values.data(), data, 32 * 4));
  EXPECT(values[31] == 7);
}
