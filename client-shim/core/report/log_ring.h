// SPDX-License-Identifier: Apache-2.0
// The last error and warning lines of this process, for cuLogs*: whatever FARCALL_LOG shows of
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "client-shim/core/report/log.h"

namespace farcall::client {

inline constexpr size_t kLogRingBytes = 25600;  // as CUDA's own

// Takes one line, without its newline, and tells the listeners.   Thread  any
void KeepLogLine(LogLevel level, std::string_view line);

// The number of the next line, and of the oldest that is kept.
uint32_t LogEnd();
uint32_t LogBegin();
// Lines from `from` on (counted, as LogEnd counts), at most `room` bytes, each with a newline; the
// oldest are left out first, and a line at the head says so. `next` is where the line after the
// last stands.
std::string LogLinesFrom(uint32_t from, size_t room, uint32_t* next);

using LogListener = std::function<void(LogLevel level, std::string_view line)>;
uint64_t AddLogListener(LogListener listener);  // never 0
bool RemoveLogListener(uint64_t id);

}  // namespace farcall::client
