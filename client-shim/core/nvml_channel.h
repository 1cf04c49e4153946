// SPDX-License-Identifier: Apache-2.0
// How our libnvidia-ml.so.1 reaches the session of our libcuda.so.1, which lies beside it: a table
// that cuGetExportTable hands out under this id. Both are of one build; the size tells.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farcall::client {

inline constexpr uint8_t kNvmlChannelId[16] = {0x59, 0x8f, 0xb2, 0x2a, 0xac, 0x25, 0x02, 0x5c,
                                               0x52, 0xb9, 0xb3, 0x57, 0x54, 0xba, 0xc9, 0xb3};

// What WELCOME said of a device, by all servers' count: NVML knows nothing of CUDA_VISIBLE_DEVICES.
struct NvmlDeviceFacts {
  char name[128];
  char uuid[48];  // "GPU-..."
  uint32_t pci_domain, pci_bus, pci_device;
  int major, minor;
};

struct NvmlChannel {
  size_t bytes;
  // Begins the process's session if there is none. 0, or a CUresult.   Thread  any
  int (*join)();
  int (*driver_version)();
  int (*device_count)();
  bool (*describe)(int device, NvmlDeviceFacts* facts);
  // The number of a device in a question, which its own server counts.
  int (*wire_device)(int device);
  // A kNvml message to the server of `device` (-1: to the first): `take` sees the reply. 0, or a
  // CUresult.
  int (*ask)(int device, const void* body, size_t bytes,
             void (*take)(void* user, const void* reply, size_t bytes), void* user);
  // How many records this process has sent so far: unchanged means that it changed nothing itself.
  uint64_t (*records)();
  // Bytes of the device that the server counts as this process's and nobody has allocated.
  uint64_t (*unspent_bytes)(int device);
  // One line into the shim's log, at a LogLevel.
  void (*log)(int level, const char* line);
};

const NvmlChannel* TheNvmlChannel();

}  // namespace farcall::client
