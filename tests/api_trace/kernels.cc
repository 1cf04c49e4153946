// SPDX-License-Identifier: Apache-2.0
// Images from files, lists of functions and kernels, their settings, occupancy, tensor maps.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/api_trace/trace.h"

namespace {

// A file with these bytes, gone with the object.
class ImageFile {
 public:
  explicit ImageFile(const char* text) {
    int file = mkstemp(path_);
    FILE* out = fdopen(file, "w");
    std::fputs(text, out);
    std::fclose(out);
  }
  ~ImageFile() { std::remove(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/api_trace_XXXXXX";
};

size_t CUDA_CB NoShared(int) {
  return 0;
}

void TraceModules(const char* ptx, const char* path) {
  CUmodule module = nullptr, none = nullptr;
  CUfunction functions[4] = {};
  CUfunction function = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  unsigned count = 0;
  T("from a file", cuModuleLoad, &module, path);
  T("null", cuModuleLoad, nullptr, path);
  T("null name", cuModuleLoad, &none, nullptr);
  T("", cuModuleEnumerateFunctions, functions, 4u, module);
  const char* name = nullptr;
  T("listed", cuFuncGetName, &name, functions[0]);
  V("name", "%s", name == nullptr ? "" : name);
  T("none", cuModuleEnumerateFunctions, functions, 0u, module);
  T("null", cuModuleEnumerateFunctions, nullptr, 1u, module);
  T("null", cuModuleGetFunctionCount, nullptr, module);
  T("null module", cuModuleGetFunctionCount, &count, nullptr);
  T("", cuModuleGetFunction, &function, module, "fill");
  T("null", cuModuleGetFunction, nullptr, module, "fill");
  T("null module", cuModuleGetFunction, &function, nullptr, "fill");
  T("only the size", cuModuleGetGlobal_v2, nullptr, &bytes, module, "counter");
  T("only the address", cuModuleGetGlobal_v2, &address, nullptr, module, "counter");
  T("null name", cuModuleGetGlobal_v2, &address, &bytes, module, nullptr);
  CUfunctionLoadingState state{};
  T("", cuFuncIsLoaded, &state, function);
  T("null", cuFuncIsLoaded, nullptr, function);
  T("", cuFuncLoad, function);
  T("", cuFuncIsLoaded, &state, function);
  V("state", "%d", static_cast<int>(state));
  T("", cuFuncSetSharedMemConfig, function, CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE);
  T("null", cuFuncGetAttribute, nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
  T("null", cuFuncGetModule, nullptr, function);
  T("null", cuFuncGetName, nullptr, function);
  T("only the size", cuFuncGetParamInfo, function, 0, &bytes, nullptr);
  T("null", cuFuncGetParamInfo, function, 0, nullptr, &bytes);
  T("carveout", cuFuncSetAttribute, function, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    50);
  T("carveout, too much", cuFuncSetAttribute, function,
    CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 101);
  int value = 0;
  T("carveout", cuFuncGetAttribute, &value, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    function);
  V("carveout", "%d", value);
  T("", cuModuleUnload, module);
  T("unloaded", cuModuleUnload, module);
  T("unloaded", cuModuleGetFunction, &function, module, "fill");
  T("no image", cuModuleLoadFatBinary, &none, "neither container nor text");
  T("null", cuModuleLoadFatBinary, &none, nullptr);
  CUjit_option bad[] = {static_cast<CUjit_option>(999)};
  void* values[] = {nullptr};
  T("no options", cuModuleLoadDataEx, &module, ptx, 0u, nullptr, nullptr);
  T("unknown option", cuModuleLoadDataEx, &none, ptx, 1u, bad, values);
  T("", cuModuleUnload, module);
}

void TraceLibraries(const char* ptx, const char* path) {
  CUlibrary library = nullptr, owner = nullptr, none = nullptr;
  CUkernel kernels[4] = {}, kernel = nullptr;
  CUfunction function = nullptr;
  CUmodule module = nullptr;
  CUdeviceptr address = 0;
  size_t bytes = 0;
  unsigned count = 0;
  int value = 0;
  T("", cuLibraryLoadFromFile, &library, path, nullptr, nullptr, 0u, nullptr, nullptr, 0u);
  T("no such file", cuLibraryLoadFromFile, &none, "/no/such/file", nullptr, nullptr, 0u, nullptr,
    nullptr, 0u);
  T("null", cuLibraryLoadData, &none, nullptr, nullptr, nullptr, 0u, nullptr, nullptr, 0u);
  T("null", cuLibraryLoadData, nullptr, ptx, nullptr, nullptr, 0u, nullptr, nullptr, 0u);
  T("nonsense", cuLibraryLoadData, &none, "nonsense", nullptr, nullptr, 0u, nullptr, nullptr, 0u);
  T("", cuLibraryEnumerateKernels, kernels, 4u, library);
  T("null", cuLibraryEnumerateKernels, nullptr, 4u, library);
  T("null", cuLibraryGetKernelCount, nullptr, library);
  T("", cuLibraryGetKernelCount, &count, library);
  V("count", "%u", count);
  T("", cuLibraryGetKernel, &kernel, library, "fill");
  T("null name", cuLibraryGetKernel, &kernel, library, nullptr);
  T("", cuKernelGetLibrary, &owner, kernel);
  V("owner", "%d", owner == library);
  T("null", cuKernelGetLibrary, nullptr, kernel);
  T("", cuKernelSetCacheConfig, kernel, CU_FUNC_CACHE_PREFER_L1, 0);
  T("dynamic shared", cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 2048,
    kernel, 0);
  T("dynamic shared", cuKernelGetAttribute, &value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
    kernel, 0);
  V("bytes", "%d", value);
  T("read only", cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_NUM_REGS, 4, kernel, 0);
  T("bad device", cuKernelSetAttribute, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 2048,
    kernel, 7);
  T("bad device", cuKernelGetAttribute, &value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 7);
  T("null", cuKernelGetAttribute, nullptr, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0);
  T("null", cuKernelGetName, nullptr, kernel);
  T("past the end", cuKernelGetParamInfo, kernel, 3, &bytes, &bytes);
  T("", cuKernelGetFunction, &function, kernel);
  T("null", cuKernelGetFunction, nullptr, kernel);
  T("", cuLibraryGetModule, &module, library);
  T("", cuFuncGetModule, &module, function);
  T("missing", cuLibraryGetGlobal, &address, &bytes, library, "absent");
  T("only the size", cuLibraryGetGlobal, nullptr, &bytes, library, "table");
  CUdeviceptr out = 0;
  unsigned word = 1, length = 4;
  void* parameters[] = {&out, &word, &length};
  T("", cuMemAlloc_v2, &out, 64);
  T("a kernel", cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 4, 1, 1, 0u, nullptr,
    parameters, nullptr);
  T("a kernel's function", cuLaunchKernel, function, 1, 1, 1, 4, 1, 1, 0u, nullptr, parameters,
    nullptr);
  T("", cuCtxSynchronize);
  T("", cuMemFree_v2, out);
  T("", cuLibraryUnload, library);
  T("unloaded", cuLibraryUnload, library);
  T("unloaded", cuLibraryGetKernel, &kernel, library, "fill");
}

void TraceOccupancy(const char* ptx) {
  CUmodule module = nullptr;
  CUfunction fill = nullptr;
  int blocks = 0, grid = 0, block = 0;
  size_t bytes = 0;
  T("", cuModuleLoadData, &module, ptx);
  T("", cuModuleGetFunction, &fill, module, "fill");
  T("null", cuOccupancyMaxActiveBlocksPerMultiprocessor, nullptr, fill, 256, 0);
  T("negative", cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, fill, -1, 0);
  T("too many threads", cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, fill, 4096, 0);
  T("too much shared", cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, fill, 64, 1 << 24);
  T("bad flags", cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, &blocks, fill, 256, 0, 9u);
  T("", cuOccupancyMaxPotentialBlockSizeWithFlags, &grid, &block, fill, NoShared, 0, 0, 0u);
  V("block", "%d", block);
  T("limit", cuOccupancyMaxPotentialBlockSize, &grid, &block, fill, nullptr, 0, 128);
  V("block", "%d", block);
  T("null", cuOccupancyMaxPotentialBlockSize, nullptr, &block, fill, nullptr, 0, 128);
  T("null", cuOccupancyAvailableDynamicSMemPerBlock, nullptr, fill, 1, 256);
  T("no threads", cuOccupancyAvailableDynamicSMemPerBlock, &bytes, fill, 1, 0);
  T("", cuModuleUnload, module);
  T("unloaded", cuOccupancyMaxActiveBlocksPerMultiprocessor, &blocks, fill, 256, 0);
}

void TraceTensorMaps() {
  CUdeviceptr a = 0;
  CUtensorMap map{};
  cuuint64_t dim[] = {32, 16}, strides[] = {128};
  cuuint32_t box[] = {8, 8}, steps[] = {1, 1};
  T("", cuMemAlloc_v2, &a, 4096);
  T("", cuTensorMapEncodeTiled, &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2u,
    reinterpret_cast<void*>(a), dim, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
    CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  T("", cuTensorMapReplaceAddress, &map, reinterpret_cast<void*>(a + 1024));
  T("", cuMemFree_v2, a);
}

}  // namespace

void TraceKernels(const char* ptx) {
  ImageFile file(ptx);
  TraceModules(ptx, file.path());
  TraceLibraries(ptx, file.path());
  TraceOccupancy(ptx);
  TraceTensorMaps();
}
