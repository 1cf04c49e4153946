// SPDX-License-Identifier: Apache-2.0
// Video instructions of words, halves and bytes, part by part.
#include <algorithm>
#include <cstdlib>

#include "tests/ptx/interpreter/core.h"

namespace farcall::cpu_device::ptx_interpreter {
namespace {

bool Holds(ptx::Compare compare, int64_t a, int64_t b) {
  switch (compare) {
    case ptx::Compare::kEq:
      return a == b;
    case ptx::Compare::kNe:
      return a != b;
    case ptx::Compare::kLt:
      return a < b;
    case ptx::Compare::kLe:
      return a <= b;
    case ptx::Compare::kGt:
      return a > b;
    default:
      return a >= b;
  }
}

bool Result(const ptx::Instruction& in, std::string_view name, int64_t a, int64_t b,
            int64_t* result) {
  if (name == "vadd") return *result = a + b, true;
  if (name == "vsub") return *result = a - b, true;
  if (name == "vabsdiff") return *result = std::abs(a - b), true;
  if (name == "vmin") return *result = std::min(a, b), true;
  if (name == "vmax") return *result = std::max(a, b), true;
  if (name == "vavrg") return *result = (a + b + (a + b >= 0)) >> 1, true;
  if (name == "vset") return *result = Holds(in.mods.compare, a, b), true;
  return false;
}

}  // namespace

bool Core::Video() {
  std::string_view name = in_.Part(0);
  const unsigned lanes = name.ends_with('4') ? 4 : name.ends_with('2') ? 2 : 1, bits = 32 / lanes;
  if (lanes > 1) name.remove_suffix(1);
  int64_t part = 0;
  if (!name.starts_with('v') || !Result(in_, name, 0, 0, &part)) return false;
  const bool sets = name == "vset";
  const bool is_signed = !sets && ptx::IsSigned(mods_.types[0]);
  const Type of_a = mods_.types[sets ? 0 : 1], of_b = mods_.types[sets ? 1 : 2];
  const bool adds = in_.Has("add"), least = in_.Has("min"), most = in_.Has("max");
  const auto words = static_cast<unsigned>(OperandCount());
  if (words != (lanes > 1 || adds || least || most ? 4u : 3u)) Unsupported();
  auto word = [&](unsigned i) { return static_cast<uint32_t>(Read(Op(i), Type::kB32)); };
  auto part_of = [&](uint32_t from, unsigned lane, Type type) {
    const uint64_t value = MaskBits(from >> (lane * bits), bits);
    return ptx::IsSigned(type) ? SignExtend(value, bits) : static_cast<int64_t>(value);
  };
  const int64_t top = int64_t{1} << (is_signed ? bits - 1 : bits);
  const uint32_t c = words == 4 ? word(3) : 0;
  uint32_t merged = 0, sum = c;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Result(in_, name, part_of(word(1), lane, of_a), part_of(word(2), lane, of_b), &part);
    if (mods_.sat) part = std::clamp<int64_t>(part, is_signed ? -top : 0, top - 1);
    sum += static_cast<uint32_t>(part);
    merged |= static_cast<uint32_t>(MaskBits(static_cast<uint64_t>(part), bits) << (lane * bits));
  }
  if (adds) merged = sum;
  if (least || most) {
    const bool less =
        is_signed ? static_cast<int32_t>(merged) < static_cast<int32_t>(c) : merged < c;
    if (less != least) merged = c;
  }
  Write(Op(0), Type::kB32, merged);
  return true;
}

}  // namespace farcall::cpu_device::ptx_interpreter
