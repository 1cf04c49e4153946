// SPDX-License-Identifier: Apache-2.0
// How a session is served; what of it is shared with others outlives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda-abi/image.h"
#include "server/state/objects/image_keeper.h"
#include "transport/link.h"

namespace farcall::server {

class ComputeGate;
class EventClock;
class MemorySwap;
class NvmlService;

struct SessionOptions {
  int devices = 0;
  std::vector<uint32_t>
      compute_capabilities;  // by device: 130 for 13.0; what is missing counts as 0
  uint32_t grace_ms = 60000;
  uint32_t heartbeat_ms = 1000;
  uint32_t idle_after_ms = 0;  // as in LinkOptions
  LinkOptions::Packing packing = LinkOptions::Packing::kOff;
  uint32_t lanes = 2;
  uint32_t spin_us = 50;
  size_t landing_slots = 64;  // 1 MiB each
  size_t readback_slots = 32;
  size_t max_landing_heap_bytes = 1u << 30;
  uint64_t first_credit_bytes = 32u << 20;
  int image_folder = -1;  // as ImageStore has them
  ImageKeeper* image_keeper = nullptr;
  CapturedOutput output;  // of the driver
  bool client_takes_error_output = false;
  bool client_takes_mirrors = true;
  std::shared_ptr<NvmlService> nvml;  // null: NVML's questions are not answered
  ComputeGate* gate = nullptr;        // null: no work is held; outlives the session
  EventClock* clock = nullptr;        // null: nobody measures device time by events; outlives it
  cuda_abi::CodeTaste code_taste = cuda_abi::CodeTaste::kMachineCodeFirst;
  bool trust_tenants = false;  // without Landlock, compilers may read what the worker may
  MemorySwap* swap = nullptr;  // null: its memory never leaves the device; outlives the session
};

}  // namespace farcall::server
