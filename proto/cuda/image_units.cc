// SPDX-License-Identifier: Apache-2.0
#include "proto/cuda/image_units.h"

#include <cstdint>
#include <cstring>

namespace farcall {

namespace {

constexpr uint64_t kMagic = 0x3153'5449'4e55'4346;  // "FCUNITS1"
constexpr size_t kAlign = sizeof(uint64_t);

void PutNumber(std::vector<std::byte>* out, uint64_t value) {
  const size_t at = out->size();
  out->resize(at + sizeof(value));
  std::memcpy(out->data() + at, &value, sizeof(value));
}

uint64_t NumberAt(std::span<const std::byte> bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

}  // namespace

std::vector<std::byte> JoinImageUnits(std::span<const std::vector<std::byte>> units) {
  std::vector<std::byte> out;
  PutNumber(&out, kMagic);
  for (const std::vector<std::byte>& unit : units) {
    PutNumber(&out, unit.size());
    out.insert(out.end(), unit.begin(), unit.end());
    out.resize((out.size() + kAlign - 1) / kAlign * kAlign);
  }
  return out;
}

bool HoldsImageUnits(std::span<const std::byte> image) {
  return image.size() >= sizeof(kMagic) && NumberAt(image) == kMagic;
}

bool SplitImageUnits(std::span<const std::byte> image,
                     std::vector<std::span<const std::byte>>* units) {
  units->clear();
  if (!HoldsImageUnits(image)) return false;
  std::span<const std::byte> rest = image.subspan(sizeof(kMagic));
  while (!rest.empty()) {
    if (rest.size() < sizeof(uint64_t)) return false;
    const uint64_t bytes = NumberAt(rest);
    rest = rest.subspan(sizeof(bytes));
    if (bytes == 0 || bytes > rest.size()) return false;
    units->push_back(rest.first(bytes));
    const uint64_t padding = (kAlign - bytes % kAlign) % kAlign;
    if (padding > rest.size() - bytes) return false;
    rest = rest.subspan(bytes + padding);
  }
  return !units->empty();
}

}  // namespace farcall
