// SPDX-License-Identifier: Apache-2.0
// How a device is shared between vGPUs: `farcall serve --mode`.
#pragma once

#include <map>
#include <string_view>

#include "proto/status.h"

namespace farcall::server {

enum class DeviceMode {
  kSlice,      // one vGPU at a time, by leases once somebody has a share, a limit or a class
  kExclusive,  // one vGPU, until it is gone
  kMps,        // all at once, under a control daemon of ours
  kMig,        // the GPUs' instances are the devices
};
std::string_view ToText(DeviceMode mode);

struct DeviceModes {
  DeviceMode all = DeviceMode::kSlice;
  std::map<int, DeviceMode> by_device;  // by the server's numbers

  DeviceMode Of(int device) const;
  bool Any(DeviceMode mode) const;
};

// "mps", "0=mps,1=slice".   Errors  kInvalid
Result<DeviceModes> ParseModes(std::string_view text);

// Whether `devices` devices of this kind ("cuda", "cpu", ...) can be served so. A process is an MPS
// client with all its devices or with none, and sees one MIG instance: without a pool, which gives
// a session some of the devices, all have to be alike in that.
//   Errors  kInvalid
Status CheckModes(const DeviceModes& modes, int devices, std::string_view kind, bool in_pool);

}  // namespace farcall::server
