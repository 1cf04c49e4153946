// SPDX-License-Identifier: Apache-2.0
// Which of CUDA's libraries thin mode may take the place of, and which only together: they look
// into each other's objects. C, for the auditor and the command line.
#pragma once

#include <stddef.h>

enum { kThinGroupMost = 3 };
// A row switches if all of it lies in lib/farcall/thin. Both CUDA's majors have a
// libcusparse.so.12, each with a cuSOLVER of its own.
static const char* const kThinGroups[][kThinGroupMost] = {
    {"libcudart.so.12"},
    {"libcudart.so.13"},
    {"libcublas.so.12", "libcublasLt.so.12"},
    {"libcublas.so.13", "libcublasLt.so.13"},
    {"libcusparse.so.12", "libcusolver.so.11", "libcusolver.so.12"},
    {"libcudnn.so.9"},
    {"libcufft.so.11"},
    {"libcufft.so.12"},
    {"libcufftw.so.11"},
    {"libcufftw.so.12"},
    {"libcurand.so.10"},
    {"libnvrtc.so.12"},
    {"libnvrtc.so.13"},
    {"libnvJitLink.so.12"},
    {"libnvJitLink.so.13"},
    {"libcusolverMg.so.11"},
    {"libcusolverMg.so.12"},
    {"libcusparseLt.so.0"},
    {"libcupti.so.12"},
    {"libcupti.so.13"},
    {"libcufile.so.0"},
    {"libnvshmem_host.so.3"},
    {"libnvToolsExt.so.1"},
};
enum { kThinGroupCount = sizeof(kThinGroups) / sizeof(kThinGroups[0]) };

// Parts of a library that thin mode has in one piece: what starts with `start` and holds `inside`
// is `whole`.
static const struct {
  const char *start, *inside, *whole;
} kThinParts[] = {
    {"libcudnn_", ".so.9", "libcudnn.so.9"},
    {"libnvrtc-builtins.", ".so.12", "libnvrtc.so.12"},
    {"libnvrtc-builtins.", ".so.13", "libnvrtc.so.13"},
};
enum { kThinPartCount = sizeof(kThinParts) / sizeof(kThinParts[0]) };
