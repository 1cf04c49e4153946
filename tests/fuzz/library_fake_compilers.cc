// SPDX-License-Identifier: Apache-2.0
// NVRTC and nvJitLink of the fakes: no option that names a file reaches them.
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/fuzz/library_fake.h"
#include "toolkit/nvjitlink.h"

using farcall::fuzz::Fake;

namespace {

void CheckOptions(int count, const char* const* options) {
  for (int i = 0; i < count; ++i) {
    if (std::strstr(options[i], "/etc") != nullptr) {
      std::fprintf(stderr, "a compiler is given %s\n", options[i]);
      std::abort();
    }
  }
}

constexpr size_t kOutputBytes = 48;

template <typename Status>
Status Size(const char* name, size_t* bytes) {
  Fake fake(name, false);
  *bytes = kOutputBytes;
  return static_cast<Status>(fake.Status());
}
template <typename Status>
Status Output(const char* name, char* to) {
  Fake fake(name, false);
  std::memset(to, 'x', kOutputBytes - 1);
  to[kOutputBytes - 1] = 0;
  return static_cast<Status>(fake.Status());
}

}  // namespace

extern "C" {

nvrtcResult nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetNumSupportedArchs(int* count) {
  *count = 3;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcGetSupportedArchs(int* archs) {
  archs[0] = archs[1] = archs[2] = 90;
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcCreateProgram(nvrtcProgram* made, const char* source, const char* name, int count,
                               const char* const* headers, const char* const* names) {
  Fake fake("nvrtcCreateProgram", false);
  fake.Text(source);
  fake.Text(name);
  for (int i = 0; i < count; ++i) {
    fake.Text(headers[i]);
    fake.Text(names[i]);
  }
  fake.Make(made, 1);
  return static_cast<nvrtcResult>(fake.Status());
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  Fake fake("nvrtcDestroyProgram", false);
  fake.End(*program, {1});
  return NVRTC_SUCCESS;
}
nvrtcResult nvrtcAddNameExpression(nvrtcProgram program, const char* expression) {
  Fake fake("nvrtcAddNameExpression", false);
  fake.Object(program, {1}, false);
  fake.Text(expression);
  return static_cast<nvrtcResult>(fake.Status());
}
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  Fake fake("nvrtcCompileProgram", true);
  fake.Object(program, {1}, false);
  CheckOptions(count, options);
  return static_cast<nvrtcResult>(fake.Status());
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram, size_t* bytes) {
  return Size<nvrtcResult>("nvrtcGetProgramLogSize", bytes);
}
nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  return Output<nvrtcResult>("nvrtcGetProgramLog", log);
}
nvrtcResult nvrtcGetPTXSize(nvrtcProgram, size_t* bytes) {
  return Size<nvrtcResult>("nvrtcGetPTXSize", bytes);
}
nvrtcResult nvrtcGetPTX(nvrtcProgram, char* ptx) {
  return Output<nvrtcResult>("nvrtcGetPTX", ptx);
}
nvrtcResult nvrtcGetLoweredName(nvrtcProgram, const char*, const char** name) {
  *name = "lowered";
  return NVRTC_SUCCESS;
}

nvJitLinkResult nvJitLinkVersion(unsigned* major, unsigned* minor) {
  *major = 13;
  *minor = 0;
  return NVJITLINK_SUCCESS;
}
nvJitLinkResult nvJitLinkCreate(nvJitLinkHandle* made, uint32_t count, const char** options) {
  Fake fake("nvJitLinkCreate", true);
  CheckOptions(static_cast<int>(count), options);
  fake.Make(made, 2);
  return static_cast<nvJitLinkResult>(fake.Status());
}
nvJitLinkResult nvJitLinkDestroy(nvJitLinkHandle* handle) {
  Fake fake("nvJitLinkDestroy", false);
  fake.End(*handle, {2});
  return NVJITLINK_SUCCESS;
}
nvJitLinkResult nvJitLinkAddData(nvJitLinkHandle handle, nvJitLinkInputType, const void* data,
                                 size_t bytes, const char* name) {
  Fake fake("nvJitLinkAddData", false);
  fake.Object(handle, {2}, false);
  fake.Read(data, bytes);
  fake.Text(name);
  if (bytes >= 7 && std::memcmp(data, "!<thin>", 7) == 0) std::abort();  // which names files
  return static_cast<nvJitLinkResult>(fake.Status());
}
nvJitLinkResult nvJitLinkComplete(nvJitLinkHandle handle) {
  Fake fake("nvJitLinkComplete", true);
  fake.Object(handle, {2}, false);
  return static_cast<nvJitLinkResult>(fake.Status());
}
nvJitLinkResult nvJitLinkGetErrorLogSize(nvJitLinkHandle, size_t* bytes) {
  return Size<nvJitLinkResult>("nvJitLinkGetErrorLogSize", bytes);
}
nvJitLinkResult nvJitLinkGetErrorLog(nvJitLinkHandle, char* log) {
  return Output<nvJitLinkResult>("nvJitLinkGetErrorLog", log);
}
nvJitLinkResult nvJitLinkGetLinkedCubinSize(nvJitLinkHandle, size_t* bytes) {
  return Size<nvJitLinkResult>("nvJitLinkGetLinkedCubinSize", bytes);
}
nvJitLinkResult nvJitLinkGetLinkedCubin(nvJitLinkHandle, void* cubin) {
  return Output<nvJitLinkResult>("nvJitLinkGetLinkedCubin", static_cast<char*>(cubin));
}

}  // extern "C"
