// SPDX-License-Identifier: Apache-2.0
// What the cases of matrices share: elements, their bits, and a kernel's begin.
#pragma once

#include <cstring>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/small_float.h"

namespace farcall::cpu_device::ptx_corpus {

using Word = uint32_t;
inline constexpr unsigned kLanes = 32;

inline int Element(unsigned row, unsigned col, unsigned salt, bool is_signed) {
  int v = static_cast<int>((row * 7 + col * 3 + salt * 5 + row * col) % 7);
  return is_signed ? v - 3 : v;
}

inline std::string List(const std::string& prefix, unsigned count) {
  std::string s = "{";
  for (unsigned i = 0; i < count; ++i) s += (i ? ", " : "") + prefix + std::to_string(i);
  return s + "}";
}

inline constexpr char kProlog[] =
    ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p_d, .param .u64 "
    "p_a, .param .u64 p_b, .param .u64 p_c)\n{\n"
    "  .reg .b32 %lane, %t<8>, %a<8>, %b<8>, %c<8>, %d<8>;\n  .reg .b64 %rd<8>, %off, %at, %wa<8>, "
    "%wb<8>, %wc<8>, %wd<8>;\n"
    "  mov.u32 %lane, %tid.x;\n  ld.param.u64 %rd1, [p_d];\n  ld.param.u64 %rd2, [p_a];\n  "
    "ld.param.u64 %rd3, [p_b];\n  ld.param.u64 %rd4, [p_c];\n";

inline uint64_t AsHalf(int v) {
  return EncodeSmall(kF16, v);
}
inline uint64_t AsBfloat(int v) {
  return EncodeSmall(kBf16, v);
}
inline uint64_t AsE4m3(int v) {
  return EncodeSmall(kF8e4m3, v);
}
inline uint64_t AsE5m2(int v) {
  return EncodeSmall(kF8e5m2, v);
}
inline uint64_t AsNibble(int v) {
  return static_cast<uint64_t>(v & 15);
}
inline uint64_t AsBit(int v) {
  return static_cast<uint64_t>(v & 1);
}
inline uint64_t AsByte(int v) {
  return static_cast<uint8_t>(v);
}
inline uint64_t AsInt(int v) {
  return static_cast<uint32_t>(v);
}
inline uint64_t AsFloat(int v) {
  float f = static_cast<float>(v);
  Word w;
  std::memcpy(&w, &f, 4);
  return w;
}
inline uint64_t AsDouble(int v) {
  double f = v;
  uint64_t w;
  std::memcpy(&w, &f, 8);
  return w;
}

}  // namespace farcall::cpu_device::ptx_corpus
