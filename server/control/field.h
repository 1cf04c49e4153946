// SPDX-License-Identifier: Apache-2.0
// The codecs of the fields of control messages. Each field has a bound, and so has each message.
// The reader trusts no byte: a peer may be hostile.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "proto/codec.h"

namespace farcall::server::control {

// A text of at most `kBound` bytes. A longer text is truncated when it is set, and refused when it
// is read.
template <size_t kBound>
class Text {
 public:
  Text() = default;
  Text(std::string_view text) : text_(text.substr(0, kBound)) {}   // NOLINT
  Text(const std::string& text) : Text(std::string_view(text)) {}  // NOLINT
  Text(const char* text) : Text(std::string_view(text)) {}         // NOLINT
  operator const std::string&() const { return text_; }            // NOLINT
  const std::string& str() const { return text_; }
  bool operator==(const Text&) const = default;

 private:
  std::string text_;
};

using Reason = Text<240>;  // for people: why something was refused or has ended
using Name = Text<240>;

// At most `kBound` structs, which list their fields as a message does.
template <typename T, size_t kBound>
struct List {
  static constexpr size_t kMaxSize = kBound;
  std::vector<T> items;
  bool operator==(const List&) const = default;
};

// States the last value of an enum; the values begin with 0 and have no gaps.
template <typename E>
struct EnumRange;

template <typename T>
struct FieldCodec;

template <typename T>
requires std::is_arithmetic_v<T> &&(!std::is_same_v<T, bool>)struct FieldCodec<T> {
  static constexpr size_t kMaxBytes = 2 * sizeof(T) - 1;  // alignment included
  static void Put(Writer& out, T value) { out.Put(value); }
  static void Get(Reader& in, T* value) { *value = in.Get<T>(); }
};

template <>
struct FieldCodec<bool> {
  static constexpr size_t kMaxBytes = 1;
  static void Put(Writer& out, bool value) { out.Put<uint8_t>(value ? 1 : 0); }
  static void Get(Reader& in, bool* value) {
    const auto byte = in.Get<uint8_t>();
    if (byte > 1) in.Fail();
    *value = byte == 1;
  }
};

template <size_t kBytes>
struct FieldCodec<std::array<uint8_t, kBytes>> {
  static constexpr size_t kMaxBytes = kBytes;
  static void Put(Writer& out, const std::array<uint8_t, kBytes>& bytes) {
    for (uint8_t byte : bytes) out.Put(byte);
  }
  static void Get(Reader& in, std::array<uint8_t, kBytes>* bytes) {
    for (uint8_t& byte : *bytes) byte = in.Get<uint8_t>();
  }
};

template <typename E>
requires std::is_enum_v<E>
struct FieldCodec<E> {
  using Number = std::underlying_type_t<E>;
  static_assert(std::is_unsigned_v<Number>);
  static constexpr size_t kMaxBytes = FieldCodec<Number>::kMaxBytes;
  static void Put(Writer& out, E value) { out.Put(static_cast<Number>(value)); }
  static void Get(Reader& in, E* value) {
    const auto number = in.Get<Number>();
    if (number > static_cast<Number>(EnumRange<E>::kLast)) in.Fail();
    *value = in.ok() ? static_cast<E>(number) : E{};
  }
};

template <size_t kBound>
struct FieldCodec<Text<kBound>> {
  static constexpr size_t kMaxBytes = FieldCodec<uint64_t>::kMaxBytes + kBound;
  static void Put(Writer& out, const Text<kBound>& text) { out.PutString(text.str()); }
  static void Get(Reader& in, Text<kBound>* text) {
    const std::string_view bytes = in.GetString();
    if (bytes.size() > kBound) return in.Fail();
    *text = bytes;
  }
};

template <typename T>
struct FieldCodec<std::optional<T>> {
  static constexpr size_t kMaxBytes = 1 + FieldCodec<T>::kMaxBytes;
  static void Put(Writer& out, const std::optional<T>& value) {
    FieldCodec<bool>::Put(out, value.has_value());
    if (value) FieldCodec<T>::Put(out, *value);
  }
  static void Get(Reader& in, std::optional<T>* value) {
    bool is_there = false;
    FieldCodec<bool>::Get(in, &is_there);
    value->reset();
    if (is_there) FieldCodec<T>::Get(in, &value->emplace());
  }
};

// All fields of a struct, in their order.
template <typename T>
void PutFields(Writer& out, const T& from) {
  std::apply(
      [&out](const auto&... field) {
        (FieldCodec<std::remove_cvref_t<decltype(field)>>::Put(out, field), ...);
      },
      T::Fields(from));
}
template <typename T>
void GetFields(Reader& in, T* into) {
  std::apply(
      [&in](auto&... field) {
        (FieldCodec<std::remove_cvref_t<decltype(field)>>::Get(in, &field), ...);
      },
      T::Fields(*into));
}

template <typename Tuple>
struct TupleBytes;
template <typename... Fields>
struct TupleBytes<std::tuple<Fields...>> {
  static constexpr size_t kMax =
      (size_t{0} + ... + FieldCodec<std::remove_cvref_t<Fields>>::kMaxBytes);
};
// An upper bound of the encoded size of the struct's fields.
template <typename T>
inline constexpr size_t kMaxFieldBytes =
    TupleBytes<decltype(T::Fields(std::declval<const T&>()))>::kMax;

template <typename T, size_t kBound>
struct FieldCodec<List<T, kBound>> {
  static constexpr size_t kMaxBytes = FieldCodec<uint64_t>::kMaxBytes + kBound * kMaxFieldBytes<T>;
  static void Put(Writer& out, const List<T, kBound>& list) {
    out.Put<uint64_t>(list.items.size());
    for (const T& item : list.items) PutFields(out, item);
  }
  static void Get(Reader& in, List<T, kBound>* list) {
    const size_t count = in.GetCount(1);
    if (count > kBound) return in.Fail();
    list->items.clear();
    for (size_t i = 0; i < count && in.ok(); ++i) GetFields(in, &list->items.emplace_back());
  }
};

}  // namespace farcall::server::control
