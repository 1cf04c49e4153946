// SPDX-License-Identifier: Apache-2.0
// What `farcall top` has seen so far: shares over time, and rates from totals.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/control/shown.h"

namespace farcall::cli {

// Thousandths of the last second in which anything ran on the device.
uint32_t MilliOf(const pb::ServerStatus& status, const pb::Device& device);

class History {
 public:
  // One view. What is no longer there is forgotten.
  void Add(const std::vector<Shown>& hosts);

  // Parts of a device's time, in thousandths, oldest first.
  std::vector<uint32_t> SharesOf(const std::string& host, const std::string& vgpu,
                                 uint32_t device) const;
  std::vector<uint32_t> UseOf(const std::string& host, uint32_t device) const;
  // Between the last two views, by the server's clock; 0 before there are two.
  uint64_t NetBytesPerSecond(const std::string& host, const std::string& vgpu) const;

 private:
  struct Net {
    uint64_t total = 0, at_ms = 0, bytes_per_s = 0;
  };
  using Series = std::map<std::string, std::vector<uint32_t>>;
  Series shares_;
  std::map<std::string, Net> nets_;
};

}  // namespace farcall::cli
