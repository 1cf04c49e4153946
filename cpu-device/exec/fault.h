// SPDX-License-Identifier: Apache-2.0
// Leaves a kernel that went wrong: by a runtime check, or by a signal raised in compiled code.
#pragma once

#include <cstdint>
#include <string>

#include "cpu-device/exec/program.h"

namespace farcall::cpu_device {

// Runs body(argument) so that RaiseFault and memory faults inside end the call instead of the
// process.
//   body    holds no locks and no objects with destructors across compiled code: it is left by
//           longjmp
//   Thread  any; not nested
ExecResult RunGuarded(void (*body)(void*), void* argument, const char* kernel_name);

// Ends the surrounding RunGuarded. The message is "kernel K: " + the formatted text.
[[noreturn]] void RaiseFault(ExecStatus status, const char* format, ...)
    __attribute__((format(printf, 2, 3)));

// Ends it without a message: another block of the grid has failed already.
[[noreturn]] void RaiseCancelled();

// What this thread's kernel calls shared memory, for the text of a fault near it.
void SetSharedWindow(const void* begin, uint64_t bytes);

// Installs the handlers for SIGSEGV, SIGBUS and SIGFPE once, in front of those the process has.
void InstallFaultHandlers();

}  // namespace farcall::cpu_device
