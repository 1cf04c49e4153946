// SPDX-License-Identifier: Apache-2.0
// Where this library's messages go: its owner's log, or stderr when none is set. Never ends the
// process.
#pragma once

namespace farcall::cuda_abi {

enum class LogLevel { kError, kWarn, kInfo, kDebug };
using LogSink = void (*)(LogLevel level, const char* line);

// Thread  any; call before the first use of the library
void SetLogSink(LogSink sink);

void Log(LogLevel level, const char* format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace farcall::cuda_abi
