// SPDX-License-Identifier: Apache-2.0
// NVRTC for a device that executes PTX alone: what is asked to be compiled for sm_90 is compiled
// for compute_90, and its PTX is what nvrtcGetCUBIN hands out, which the driver loads like a cubin.
// All else is the real library's, as it is.
#include "toolkit/nvrtc.h"

#include <nvrtc.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "cpu-device/compilers/real_library.h"

#define NVRTC_ENTRY(type) extern "C" __attribute__((visibility("default"))) type

extern "C" const int farcall_lacking = NVRTC_ERROR_INTERNAL_ERROR;

namespace {

// Programs of which machine code was asked, and PTX was made.
struct Asked {
  std::mutex mutex;
  std::unordered_set<nvrtcProgram> programs;
};
// Never destroyed: handlers of exit may still compile.
Asked& TheAsked() {
  static auto* asked = new Asked;
  return *asked;
}

void Note(nvrtcProgram program, bool asked) {
  std::lock_guard lock(TheAsked().mutex);
  if (asked)
    TheAsked().programs.insert(program);
  else
    TheAsked().programs.erase(program);
}

bool WasAsked(nvrtcProgram program) {
  std::lock_guard lock(TheAsked().mutex);
  return TheAsked().programs.contains(program);
}

}  // namespace

NVRTC_ENTRY(nvrtcResult)
nvrtcCompileProgram(nvrtcProgram program, int count, const char* const* options) {
  const auto real = FARCALL_REAL(nvrtcCompileProgram);
  if (real == nullptr) return NVRTC_ERROR_INTERNAL_ERROR;
  if (count <= 0 || options == nullptr) return real(program, count, options);
  std::vector<const char*> changed(options, options + count);
  if (std::find(changed.begin(), changed.end(), nullptr) != changed.end())
    return NVRTC_ERROR_INVALID_OPTION;
  std::vector<std::string> texts(changed.begin(), changed.end());
  changed.clear();
  bool asked = false;
  for (std::string& text : texts) {
    asked |= farcall::AskForPtx(&text);
    changed.push_back(text.c_str());
  }
  Note(program, asked);
  return real(program, count, changed.data());
}

NVRTC_ENTRY(nvrtcResult) nvrtcDestroyProgram(nvrtcProgram* program) {
  const auto real = FARCALL_REAL(nvrtcDestroyProgram);
  if (real == nullptr) return NVRTC_ERROR_INTERNAL_ERROR;
  if (program != nullptr) Note(*program, false);
  return real(program);
}

NVRTC_ENTRY(nvrtcResult) nvrtcGetCUBINSize(nvrtcProgram program, size_t* bytes) {
  const auto real =
      WasAsked(program) ? FARCALL_REAL(nvrtcGetPTXSize) : FARCALL_REAL(nvrtcGetCUBINSize);
  return real == nullptr ? NVRTC_ERROR_INTERNAL_ERROR : real(program, bytes);
}

NVRTC_ENTRY(nvrtcResult) nvrtcGetCUBIN(nvrtcProgram program, char* to) {
  const auto real = WasAsked(program) ? FARCALL_REAL(nvrtcGetPTX) : FARCALL_REAL(nvrtcGetCUBIN);
  return real == nullptr ? NVRTC_ERROR_INTERNAL_ERROR : real(program, to);
}

NVRTC_ENTRY(const char*) nvrtcGetErrorString(nvrtcResult result) {
  static const auto* lacking =
      new std::string("NVRTC_ERROR_INTERNAL_ERROR: " + farcall::cpu_device::WhyNoRealLibrary());
  const auto real = FARCALL_REAL(nvrtcGetErrorString);
  return real == nullptr ? lacking->c_str() : real(result);
}
