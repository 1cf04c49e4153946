// SPDX-License-Identifier: Apache-2.0
// One NVML call on its way: arguments in order, then where the outputs go, then Run().
#pragma once

#include <nvml.h>

#include <cstdint>

#include "client-shim/nvml/cache.h"
#include "client-shim/nvml/library.h"
#include "proto/codec.h"

namespace farcall::nvml {

class Ask {
 public:
  Ask(NvmlCall call, NvmlClass klass);

  // ---- arguments
  void Device(nvmlDevice_t device);
  template <typename T>
  void In(const T& value) {
    PutRun(&value, sizeof(T));
  }

  // ---- outputs, in the order of the parameters. A null pointer is INVALID_ARGUMENT.
  template <typename T>
  void Out(T* out) {
    AddSlot({Slot::kValue, out, sizeof(T), nullptr});
  }
  // NVML takes the size of such a record from the record itself: older and newer ones than the
  // header's go as they are.
  void Versioned(void* record);
  // A text that does not fit into `length` is INSUFFICIENT_SIZE.
  void Text(char* text, unsigned length) { AddSlot({Slot::kText, text, length, nullptr}); }
  // *count: room, then how many there are.
  template <typename T>
  void Items(unsigned* count, T* items) {
    AddItems(count, items, sizeof(T));
  }
  template <typename T>
  void InOut(T* values, int count) {
    if (values == nullptr || count <= 0 || static_cast<size_t>(count) > kMaxRun / sizeof(T))
      return Refused(NVML_ERROR_INVALID_ARGUMENT);
    PutRun(values, static_cast<size_t>(count) * sizeof(T));
    AddSlot({Slot::kValue, values, static_cast<size_t>(count) * sizeof(T), nullptr});
  }

  nvmlReturn_t Run();

 private:
  static constexpr size_t kMaxRun = 64u << 10;
  static constexpr int kMaxSlots = 6;
  struct Slot {
    enum Kind { kValue, kText, kItems } kind;
    void* to;
    size_t bytes;     // of an item for kItems
    unsigned* count;  // kItems
  };
  void PutRun(const void* data, size_t bytes);
  void AddSlot(const Slot& slot);
  void AddItems(unsigned* count, void* items, size_t bytes);
  void Refused(nvmlReturn_t why);
  nvmlReturn_t Fill(const Slot& slot, std::span<const std::byte> run);

  const NvmlCall call_;
  const NvmlClass klass_;
  nvmlReturn_t refused_;
  int device_ = -1;
  Builder question_;
  Slot slots_[kMaxSlots];
  int slot_count_ = 0;
};

}  // namespace farcall::nvml
