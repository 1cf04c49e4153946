// SPDX-License-Identifier: Apache-2.0
// A libcuda.so.1 that forwards each call to another one and writes a line about it. For tests.
//   FARCALL_RECORD_NEXT  path of the library that does the work
//   FARCALL_RECORD_FILE  file the lines are appended to; no lines without it
// A line:  <pid> <thread> <name> <result> [<argument>=<kind>:<value>]...
// An argument *x is what the call stored at x.
//   kinds  n number, a device address, h handle (h:<type>:<value>), s text, p pointer (null or
//   set), b bytes (count, hash),
//          k one kernel parameter (size, value), o a structure passed by value (not looked into)
// Plain C, because the generated entries are C.
#pragma once

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

extern const char* const kRecorderNames[];  // every entry, null at the end

// The next library's function; null if it has none. Ends the process if that library cannot be
// loaded.
void* RecorderNext(const char* name);
// The recorder's entry for a function of the next library; `function` itself if it is none of the
// entries.
void* RecorderOwn(void* function);

// The line of one call, written by RecorderEnd, after the call.
struct RecorderLine;
struct RecorderLine* RecorderBegin(const char* name, int result);
void RecorderEnd(struct RecorderLine* line);

void RecorderNumber(struct RecorderLine* line, const char* name, long long value);
void RecorderReal(struct RecorderLine* line, const char* name, double value);
void RecorderAddress(struct RecorderLine* line, const char* name, unsigned long long value);
void RecorderHandle(struct RecorderLine* line, const char* name, const char* kind,
                    const void* value);
// An array of handles, as `name`[0], `name`[1], ...
void RecorderHandles(struct RecorderLine* line, const char* name, const char* kind,
                     const void* values, size_t count);
void RecorderText(struct RecorderLine* line, const char* name, const char* value);
void RecorderPointer(struct RecorderLine* line, const char* name, const void* value);
void RecorderOpaque(struct RecorderLine* line, const char* name);
// The bytes at `data`, only of a call that succeeded: else nobody has shown that they can be read.
void RecorderBytes(struct RecorderLine* line, const char* name, const void* data, size_t bytes);
// A launch's parameters in either form, by the layout the next library tells.
void RecorderParameters(struct RecorderLine* line, CUfunction function, void** parameters,
                        void** extra);

#ifdef __cplusplus
}
#endif
