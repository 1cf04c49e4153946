// SPDX-License-Identifier: Apache-2.0
// Writer and Reader of record bodies: little-endian, each value aligned to min(its size, 8) from
// the body's start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace farcall {

template <typename T>
concept WireScalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

inline constexpr size_t AlignUp(size_t value, size_t align) {
  return (value + align - 1) & ~(align - 1);
}

// Appends to a caller's buffer of fixed room (the session's batch) without allocating. Sticky:
// after an overflow nothing is written and ok() is false; the caller sized the record wrongly or
// takes the slow path.
class Writer {
 public:
  explicit Writer(std::span<std::byte> room) : base_(room.data()), room_bytes_(room.size()) {}

  template <WireScalar T>
  void Put(T value) {
    static_assert(sizeof(T) <= 8);
    std::byte* at = Take(sizeof(T), sizeof(T));
    if (at != nullptr) [[likely]]
      std::memcpy(at, &value, sizeof(T));
  }
  // A u64 byte count, then the bytes, padded to 8. A null pointer with 0 bytes is an empty run.
  void PutBytes(const void* data, size_t bytes) {
    Put<uint64_t>(bytes);
    std::byte* at = Take(bytes, 8);
    if (at != nullptr && bytes != 0) std::memcpy(at, data, bytes);
  }
  void PutString(std::string_view text) { PutBytes(text.data(), text.size()); }

  bool ok() const { return ok_; }
  size_t size_bytes() const { return used_bytes_; }

 private:
  std::byte* Take(size_t bytes, size_t align) {
    size_t start = AlignUp(used_bytes_, align);
    if (!ok_ || start > room_bytes_ || bytes > room_bytes_ - start) [[unlikely]] {
      ok_ = false;
      return nullptr;
    }
    if (start != used_bytes_) std::memset(base_ + used_bytes_, 0, start - used_bytes_);
    used_bytes_ = start + bytes;
    return base_ + start;
  }

  std::byte* base_;
  size_t room_bytes_;
  size_t used_bytes_ = 0;
  bool ok_ = true;
};

// Reads a body a hostile peer may have written. Sticky: after the first fault every read yields
// zero or empty, and Done() is false. Nothing read may be used for an effect before Done() said
// true.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> body) : body_(body) {}

  template <WireScalar T>
  T Get() {
    T value{};
    const std::byte* at = Take(sizeof(T), sizeof(T));
    if (at != nullptr) [[likely]]
      std::memcpy(&value, at, sizeof(T));
    return value;
  }
  // A view into the body; lives as long as it.
  std::span<const std::byte> GetBytes() {
    uint64_t bytes = Get<uint64_t>();
    if (bytes > body_.size()) ok_ = false;
    const std::byte* at = Take(bytes, 8);
    return at == nullptr ? std::span<const std::byte>() : std::span(at, bytes);
  }
  std::string_view GetString() {
    std::span<const std::byte> bytes = GetBytes();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  // A count whose elements take at least `element_bytes` each: checked against what is left before
  // anyone allocates.
  size_t GetCount(size_t element_bytes) {
    uint64_t count = Get<uint64_t>();
    if (!ok_ || count > remaining_bytes() / (element_bytes == 0 ? 1 : element_bytes)) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  void Fail() { ok_ = false; }

  bool ok() const { return ok_; }
  size_t remaining_bytes() const { return body_.size() - used_bytes_; }
  // True if every read succeeded and only padding (< 8 bytes) is left.
  bool Done() const { return ok_ && remaining_bytes() < 8; }

 private:
  const std::byte* Take(uint64_t bytes, size_t align) {
    size_t start = AlignUp(used_bytes_, align);
    if (!ok_ || start > body_.size() || bytes > body_.size() - start) [[unlikely]] {
      ok_ = false;
      return nullptr;
    }
    used_bytes_ = start + bytes;
    return body_.data() + start;
  }

  std::span<const std::byte> body_;
  size_t used_bytes_ = 0;
  bool ok_ = true;
};

// A growing Writer for the control path (handshake, snapshots, replies): same layout, owns its
// bytes.
class Builder {
 public:
  template <WireScalar T>
  void Put(T value) {
    bytes_.resize(AlignUp(bytes_.size(), sizeof(T)));
    size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
  }
  void PutBytes(const void* data, size_t bytes) {
    Put<uint64_t>(bytes);
    size_t at = bytes_.size();
    bytes_.resize(at + bytes);
    if (bytes != 0) std::memcpy(bytes_.data() + at, data, bytes);
  }
  void PutString(std::string_view text) { PutBytes(text.data(), text.size()); }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte>& mutable_bytes() { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace farcall
