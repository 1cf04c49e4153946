// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/sessions/driver_memory.h"

#include <spdlog/spdlog.h>

#include <utility>
#include <variant>
#include <vector>

#include "server/device/uuid_text.h"
#include "server/nvml/nvml_service.h"

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

DriverMemory::DriverMemory(const ProbedDevices& devices, bool charges, const SessionTable& sessions,
                           Closer& closer, int epoll, Hooks hooks)
    : devices_(devices),
      sessions_(sessions),
      helper_(closer, epoll, nullptr,
              HelperProcess::Answer<control::FromProcessMemory>(
                  [this](const control::FromProcessMemory& message, const std::vector<int>&) {
                    OnAnswer(message);
                  })) {
  if (devices.choice.kind != "cuda" || !kHasNvml) return;
  meter_ = std::make_unique<OverheadMeter>(
      static_cast<int>(devices.report.devices.size()), charges,
      OverheadMeter::Hooks{std::move(hooks.own_bytes), std::move(hooks.charge),
                           [this](uint64_t id) { return Ask(id); }});
}

void DriverMemory::Join(const WorkerSession& session) {
  if (meter_ != nullptr) meter_->Join(session.process.control, session.process.pid);
}

void DriverMemory::Leave(int control) {
  if (meter_ != nullptr) meter_->Leave(control);
}

void DriverMemory::Tick(quota::Ns now) {
  if (meter_ != nullptr) meter_->Tick(now);
}

void DriverMemory::Expect(int control, int device) {
  if (meter_ != nullptr) meter_->Expect(control, device);
}

bool DriverMemory::Ask(uint64_t id) {
  if (cannot_ask_) return false;
  if (!helper_.runs()) {
    std::vector<std::string> arguments = {"farcall", "worker", "process-memory",
                                          PathOfNvml(devices_.choice.path)};
    for (const DeviceSnapshot& device : devices_.report.devices)
      arguments.push_back(UuidText(device.uuid));
    Status started = helper_.Start(std::move(arguments), -1);
    if (!started.ok()) {
      spdlog::warn("what sessions take beside their allocations is not known: {}",
                   started.message());
      cannot_ask_ = true;
      return false;
    }
  }
  helper_.Send(control::AskProcessMemory{.id = id});
  return true;
}

void DriverMemory::OnAnswer(const control::FromProcessMemory& message) {
  const std::string known = meter_->why_unknown();
  std::visit([this](const auto& each) { meter_->OnMessage(each); }, message);
  if (meter_->why_unknown() != known && !meter_->why_unknown().empty()) {
    spdlog::info("what sessions take beside their allocations is not known: {}",
                 meter_->why_unknown());
  }
}

uint64_t DriverMemory::ChargedOf(int control, int device) const {
  return meter_ == nullptr ? 0 : meter_->charged_bytes(control, device);
}

uint64_t DriverMemory::BytesOf(const std::string& vgpu, int device) const {
  uint64_t total = 0;
  for (const auto& [control, session] : sessions_)
    if (meter_ != nullptr && session->vgpu == vgpu) total += meter_->bytes(control, device);
  return total;
}

uint64_t DriverMemory::ChargedOf(const std::string& vgpu, int device) const {
  uint64_t total = 0;
  for (const auto& [control, session] : sessions_)
    if (session->vgpu == vgpu) total += ChargedOf(control, device);
  return total;
}

uint64_t DriverMemory::Uncharged(int device) const {
  return meter_ == nullptr ? 0 : meter_->uncharged_bytes(device);
}

}  // namespace farcall::server
