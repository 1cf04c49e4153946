// SPDX-License-Identifier: Apache-2.0
// A descriptor as the client keeps it in the library's own opaque struct, and as it crosses: the
// attributes that were set, {u8 attribute, u8 bytes, value} one after the other.
#pragma once

#include <cstdint>
#include <cstring>

namespace farcall {

class LibraryDescriptor {
 public:
  static constexpr uint16_t kMagic = 0xfa4c;

  // Of the opaque struct's bytes, ours or a peer's: nothing outside `bytes` is looked at.
  LibraryDescriptor(void* at, size_t bytes) : at_(static_cast<uint8_t*>(at)), bytes_(bytes) {}

  void Clear() {
    std::memset(at_, 0, bytes_);
    uint16_t head[2] = {kMagic, 0};
    std::memcpy(at_, head, sizeof(head));
  }
  bool IsOne() const { return Head(0) == kMagic && Used() <= bytes_ - kHead; }

  // False: no room.
  bool Set(uint8_t attribute, const void* value, uint8_t bytes) {
    uint8_t* entry = Find(attribute);
    if (entry != nullptr && entry[1] == bytes) {
      std::memcpy(entry + 2, value, bytes);
      return true;
    }
    size_t used = Used();
    if (entry != nullptr || used + 2 + bytes > bytes_ - kHead) return false;
    entry = at_ + kHead + used;
    entry[0] = attribute;
    entry[1] = bytes;
    std::memcpy(entry + 2, value, bytes);
    auto grown = static_cast<uint16_t>(used + 2 + bytes);
    std::memcpy(at_ + 2, &grown, sizeof(grown));
    return true;
  }
  // A copy in `to`, in which the value of `attribute` is all that `inner` holds. False: no room.
  bool CopyWith(uint8_t attribute, const LibraryDescriptor& inner, LibraryDescriptor to) const {
    to.Clear();
    return Each([&](uint8_t here, const uint8_t* value, uint8_t bytes) {
      return here == attribute ? to.Set(here, inner.at_, static_cast<uint8_t>(kHead + inner.Used()))
                               : to.Set(here, value, bytes);
    });
  }
  // Null: never set.
  const void* Get(uint8_t attribute, uint8_t bytes) const {
    const uint8_t* entry = Find(attribute);
    return entry == nullptr || entry[1] != bytes ? nullptr : entry + 2;
  }
  template <typename T>
  T Value(uint8_t attribute, T otherwise) const {
    const void* found = Get(attribute, sizeof(T));
    if (found != nullptr) std::memcpy(&otherwise, found, sizeof(T));
    return otherwise;
  }
  // `see(attribute, value, bytes)` of each, until it returns false. False: it did, or a lie.
  template <typename See>
  bool Each(See see) const {
    size_t used = Used();
    for (size_t at = 0; at < used;) {
      const uint8_t* entry = at_ + kHead + at;
      if (used - at < 2 || used - at - 2 < entry[1]) return false;
      if (!see(entry[0], entry + 2, entry[1])) return false;
      at += size_t{2} + entry[1];
    }
    return true;
  }

 private:
  static constexpr size_t kHead = 4;
  uint16_t Head(int index) const {
    uint16_t word;
    std::memcpy(&word, at_ + 2 * index, sizeof(word));
    return word;
  }
  size_t Used() const { return Head(1); }
  uint8_t* Find(uint8_t attribute) const {
    uint8_t* found = nullptr;
    Each([&](uint8_t here, const uint8_t* value, uint8_t) {
      if (here == attribute) found = const_cast<uint8_t*>(value) - 2;
      return found == nullptr;
    });
    return found;
  }

  uint8_t* at_;
  size_t bytes_;
};

}  // namespace farcall
