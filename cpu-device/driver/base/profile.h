// SPDX-License-Identifier: Apache-2.0
// What the device claims to be: a compute capability and the limits programs read and are held to.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpu-device/driver/base/api.h"

namespace farcall::cpu_device {

struct Profile {
  std::string card;  // of a profile that names one
  std::string name = "Farcall CPU Device";
  int cc_major = 13;
  int cc_minor = 0;
  int devices = 1;
  uint64_t memory_bytes = 0;
  int multiprocessors = 4;
  int threads_per_multiprocessor = 2048;
  int blocks_per_multiprocessor = 32;
  int shared_per_block = 48 << 10;
  int shared_per_block_optin = 99 << 10;
  int shared_per_multiprocessor = 100 << 10;
  int registers = 65536;
  int l2_bytes = 32 << 20;
  int clock_khz = 2000000;
  int memory_clock_khz = 3200000;
  int memory_bus_bits = 128;
  int copy_engines = 2;
  int single_to_double = 2;     // throughput
  std::vector<int> processors;  // of this machine, that are the device; empty: all
  bool clusters = false;
  bool multicast = false;  // where there are several devices
  // Warps go in lockstep everywhere, not where a kernel is told to count on it alone.
  bool lockstep = false;
  // Kernels of machine code alone load and are skipped; otherwise their image is refused.
  bool skips_machine_code = false;

  // The engine that came with compute capability 10.
  bool decompresses() const { return cc_major >= 10; }
  int cc() const { return cc_major * 10 + cc_minor; }
};

constexpr int kDriverVersion = 13000;
constexpr int kMaxDecompressBytes = 4 << 20;  // of one operation
constexpr int kWarpSize = 32;
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kMaxSharedPerBlock = 227 << 10;
constexpr int kMaxDevices = 16;
constexpr uint64_t kMinMemoryBytes = 16 << 20;
constexpr uint64_t kVmmGranularity = 2 << 20;

// What this machine's memory and cores make of a profile's defaults.
Profile HostProfile();

// "8GiB", "512MiB", "64KiB" or plain bytes. false if it is none of these.
bool ParseBytes(const std::string& text, uint64_t* bytes);

// false: cuda.h has no such attribute.
bool DeviceAttribute(const Profile& profile, int number, int attribute, int* value);

}  // namespace farcall::cpu_device
