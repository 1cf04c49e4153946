// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nvml/ask.h"

#include <algorithm>
#include <cstring>

namespace farcall::nvml {

Ask::Ask(NvmlCall call, NvmlClass klass) : call_(call), klass_(klass), refused_(CheckReady()) {
  question_.Put<uint16_t>(static_cast<uint16_t>(call));
}

void Ask::Refused(nvmlReturn_t why) {
  if (refused_ == NVML_SUCCESS) refused_ = why;
}

void Ask::PutRun(const void* data, size_t bytes) {
  nvml::PutRun(&question_, data, bytes);
}

void Ask::Device(nvmlDevice_t device) {
  if (refused_ != NVML_SUCCESS) return;
  int index = IndexOf(device);
  if (index < 0) return Refused(NVML_ERROR_INVALID_ARGUMENT);
  if (device_ < 0) device_ = index;
  auto wire = static_cast<uint32_t>(Channel().wire_device(index));
  PutRun(&wire, sizeof(wire));
}

void Ask::AddSlot(const Slot& slot) {
  if (slot.to == nullptr || slot_count_ == kMaxSlots) return Refused(NVML_ERROR_INVALID_ARGUMENT);
  slots_[slot_count_++] = slot;
}

void Ask::AddItems(unsigned* count, void* items, size_t bytes) {
  if (count == nullptr || slot_count_ == kMaxSlots) return Refused(NVML_ERROR_INVALID_ARGUMENT);
  slots_[slot_count_++] = {Slot::kItems, items, bytes, count};
}

void Ask::Versioned(void* record) {
  if (record == nullptr) return Refused(NVML_ERROR_INVALID_ARGUMENT);
  uint32_t version = 0;
  std::memcpy(&version, record, sizeof(version));
  size_t bytes = version & 0xffffff;
  if (bytes < sizeof(version) || bytes > kMaxRun || version >> 24 == 0)
    return Refused(NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
  PutRun(record, bytes);
  AddSlot({Slot::kValue, record, bytes, nullptr});
}

nvmlReturn_t Ask::Run() {
  if (refused_ != NVML_SUCCESS) return refused_;
  std::vector<std::byte> outputs;
  nvmlReturn_t status = FindAnswer(call_, klass_, device_, question_.bytes(), &outputs);
  if (status != NVML_SUCCESS) return status;
  Reader in(outputs);
  for (int i = 0; i < slot_count_; ++i) {
    nvmlReturn_t filled = Fill(slots_[i], in.GetBytes());
    if (!in.ok()) return NVML_ERROR_UNKNOWN;
    if (filled != NVML_SUCCESS) status = filled;
  }
  return in.Done() ? status : NVML_ERROR_UNKNOWN;
}

nvmlReturn_t Ask::Fill(const Slot& slot, std::span<const std::byte> run) {
  if (slot.kind == Slot::kText) {
    if (run.size() + 1 > slot.bytes) return NVML_ERROR_INSUFFICIENT_SIZE;
    std::copy(run.begin(), run.end(), static_cast<std::byte*>(slot.to));
    static_cast<char*>(slot.to)[run.size()] = 0;
    return NVML_SUCCESS;
  }
  if (slot.kind == Slot::kValue) {
    if (run.size() != slot.bytes) return NVML_ERROR_UNKNOWN;
    std::copy(run.begin(), run.end(), static_cast<std::byte*>(slot.to));
    return NVML_SUCCESS;
  }
  auto there = static_cast<unsigned>(run.size() / slot.bytes);
  unsigned room = slot.to == nullptr ? 0 : *slot.count;
  // Samples are as many as there is room for; a list is whole or not at all.
  bool part = klass_ == NvmlClass::kLive;
  *slot.count = part && slot.to != nullptr ? std::min(room, there) : there;
  if (!part && room < there) return NVML_ERROR_INSUFFICIENT_SIZE;
  auto copied = run.first(slot.to == nullptr ? 0 : *slot.count * slot.bytes);
  std::copy(copied.begin(), copied.end(), static_cast<std::byte*>(slot.to));
  return NVML_SUCCESS;
}

}  // namespace farcall::nvml
