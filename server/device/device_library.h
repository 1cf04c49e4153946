// SPDX-License-Identifier: Apache-2.0
// The libcuda.so.1 that a worker runs on: NVIDIA's, or the CPU or dry device beside our binary, or
// one named by its path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generated/server/driver_api.h"
#include "proto/handshake/handshake.h"
#include "proto/status.h"

namespace farcall::server {

// What `--device` named: "cuda", "cpu", "dry" or a path with a slash; the two in the middle with
// the name of a profile after a colon.
struct DeviceChoice {
  // "cuda", "cpu", "dry"; a path is "cuda" unless it is one of our devices. Once probed a CPU
  // device that skips machine code is "cpu-skip".
  std::string kind;
  std::string path;                        // for dlopen
  std::string profile = "";                // empty: the device's default
  const char* profile_variable = nullptr;  // where a device of ours reads it
};

// The candidates for a `--device` value, in the order to try.   Errors  kInvalid (not a known word,
// no such file)
Result<std::vector<DeviceChoice>> DeviceChoices(const std::string& option);

// "CUDA_ERROR_NO_DEVICE (100)".
std::string ErrorWithCode(CUresult error);

// Loads it into this process for good and fills the table; cuInit is the caller's.
//   Errors  kUnavailable (why it cannot be loaded)
Status LoadDeviceLibrary(const std::string& path, DriverApi* api);

// What WELCOME says of the devices, asked from the library. Calls cuInit.
struct DeviceReport {
  uint32_t driver_version = 0;
  std::vector<DeviceSnapshot> devices;
  bool skips_kernels = false;
};
Result<DeviceReport> ReportDevices(const DriverApi& api);

// Kernels of which launches were left out, most launches first. None: a device that has no such.
struct SkippedKernel {
  std::string name;
  uint64_t launches = 0;
};
std::optional<std::vector<SkippedKernel>> SkippedKernels(const DriverApi& api);

}  // namespace farcall::server
