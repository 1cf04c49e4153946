// SPDX-License-Identifier: Apache-2.0
// What the supervisor tells a new worker, and how it is written into the memory file.
#pragma once

#include <string>
#include <vector>

#include "cuda-abi/image.h"
#include "proto/handshake/exchange_keys.h"
#include "proto/handshake/handshake.h"
#include "proto/status.h"

namespace farcall::server {

struct WorkerSetup {
  std::string device_path, device_kind;
  std::string log_level;
  bool has_images = false;            // a descriptor of the tenant's images comes with it
  std::string kernel_variable;        // likewise of its compiled kernels, for this one; empty: none
  std::vector<std::string> readable;  // folders and files: ReadableFiles
  uint64_t first_credit_bytes = 32u << 20;
  bool swaps = false;                    // its memory may have to leave the device
  bool trust_tenants = false;            // as ServeOptions has it
  bool reports_worker_calls = false;     // likewise
  bool debuggable = false;               // likewise
  bool is_only_tenant = false;           // no other tenant's session is on this server now
  std::vector<std::byte> channel_state;  // of the client's connection: Channel::HandOver
  AnswerKey answer;                      // seals WELCOME, and nothing else
  Hello hello;                           // without what opens anything
  Welcome welcome;  // complete but for what the worker alone knows: windows, images
};

std::vector<std::byte> Encode(const WorkerSetup& setup);
Result<WorkerSetup> DecodeWorkerSetup(std::span<const std::byte> bytes);

// The compute capability of a device, 130 for 13.0.
uint32_t CapabilityOf(const DeviceSnapshot& device);
// What a device of this kind takes of an image that holds machine code and PTX.
cuda_abi::CodeTaste TasteOf(const std::string& device_kind);

}  // namespace farcall::server
