// SPDX-License-Identifier: Apache-2.0
// Video instructions of words, halves and bytes, but shifts.
#include <algorithm>
#include <cstdlib>

#include "tests/ptx/corpus/elementwise.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

struct Form {
  std::string name;  // vadd, vset
  std::string compare;
  unsigned lanes;
  bool d_signed, a_signed, b_signed, sat;
  std::string second;
};

int64_t PartOf(uint32_t word, unsigned lane, unsigned bits, bool is_signed) {
  const uint64_t part = uint64_t{word} >> (lane * bits) & ((uint64_t{1} << bits) - 1);
  const bool negative = is_signed && (part >> (bits - 1) & 1);
  return static_cast<int64_t>(part) - (negative ? int64_t{1} << bits : 0);
}

int64_t Apply(const Form& form, int64_t a, int64_t b) {
  if (form.name == "vadd") return a + b;
  if (form.name == "vsub") return a - b;
  if (form.name == "vabsdiff") return std::abs(a - b);
  if (form.name == "vmin") return std::min(a, b);
  if (form.name == "vmax") return std::max(a, b);
  if (form.name == "vavrg") return a + b >= 0 ? (a + b + 1) / 2 : (a + b - 1) / 2;
  if (form.compare == "eq") return a == b;
  if (form.compare == "ne") return a != b;
  if (form.compare == "lt") return a < b;
  if (form.compare == "le") return a <= b;
  if (form.compare == "gt") return a > b;
  return a >= b;
}

uint32_t Expected(const Form& form, uint32_t a, uint32_t b, uint32_t c) {
  const unsigned bits = 32 / form.lanes;
  const int64_t size = int64_t{1} << bits;
  uint32_t merged = 0, sum = c;
  for (unsigned lane = 0; lane < form.lanes; ++lane) {
    int64_t part =
        Apply(form, PartOf(a, lane, bits, form.a_signed), PartOf(b, lane, bits, form.b_signed));
    if (form.sat) {
      part = form.d_signed ? std::clamp(part, -size / 2, size / 2 - 1)
                           : std::clamp(part, int64_t{0}, size - 1);
    }
    sum += static_cast<uint32_t>(part);
    merged |= static_cast<uint32_t>(static_cast<uint64_t>(part & (size - 1)) << (lane * bits));
  }
  if (form.second == "add") return sum;
  if (form.second.empty()) return merged;
  const bool first =
      form.d_signed ? static_cast<int32_t>(merged) < static_cast<int32_t>(c) : merged < c;
  return first == (form.second == "min") ? merged : c;
}

void Add(const Form& form, Cases* out) {
  auto type = [](bool is_signed) { return std::string(is_signed ? ".s32" : ".u32"); };
  const bool sets = !form.compare.empty();
  std::string op = form.name + (form.lanes > 1 ? std::to_string(form.lanes) : "") +
                   (sets ? "" : type(form.d_signed)) + type(form.a_signed) + type(form.b_signed) +
                   (sets ? "." + form.compare : "") + (form.sat ? ".sat" : "") +
                   (form.second.empty() ? "" : "." + form.second);
  const bool has_c = form.lanes > 1 || !form.second.empty();
  const std::vector<uint32_t> v{0, 0x00ff7f80, 0x80000000, 0x7fffffff, 0xffffffff, 0xdeadbeef},
      more{0, 0x80000003};
  out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
      op, op + (has_c ? " %d, %a, %b, %c;" : " %d, %a, %b;"), v, v, more,
      [form](uint32_t a, uint32_t b, uint32_t c) { return Expected(form, a, b, c); }));
}

}  // namespace

void AddVideoCases(Cases* out) {
  for (const unsigned lanes : {1u, 2u, 4u}) {
    for (const bool is_signed : {false, true}) {
      for (const std::string name : {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"}) {
        if (name == "vavrg" && lanes == 1) continue;
        Form form{name, "", lanes, is_signed, is_signed, is_signed, false, ""};
        Add(form, out);
        form.second = "add";
        Add(form, out);
        if (lanes == 1) {
          form.second = "min";
          Add(form, out);
          form.second = "max";
          Add(form, out);
        }
        form.second = "";
        form.sat = true;
        Add(form, out);
        form.b_signed = !is_signed;
        Add(form, out);
      }
      for (const std::string compare : {"eq", "ne", "lt", "le", "gt", "ge"}) {
        Form form{"vset", compare, lanes, false, is_signed, is_signed, false, ""};
        Add(form, out);
        form.second = "add";
        Add(form, out);
        form.b_signed = !is_signed;
        form.second = "";
        Add(form, out);
      }
    }
  }
}

}  // namespace farcall::cpu_device::ptx_corpus
