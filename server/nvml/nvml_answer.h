// SPDX-License-Identifier: Apache-2.0
// What a generated Answer_<name> sees: one question of a kNvml message, the library, the outputs.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "generated/server/nvml_api.h"
#include "proto/codec.h"

namespace farcall::server {

class NvmlService;

inline constexpr size_t kTextBytes = 256;           // more than any text of NVML's
inline constexpr size_t kMaxNvmlRecord = 64 << 10;  // of a record that says its own size
inline constexpr size_t kMaxNvmlItems = 16384;

// A record whose first field says its version and size, with as much room as that, at least a T's.
template <typename T>
class VersionedRecord {
 public:
  explicit VersionedRecord(std::span<const std::byte> bytes)
      : bytes_(bytes.size()), words_((std::max(bytes.size(), sizeof(T)) + 7) / 8) {
    if (!bytes.empty()) std::memcpy(words_.data(), bytes.data(), bytes.size());
  }
  T* get() { return reinterpret_cast<T*>(words_.data()); }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words_)).first(bytes_);
  }

 private:
  size_t bytes_;
  std::vector<uint64_t> words_;
};

// One question: {u16 call} and a run of bytes for each argument. The answer: a run for each output.
//   Thread  the helper for NVML
class NvmlAnswer {
 public:
  NvmlAnswer(NvmlService& service, std::span<const std::byte> question)
      : service_(service), in_(question) {
    call_ = in_.Get<uint16_t>();
  }
  uint16_t call() const { return call_; }
  const NvmlApi& api() const;
  NvmlService& service() { return service_; }

  // A device by its place in WELCOME; a refusal if the session has none there, or the library does
  // not know it.
  nvmlDevice_t Device();
  int DeviceIndex();
  template <typename T>
  T In() {
    T value{};
    std::span<const std::byte> run = in_.GetBytes();
    if (run.size() != sizeof(T)) in_.Fail();
    if (in_.ok()) std::memcpy(&value, run.data(), sizeof(T));
    return value;
  }
  // The library believes the size in the record, so it must be that of what came.
  template <typename T>
  VersionedRecord<T> Versioned() {
    return VersionedRecord<T>(VersionedRun());
  }
  template <typename T>
  std::vector<T> Array(int64_t count) {
    std::span<const std::byte> run = in_.GetBytes();
    if (count <= 0 || static_cast<size_t>(count) > kMaxNvmlItems ||
        run.size() != static_cast<size_t>(count) * sizeof(T))
      in_.Fail();
    std::vector<T> items(in_.ok() ? static_cast<size_t>(count) : 0);
    if (!items.empty()) std::memcpy(items.data(), run.data(), run.size());
    return items;
  }

  // False: refusal() is the answer.
  template <typename Function>
  bool Ready(Function* function) {
    return ReadyWith(function != nullptr);
  }
  bool ReadyWith(bool has_function);
  nvmlReturn_t refusal() const { return refusal_; }
  // The question was read to its end and names a device of the session.
  bool whole() const { return in_.Done() && refusal_ == NVML_SUCCESS; }

  template <typename T>
  void Out(const T& value) {
    out_.PutBytes(&value, sizeof(T));
    Pad();
  }
  template <typename T>
  void Out(const VersionedRecord<T>& record) {
    out_.PutBytes(record.bytes().data(), record.bytes().size());
    Pad();
  }
  void OutText(const std::array<char, kTextBytes>& text) {
    out_.PutBytes(text.data(), strnlen(text.data(), text.size()));
    Pad();
  }
  template <typename T>
  void OutItems(const std::vector<T>& items) {
    out_.PutBytes(items.data(), items.size() * sizeof(T));
    Pad();
  }
  std::span<const std::byte> outputs() const { return out_.bytes(); }

 private:
  std::span<const std::byte> VersionedRun();
  void Pad() { out_.mutable_bytes().resize(AlignUp(out_.bytes().size(), 8)); }

  NvmlService& service_;
  Reader in_;
  uint16_t call_ = 0;
  nvmlReturn_t refusal_ = NVML_SUCCESS;
  Builder out_;
};

// All there is, however much that is: `call(count, items)` as NVML has it.
template <typename T, typename Call>
nvmlReturn_t AllItems(std::vector<T>* items, Call call) {
  size_t room = 128;
  while (true) {
    items->assign(room, T{});
    auto count = static_cast<unsigned>(room);
    nvmlReturn_t status = call(&count, items->data());
    if (status == NVML_ERROR_INSUFFICIENT_SIZE && room < kMaxNvmlItems) {
      room = std::min<size_t>(std::max<size_t>(count + 16, room * 2), kMaxNvmlItems);
      continue;
    }
    items->resize(status == NVML_SUCCESS ? std::min<size_t>(count, room) : 0);
    return status;
  }
}

struct NvmlRow {
  nvmlReturn_t (*answer)(NvmlAnswer& answer);
  bool of_tenant;  // answered from the ledger, once everything else is
};
extern const NvmlRow kNvmlTable[];  // by NvmlCall

// ---- by hand, nvml_tenant.cc
nvmlReturn_t Answer_nvmlDeviceGetMemoryInfo(NvmlAnswer& answer);
nvmlReturn_t Answer_nvmlDeviceGetComputeRunningProcesses_v3(NvmlAnswer& answer);

}  // namespace farcall::server
