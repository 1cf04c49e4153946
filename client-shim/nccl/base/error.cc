// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nccl/base/error.h"

#include <cstdarg>
#include <cstdio>

#include "client-shim/core/report/log.h"

namespace farcall::nccl {

namespace {
thread_local char t_last[512];
}

ncclResult_t Fail(ncclResult_t result, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::vsnprintf(t_last, sizeof(t_last), format, args);
  va_end(args);
  client::Log(client::LogLevel::kWarn, "nccl: %s", t_last);
  return result;
}

const char* LastError() {
  return t_last;
}

}  // namespace farcall::nccl
