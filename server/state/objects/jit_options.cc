// SPDX-License-Identifier: Apache-2.0
#include "server/state/objects/jit_options.h"

#include <string_view>

namespace farcall::server {

namespace {

constexpr size_t kMaxOptions = 32;

// The options whose value is a plain number; what points into a process stays out.
bool IsPlainOption(uint32_t id) {
  switch (id) {
    case CU_JIT_MAX_REGISTERS:
    case CU_JIT_OPTIMIZATION_LEVEL:
    case CU_JIT_TARGET_FROM_CUCONTEXT:
    case CU_JIT_TARGET:
    case CU_JIT_FALLBACK_STRATEGY:
    case CU_JIT_GENERATE_DEBUG_INFO:
    case CU_JIT_LOG_VERBOSE:
    case CU_JIT_GENERATE_LINE_INFO:
    case CU_JIT_CACHE_MODE:
    case CU_JIT_FAST_COMPILE:
    case CU_JIT_POSITION_INDEPENDENT_CODE:
    case CU_JIT_MIN_CTA_PER_SM:
    case CU_JIT_MAX_THREADS_PER_BLOCK:
    case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
      return true;
    default:
      return false;
  }
}

}  // namespace

void JitOptions::AddLogs() {
  info.assign(kJitLogBytes, '\0');
  error.assign(kJitLogBytes, '\0');
  Add(CU_JIT_INFO_LOG_BUFFER, reinterpret_cast<uint64_t>(info.data()));
  Add(CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, kJitLogBytes);
  Add(CU_JIT_ERROR_LOG_BUFFER, reinterpret_cast<uint64_t>(error.data()));
  Add(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, kJitLogBytes);
}

bool JitOptions::Decode(Reader& in) {
  size_t count = in.GetCount(12);
  if (count > kMaxOptions) return false;
  for (size_t i = 0; i < count; ++i) {
    auto id = in.Get<uint32_t>();
    auto value = in.Get<uint64_t>();
    if (IsPlainOption(id)) Add(static_cast<CUjit_option>(id), value);
  }
  return true;
}

void JitOptions::EncodeLogs(Builder& out) const {
  out.PutString(std::string_view(info.c_str()));
  out.PutString(std::string_view(error.c_str()));
}

}  // namespace farcall::server
