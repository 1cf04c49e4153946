// SPDX-License-Identifier: Apache-2.0
// Answers a session's questions to NVML: from the libnvidia-ml.so.1 beside its device's libcuda,
// seen through the tenant's quota.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "proto/handshake/handshake.h"
#include "server/memory/memory_broker.h"

namespace farcall::server {

struct NvmlApi;

inline constexpr uint32_t kMaxNvmlQuestions = 512;

// The libnvidia-ml.so.1 beside a libcuda.so.1 that is named by its folder; else the system's, as
// libcuda is.
std::string NvmlPath(const std::string& device_path);

using NvmlQuestions = std::vector<std::span<const std::byte>>;

// The body of a kNvml message. False: no such body.
bool SplitNvmlQuestions(std::span<const std::byte> body, NvmlQuestions* questions);

class NvmlService {
 public:
  // `device_path`: the libcuda.so.1 the session runs on.   `broker` must outlive the service
  NvmlService(std::string device_path, std::vector<DeviceSnapshot> devices, MemoryBroker& broker);
  ~NvmlService();

  struct Known {
    int32_t status = 0;
    std::vector<std::byte> outputs;
  };
  // What the library knows; nothing yet for questions about the tenant. Loads it with the first,
  // which may take a while.
  //   Thread  one at a time
  std::vector<Known> AskLibrary(const NvmlQuestions& questions);
  // The reply's body, with what the tenant's ledger says now.
  //   Thread  the one that grants memory, so that a figure and the grants the client knows agree
  std::vector<std::byte> Reply(const NvmlQuestions& questions, std::vector<Known> known);

  // ---- for the answers
  const NvmlApi& api() const { return *api_; }
  int devices() const { return static_cast<int>(devices_.size()); }
  void* Handle(int device) const { return handles_[static_cast<size_t>(device)]; }
  int unavailable() const { return unavailable_; }
  MemoryBroker& broker() { return broker_; }

 private:
  void Load();
  Known Answer(std::span<const std::byte> question);

  const std::string device_path_;
  const std::vector<DeviceSnapshot> devices_;
  MemoryBroker& broker_;
  std::unique_ptr<NvmlApi> api_;
  std::vector<void*> handles_;  // nvmlDevice_t by the session's device; null: the library has none
  bool loaded_ = false;
  int unavailable_ = 0;  // nvmlReturn_t of every question while there is no library
};

}  // namespace farcall::server
