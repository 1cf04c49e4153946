// SPDX-License-Identifier: Apache-2.0
// What a library that stands for one of NVIDIA's and does nothing says of itself. C alone: such a
// library brings nothing along.
#pragma once

// Says once, as the shim's log does (FARCALL_LOG, FARCALL_LOG_FILE), that `library` does not
// support `name`. `said` is the call's own.
void Refuse(const char* library, const char* name, int* said);
// The same as an error, and the end of the program: for a call that can neither fail nor be done.
__attribute__((noreturn)) void RefuseForGood(const char* library, const char* name);

#define EXPORTED __attribute__((visibility("default")))
