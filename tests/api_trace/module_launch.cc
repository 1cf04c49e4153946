// SPDX-License-Identifier: Apache-2.0
// Modules, libraries, kernels, functions, launches, occupancy.
#include <cstring>

#include "tests/api_trace/trace.h"

void TraceModule(const char* ptx) {
  CUmodule module = nullptr, none = nullptr;
  CUfunction function = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  char log[512] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_OPTIMIZATION_LEVEL};
  void* values[] = {log, reinterpret_cast<void*>(sizeof(log)), reinterpret_cast<void*>(3)};
  T("", cuModuleLoadData, &module, ptx);
  T("null", cuModuleLoadData, &none, nullptr);
  T("nonsense", cuModuleLoadData, &none, "this is no kernel image");
  T("nonsense with log", cuModuleLoadDataEx, &none,
    ".version 7.0\n.target sm_70\n.address_size 64\n.entry x() { bogus; }\n", 2, options, values);
  V("log says something", "%d", log[0] != 0);
  T("no such file", cuModuleLoad, &none, "/no/such/file.ptx");
  T("", cuModuleGetFunction, &function, module, "fill");
  T("missing", cuModuleGetFunction, &function, module, "absent");
  T("null name", cuModuleGetFunction, &function, module, nullptr);
  T("", cuModuleGetFunction, &function, module, "small");
  unsigned count = 0;
  T("", cuModuleGetFunctionCount, &count, module);
  V("functions", "%u", count);
  T("", cuModuleGetGlobal_v2, &address, &bytes, module, "counter");
  V("bytes", "%zu", bytes);
  unsigned value = 0;
  T("global", cuMemcpyDtoH_v2, &value, address, 4);
  V("counter", "%u", value);
  T("missing", cuModuleGetGlobal_v2, &address, &bytes, module, "absent");
  T("", cuModuleGetGlobal_v2, &address, &bytes, module, "table");
  V("bytes", "%zu", bytes);
  int attribute = 0;
  for (int which = 0; which <= 9; ++which) {
    T("small", cuFuncGetAttribute, &attribute, static_cast<CUfunction_attribute>(which), function);
    if (which != CU_FUNC_ATTRIBUTE_NUM_REGS) V("value", "%d", attribute);
  }
  T("unknown", cuFuncGetAttribute, &attribute, static_cast<CUfunction_attribute>(500), function);
  T("", cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
  T("too much", cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    1 << 30);
  T("read only", cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_NUM_REGS, 4);
  T("", cuFuncSetCacheConfig, function, CU_FUNC_CACHE_PREFER_SHARED);
  CUmodule owner = nullptr;
  T("", cuFuncGetModule, &owner, function);
  V("owner", "%d", owner == module);
  const char* name = nullptr;
  T("", cuFuncGetName, &name, function);
  V("name", "%s", name == nullptr ? "" : name);
  size_t offset = 9, size = 0;
  T("first", cuFuncGetParamInfo, function, 0, &offset, &size);
  V("size", "%zu", size);
  T("past the end", cuFuncGetParamInfo, function, 1, &offset, &size);
  T("", cuModuleUnload, module);
  T("null", cuModuleUnload, nullptr);

  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  T("", cuLibraryLoadData, &library, ptx, nullptr, nullptr, 0, nullptr, nullptr, 0);
  T("", cuLibraryGetKernel, &kernel, library, "fill");
  T("missing", cuLibraryGetKernel, &kernel, library, "absent");
  T("", cuLibraryGetKernelCount, &count, library);
  V("kernels", "%u", count);
  T("", cuKernelGetFunction, &function, kernel);
  T("", cuKernelGetName, &name, kernel);
  T("", cuKernelGetAttribute, &attribute, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0);
  T("second", cuKernelGetParamInfo, kernel, 1, &offset, &size);
  V("offset", "%zu", offset);
  T("", cuLibraryGetModule, &owner, library);
  T("", cuLibraryGetGlobal, &address, &bytes, library, "counter");
  T("", cuLibraryUnload, library);
}

void TraceLaunch(const char* ptx) {
  CUmodule module = nullptr;
  CUfunction fill = nullptr, small = nullptr;
  CUdeviceptr out = 0;
  T("", cuModuleLoadData, &module, ptx);
  T("", cuModuleGetFunction, &fill, module, "fill");
  T("", cuModuleGetFunction, &small, module, "small");
  T("", cuMemAlloc_v2, &out, 4096);
  unsigned value = 42, count = 1000, back = 0;
  void* parameters[] = {&out, &value, &count};
  T("", cuLaunchKernel, fill, 4, 1, 1, 256, 1, 1, 0, nullptr, parameters, nullptr);
  T("", cuCtxSynchronize);
  T("", cuMemcpyDtoH_v2, &back, out + 999 * 4, 4);
  V("last", "%u", back);
  struct {
    CUdeviceptr out;
    unsigned value, count;
  } packed = {out, 43, 1000};
  size_t packed_bytes = sizeof(packed);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
                   &packed_bytes, CU_LAUNCH_PARAM_END};
  T("extra", cuLaunchKernel, fill, 4, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra);
  T("", cuMemcpyDtoH_v2, &back, out, 4);
  V("first", "%u", back);
  T("2048 threads", cuLaunchKernel, fill, 1, 1, 1, 2048, 1, 1, 0, nullptr, parameters, nullptr);
  T("no threads", cuLaunchKernel, fill, 1, 1, 1, 0, 1, 1, 0, nullptr, parameters, nullptr);
  T("no blocks", cuLaunchKernel, fill, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  T("grid y", cuLaunchKernel, fill, 1, 70000, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  T("block z", cuLaunchKernel, fill, 1, 1, 1, 1, 1, 65, 0, nullptr, parameters, nullptr);
  T("shared", cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 1 << 20, nullptr, parameters, nullptr);
  T("over maxntid", cuLaunchKernel, small, 1, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr);
  T("null function", cuLaunchKernel, nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  T("both forms", cuLaunchKernel, fill, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, extra);
  CUlaunchConfig config{};
  config.gridDimX = 4, config.gridDimY = 1, config.gridDimZ = 1;
  config.blockDimX = 256, config.blockDimY = 1, config.blockDimZ = 1;
  value = 44;
  T("", cuLaunchKernelEx, &config, fill, parameters, nullptr);
  T("null config", cuLaunchKernelEx, nullptr, fill, parameters, nullptr);
  T("", cuMemcpyDtoH_v2, &back, out + 4, 4);
  V("second", "%u", back);
  T("cooperative", cuLaunchCooperativeKernel, fill, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters);
  int blocks = 0, grid = 0, block = 0;
  size_t shared = 0;
  T("", cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, fill, 256, 0);
  V("some", "%d", blocks > 0);
  T("", cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &blocks, fill, 256, 0, 0);
  T("no threads", cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, fill, 0, 0);
  T("", cuOccupancyMaxPotentialBlockSize, &grid, &block, fill, nullptr, 0, 0);
  V("block", "%d", block);
  T("", cuOccupancyAvailableDynamicSMemPerBlock, &shared, fill, 1, 256);
  T("", cuCtxSynchronize);
  T("", cuModuleUnload, module);
  T("", cuMemFree_v2, out);
}
