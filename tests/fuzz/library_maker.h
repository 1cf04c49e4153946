// SPDX-License-Identifier: Apache-2.0
// An input of fuzz_library to records: each byte of it is one choice, 0 the honest one. Generated
// functions (build/generated/tests/*_makers.cc) say what a call's record holds.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <span>
#include <type_traits>
#include <vector>

#include "proto/codec.h"
#include "proto/library/library_call.h"
#include "tests/fuzz/serve_items.h"

namespace farcall::fuzz {

class Choices {
 public:
  explicit Choices(std::span<const uint8_t> bytes) : left_(bytes) {}
  bool empty() const { return left_.empty(); }
  uint8_t Next() {
    if (left_.empty()) return 0;
    const uint8_t next = left_.front();
    left_ = left_.subspan(1);
    return next;
  }

 private:
  std::span<const uint8_t> left_;
};

class Maker;
struct MakerRow {
  const char* name = nullptr;  // null: behind the last
  LibraryId library = LibraryId::kNone;
  uint16_t function = 0;
  uint16_t makes = 0;  // the kind of object
  void (*make)(Maker& maker) = nullptr;
};
std::span<const MakerRow> MakerRows();

// What the records so far have named.
class Program {
 public:
  explicit Program(std::span<const uint8_t> input) : choices_(input) {}
  std::vector<Item> Run();

 private:
  friend class Maker;
  void Append(const MakerRow& row);
  void AppendBlob();
  uint64_t NewName(uint16_t kind);
  // One of a kind, made first if there is none.
  uint64_t Named(uint16_t kind);

  static constexpr size_t kMaxRecords = 96;
  Choices choices_;
  std::vector<Item> items_;
  std::map<uint16_t, std::vector<uint64_t>> names_;
  uint64_t last_serial_ = 0;
  int depth_ = 0;
};

class Maker {
 public:
  Maker(Program& program, const MakerRow& row);

  template <typename T>
  T Value() {
    T value{};
    if constexpr (std::is_enum_v<T> || std::is_arithmetic_v<T>) {
      const uint64_t number = Number();
      if constexpr (std::is_floating_point_v<T>)
        value = static_cast<T>(static_cast<int64_t>(number));
      else if constexpr (std::is_same_v<T, bool>)
        value = number % 2 != 0;
      else
        value = static_cast<T>(number);
      body_.Put<T>(value);
    } else {
      body_.PutBytes(&value, sizeof(value));
    }
    return value;
  }
  void Object(std::initializer_list<uint16_t> kinds, bool may_be_null);
  void New(uint16_t kind) { body_.Put<uint64_t>(program_.NewName(kind)); }
  void Address() { body_.Put<uint64_t>(AnAddress()); }
  void Scalar(uint64_t bytes) { pointer_mode_ != 0 ? OnDevice(bytes) : In(bytes); }
  void Result(uint64_t bytes);
  void InOut(uint64_t bytes) { pointer_mode_ != 0 ? OnDevice(bytes) : In(bytes); }
  void AnyScalar() { program_.choices_.Next() % 4 == 3 ? OnDevice(8) : In(8); }
  void HostScalar() { In(program_.choices_.Next() % 2 == 0 ? 4 : 8); }
  void In(uint64_t bytes);
  void Out() { body_.Put<uint8_t>(program_.choices_.Next() % 8 != 7 ? 1 : 0); }
  void Target(uint16_t host_kind);
  void Text();
  template <typename Count>
  void Addresses(Count count) {
    const uint64_t most = count < 0 || count > 64 ? 64 : static_cast<uint64_t>(count);
    body_.Put<uint64_t>(most * sizeof(uint64_t));
    for (uint64_t i = 0; i < most; ++i) body_.Put<uint64_t>(AnAddress());
  }
  // Of an array whose size is not the record's to say.
  uint64_t Guess() { return program_.choices_.Next() % 4 == 0 ? 0 : 4u * program_.choices_.Next(); }

  // ---- for functions by hand
  uint8_t Choice() { return program_.choices_.Next(); }
  uint64_t Number();
  uint64_t AnAddress();
  uint64_t Named(uint16_t kind) { return program_.Named(kind); }
  uint64_t NewName(uint16_t kind) { return program_.NewName(kind); }
  Builder& body() { return body_; }

 private:
  friend class Program;
  void OnDevice(uint64_t bytes);

  Program& program_;
  Builder body_;
  uint8_t pointer_mode_ = 0;
  uint64_t first_object_ = 0;
};

// Memory of the worker's that no record may lead to; and what lies there.
uint64_t SecretAddress();
inline constexpr uint64_t kSecretBytes = 16384;

}  // namespace farcall::fuzz
