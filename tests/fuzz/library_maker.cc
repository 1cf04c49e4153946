// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/library_maker.h"

#include <algorithm>

#include "proto/library/library_blob.h"
#include "proto/wire.h"
#include "server/library/library_call.h"
#include "tests/fuzz/library_maker_hand.h"

namespace farcall::fuzz {

namespace {

constexpr uint64_t kMaxInBytes = 2048;
constexpr uint64_t kBlob = 7;
constexpr int kMaxDepth = 3;
constexpr size_t kSweptRows = 20;

uint16_t LibraryMessage() {
  return static_cast<uint16_t>(SessionCall::kLibrary);
}

}  // namespace

#define FARCALL_LIBRARY(constant) extern const MakerRow* const k##constant##Makers;
#include "fuzz_libraries.inc"
#undef FARCALL_LIBRARY

std::span<const MakerRow> MakerRows() {
  static const std::vector<MakerRow> all = [] {
    std::vector<MakerRow> rows;
#define FARCALL_LIBRARY(constant) \
  for (const MakerRow* row = k##constant##Makers; row->name != nullptr; ++row) rows.push_back(*row);
#include "fuzz_libraries.inc"
#undef FARCALL_LIBRARY
    rows.insert(rows.end(), MakersByHand().begin(), MakersByHand().end());
    return rows;
  }();
  return all;
}

std::vector<Item> Program::Run() {
  const std::span<const MakerRow> rows = MakerRows();
  while (!choices_.empty() && items_.size() < kMaxRecords) {
    const size_t pick = choices_.Next() + 256u * choices_.Next();
    if (pick >= 65000) {
      AppendBlob();
    } else if (pick >= 64000) {  // a run of them: what a corpus reaches all by
      const size_t first = choices_.Next() + 256u * choices_.Next();
      for (size_t i = 0; i < kSweptRows; ++i) Append(rows[(first + i) % rows.size()]);
    } else {
      Append(rows[pick % rows.size()]);
    }
  }
  return std::move(items_);
}

void Program::Append(const MakerRow& row) {
  if (items_.size() >= kMaxRecords) return;
  Maker maker(*this, row);
  row.make(maker);
  Item item;
  const uint8_t flags = choices_.Next();
  item.header = {LibraryMessage(), static_cast<uint16_t>((flags & 1) == 0 ? kWantReply : 0), 1,
                 static_cast<uint16_t>((flags & 2) == 0 ? 1 : 1 + (flags >> 6) % 3), 0};
  if ((flags & 4) != 0) item.header.flags |= kSameFrame;
  if ((flags & 8) != 0) item.header.flags |= kBusy;
  std::span<const std::byte> body = maker.body_.bytes();
  const auto* bytes = reinterpret_cast<const uint8_t*>(body.data());
  item.body.assign(bytes, bytes + body.size());
  if (flags >= 250 && !item.body.empty())  // of another length
    item.body.resize(flags % 2 == 0 ? item.body.size() / 2 : item.body.size() + 8);
  items_.push_back(std::move(item));
}

void Program::AppendBlob() {
  Builder body;
  body.Put<uint64_t>(0);
  body.Put<uint32_t>(uint32_t{kLibraryPut} << 16 | 1);
  body.Put<uint32_t>(0);
  body.Put<uint64_t>(kBlob);
  const std::vector<uint8_t> bytes(8u * choices_.Next(), choices_.Next());
  body.PutBytes(bytes.data(), bytes.size());
  Item item{{LibraryMessage(), 0, 1, 1, 0}, {}};
  const auto* at = reinterpret_cast<const uint8_t*>(body.bytes().data());
  item.body.assign(at, at + body.bytes().size());
  items_.push_back(std::move(item));
}

uint64_t Program::NewName(uint16_t kind) {
  const uint64_t name = uint64_t{kind} << 48 | ++last_serial_;
  names_[kind].push_back(name);
  return name;
}

uint64_t Program::Named(uint16_t kind) {
  std::vector<uint64_t>& names = names_[kind];
  const uint8_t which = choices_.Next();
  if ((names.empty() || which >= 250) && depth_ < kMaxDepth) {
    for (const MakerRow& row : MakerRows()) {
      if (row.makes == kind) {
        ++depth_;
        Append(row);
        --depth_;
        break;
      }
    }
  }
  if (names.empty()) return uint64_t{kind} << 48 | 1;
  return names[names.size() - 1 - which % names.size()];
}

Maker::Maker(Program& program, const MakerRow& row) : program_(program) {
  const uint8_t how = program.choices_.Next();
  const uint64_t streams[] = {
      0, 1, 2, MakeHandle(HandleKind::kStream, 1, 1), MakeHandle(HandleKind::kStream, 2, 1),
      0, 0, 0};
  pointer_mode_ = how >> 3 & 1;
  body_.Put<uint64_t>(streams[how & 7]);
  body_.Put<uint8_t>(static_cast<uint8_t>(row.library));
  body_.Put<uint8_t>(13);
  body_.Put<uint16_t>(row.function);
  body_.Put<uint8_t>(pointer_mode_);
  for (int i = 0; i < 3; ++i) body_.Put<uint8_t>(0);
}

uint64_t Maker::Number() {
  const uint8_t choice = program_.choices_.Next();
  if (choice < 128) return choice % 96;
  const uint64_t numbers[] = {~uint64_t{0},
                              uint64_t{1} << 31,
                              (uint64_t{1} << 31) - 1,
                              uint64_t{1} << 32,
                              uint64_t{1} << 62,
                              uint64_t{1} << 63,
                              uint64_t{1} << 61,
                              uint64_t{1} << 20,
                              uint64_t{1} << 24,
                              1000,
                              100,
                              110,
                              120,
                              kWindowBase,
                              SecretAddress(),
                              uint64_t{1} << 29};
  return numbers[choice % 16] + (choice >= 240 ? choice % 3 : 0);
}

uint64_t Maker::AnAddress() {
  const uint8_t choice = program_.choices_.Next();
  if (choice < 160) return kWindowBase + 256u * choice;
  const uint64_t addresses[] = {0,
                                kWindowBase + kWindowBytes - 1,
                                kWindowBase + kWindowBytes,
                                kWindowBase + kWindowBytes - 8,
                                kWindowBase - 1,
                                kWindowBase - 8,
                                SecretAddress(),
                                SecretAddress() + 4096,
                                SecretAddress() + 8,
                                0x1000,
                                ~uint64_t{0},
                                ~uint64_t{0} - 15,
                                uint64_t{1} << 63,
                                kWindowBase + kCreditBytes,
                                kWindowBase + kCreditBytes - 1,
                                kWindowBase + 3};
  return addresses[choice % 16];
}

void Maker::Object(std::initializer_list<uint16_t> kinds, bool may_be_null) {
  const uint8_t choice = program_.choices_.Next();
  if (may_be_null && choice % 4 == 3) {
    body_.Put<uint64_t>(0);
    return;
  }
  uint16_t kind = kinds.begin()[choice / 4 % kinds.size()];
  if (choice >= 252) kind = static_cast<uint16_t>(kind ^ (choice & 3));  // of another kind
  const uint64_t name = program_.Named(kind);
  first_object_ = first_object_ == 0 ? name : first_object_;
  body_.Put<uint64_t>(name);
}

void Maker::OnDevice(uint64_t bytes) {
  const uint8_t choice = program_.choices_.Next();
  if (choice >= 252) return In(bytes);  // the other form
  body_.Put<uint64_t>(choice % 16 == 15 ? kLibraryNull : kLibraryOnDevice);
  if (choice % 16 != 15) body_.Put<uint64_t>(AnAddress());
}

void Maker::In(uint64_t bytes) {
  const uint8_t choice = program_.choices_.Next();
  if (choice >= 254) {  // where it must not be
    body_.Put<uint64_t>(kLibraryOnDevice);
    body_.Put<uint64_t>(AnAddress());
    return;
  }
  if (choice >= 250) {
    body_.Put<uint64_t>(kLibraryInBlob);
    body_.Put<uint64_t>(kBlob);
    return;
  }
  if (choice % 32 == 31 || bytes > kMaxInBytes) {
    body_.Put<uint64_t>(kLibraryNull);
    return;
  }
  body_.Put<uint64_t>(choice == 249 ? bytes + 8 : bytes);
  // A few numbers, over and over: sizes, offsets that rise, an address.
  const uint8_t fill = bytes == 0 ? 0 : program_.choices_.Next();
  for (uint64_t i = 0; i < bytes; ++i) {
    const uint64_t word = fill < 64    ? (i % 4 == 0 ? fill : 0)
                          : fill < 128 ? (i % 4 == 0 ? i / 4 * (fill % 4) : 0)
                          : fill < 160 ? SecretAddress() >> i % 8 * 8
                                       : fill;
    body_.Put<uint8_t>(static_cast<uint8_t>(word));
  }
}

void Maker::Result(uint64_t bytes) {
  if (pointer_mode_ != 0) return OnDevice(bytes);
  const uint8_t choice = program_.choices_.Next();
  if (choice >= 252) return OnDevice(bytes);
  body_.Put<uint64_t>(choice == 251 ? 4096 : choice % 16 == 15 ? kLibraryNull : bytes);
}

void Maker::Target(uint16_t host_kind) {
  if (LibraryObjectKind(first_object_) == host_kind)
    Out();
  else
    Address();
}

void Maker::Text() {
  const uint64_t bytes = program_.choices_.Next() % 64;
  body_.Put<uint64_t>(bytes);
  for (uint64_t i = 0; i < bytes; ++i) body_.Put<uint8_t>('a' + i % 26);
}

}  // namespace farcall::fuzz
