// SPDX-License-Identifier: Apache-2.0
// What the driver takes for sessions beside their allocations (overhead_meter.h): who is asked,
// what is charged, and what is told of it.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "server/device/uuid_text.h"
#include "server/nvml/nvml_service.h"
#include "server/supervisor/supervisor.h"

namespace farcall::server {

namespace {

#ifdef FARCALL_NVML
constexpr bool kHasNvml = true;
std::string PathOfNvml(const std::string& device_path) {
  return NvmlPath(device_path);
}
#else
constexpr bool kHasNvml = false;
std::string PathOfNvml(const std::string&) {
  return "";
}
#endif

}  // namespace

// Only NVIDIA's driver: contexts and programs of a software device are in no device's memory.
std::unique_ptr<OverheadMeter> Supervisor::MakeOverheadMeter() {
  if (devices_.choice.kind != "cuda" || !kHasNvml) {
    return nullptr;
  }
  OverheadMeter::Hooks hooks;
  hooks.own_bytes = [this](int control, int device) { return BytesOnDevice(control, device); };
  hooks.charge = [this](int control, int device, uint64_t bytes) {
    return charges_.ReserveUpTo(control, device, bytes);
  };
  hooks.ask = [this](uint64_t id) { return AskProcessMemory(id); };
  return std::make_unique<OverheadMeter>(static_cast<int>(devices_.report.devices.size()),
                                         options_.charges_overhead, std::move(hooks));
}

// What is shared counts for each that has it: which of them the driver's figure holds is not known.
uint64_t Supervisor::BytesOnDevice(int control, int device) const {
  uint64_t bytes = charges_.charged_bytes(control, device) - charges_.UnspentOf(control, device);
  bytes -= std::min(bytes, swap_.BytesOut(control, device, SteadyNow()));
  return bytes + shared_.BytesHeldBy(control, device);
}

bool Supervisor::AskProcessMemory(uint64_t id) {
  if (no_process_memory_) {
    return false;
  }
  if (!process_memory_.runs()) {
    std::vector<std::string> arguments = {"farcall", "worker", "process-memory",
                                          PathOfNvml(devices_.choice.path)};
    for (const DeviceSnapshot& device : devices_.report.devices) {
      arguments.push_back(UuidText(device.uuid));
    }
    Status started = process_memory_.Start(std::move(arguments), -1);
    if (!started.ok()) {
      spdlog::warn("what sessions take beside their allocations is not known: {}",
                   started.message());
      no_process_memory_ = true;
      return false;
    }
  }
  process_memory_.Send(control::AskProcessMemory{.id = id});
  return true;
}

void Supervisor::OnProcessMemory(const control::FromProcessMemory& message) {
  const std::string known = overhead_->why_unknown();
  std::visit([this](const auto& each) { overhead_->OnMessage(each); }, message);
  if (overhead_->why_unknown() != known && !overhead_->why_unknown().empty()) {
    spdlog::info("what sessions take beside their allocations is not known: {}",
                 overhead_->why_unknown());
  }
}

uint64_t Supervisor::OverheadOf(const std::string& vgpu, int device, bool charged) const {
  uint64_t total = 0;
  for (const auto& [control, worker] : workers_) {
    if (overhead_ != nullptr && worker->vgpu == vgpu) {
      total +=
          charged ? overhead_->charged_bytes(control, device) : overhead_->bytes(control, device);
    }
  }
  return total;
}

}  // namespace farcall::server
