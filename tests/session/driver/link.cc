// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string>

#include "driver.h"

namespace {

void RunLinked(const void* image) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  CHECK(D(cuLibraryLoadData)(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CHECK(D(cuLibraryGetKernel)(&kernel, library, "linked"));
  CUdeviceptr data = 0;
  CHECK(D(cuMemAlloc_v2)(&data, 4));
  CHECK(D(cuMemsetD32_v2)(data, 41, 1));
  void* parameters[] = {&data};
  CHECK(D(cuLaunchKernel)(reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, nullptr,
                          parameters, nullptr));
  int value = 0;
  CHECK(D(cuMemcpyDtoH_v2)(&value, data, 4));
  EXPECT(value == 42);
  CHECK(D(cuLibraryUnload)(library));
  CHECK(D(cuMemFree_v2)(data));
}

void TwoInputs() {
  char info[512] = "?", error[512] = "?";
  CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_LOG_VERBOSE,      CU_JIT_WALL_TIME};
  void* values[] = {info,
                    reinterpret_cast<void*>(sizeof(info)),
                    error,
                    reinterpret_cast<void*>(sizeof(error)),
                    reinterpret_cast<void*>(1),
                    nullptr};
  CUlinkState state = nullptr;
  CHECK(D(cuLinkCreate_v2)(6, options, values, &state));
  CHECK(D(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, const_cast<char*>(kCallerPtx),
                            std::strlen(kCallerPtx) + 1, "caller", 0, nullptr, nullptr));
  CHECK(D(cuLinkAddData)(state, CU_JIT_INPUT_PTX, const_cast<char*>(kHelperPtx),
                         std::strlen(kHelperPtx) + 1, nullptr, 0, nullptr, nullptr));
  void *image = nullptr, *again = nullptr;
  size_t bytes = 0;
  CHECK(D(cuLinkComplete)(state, &image, &bytes));
  EXPECT(image != nullptr && bytes > 0);
  CHECK(D(cuLinkComplete)(state, &again, nullptr));
  EXPECT(again == image);
  EXPECT(error[0] == '\0');
  float ms = 0;
  std::memcpy(&ms, &values[5], sizeof(ms));
  EXPECT(ms > 0);
  std::string kept(static_cast<const char*>(image), bytes);
  RunLinked(image);
  CHECK(D(cuLinkDestroy)(state));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuLinkDestroy)(state));
  CODE(CUDA_ERROR_INVALID_HANDLE, D(cuLinkComplete)(state, &image, &bytes));
  RunLinked(kept.data());
}

void File() {
  char path[] = "/tmp/farcall-link-XXXXXX";
  int file = mkstemp(path);
  EXPECT(file >= 0);
  std::string both = std::string(kCallerPtx) + std::strstr(kHelperPtx, ".visible");
  FILE* out = fdopen(file, "w");
  EXPECT(std::fwrite(both.data(), 1, both.size(), out) == both.size());
  std::fclose(out);
  CUlinkState state = nullptr;
  CHECK(D(cuLinkCreate)(0, nullptr, nullptr, &state));
  CODE(CUDA_ERROR_FILE_NOT_FOUND,
       D(cuLinkAddFile_v2)(state, CU_JIT_INPUT_PTX, "/nowhere/x.ptx", 0, nullptr, nullptr));
  CHECK(D(cuLinkAddFile_v2)(state, CU_JIT_INPUT_PTX, path, 0, nullptr, nullptr));
  std::remove(path);  // it was read here, at the call
  void* image = nullptr;
  size_t bytes = 0;
  CHECK(D(cuLinkComplete)(state, &image, &bytes));
  RunLinked(image);
  CHECK(D(cuLinkDestroy)(state));
}

void Refusals() {
  char error[256] = "";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void* values[] = {error, reinterpret_cast<void*>(sizeof(error))};
  CUlinkState state = nullptr;
  void* image = nullptr;
  size_t bytes = 0;
  CHECK(D(cuLinkCreate_v2)(2, options, values, &state));
  char object[64] =
      "\x7f"
      "ELF no object file";
  EXPECT(D(cuLinkAddData_v2)(state, CU_JIT_INPUT_OBJECT, object, sizeof(object), "object", 0,
                             nullptr, nullptr) != CUDA_SUCCESS);
  EXPECT(std::strlen(error) != 0);  // why, in the application's own buffer
  EXPECT(reinterpret_cast<size_t>(values[1]) == std::strlen(error) + 1);
  CODE(CUDA_ERROR_INVALID_VALUE,
       D(cuLinkAddData_v2)(state, CU_JIT_INPUT_PTX, nullptr, 4, "", 0, nullptr, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLinkAddData_v2)(state, static_cast<CUjitInputType>(77), object,
                                                     4, "", 0, nullptr, nullptr));
  EXPECT(D(cuLinkComplete)(state, &image, &bytes) != CUDA_SUCCESS);  // there is nothing in it
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLinkComplete)(state, nullptr, &bytes));
  CHECK(D(cuLinkDestroy)(state));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLinkCreate_v2)(0, nullptr, nullptr, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, D(cuLinkCreate_v2)(2, nullptr, nullptr, &state));
  CODE(CUDA_ERROR_INVALID_HANDLE,
       D(cuLinkAddData_v2)(reinterpret_cast<CUlinkState>(&bytes), CU_JIT_INPUT_PTX,
                           const_cast<char*>(kAddPtx), 10, "", 0, nullptr, nullptr));
}

}  // namespace

void Linking() {
  TwoInputs();
  File();
  Refusals();
}
