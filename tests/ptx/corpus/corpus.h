// SPDX-License-Identifier: Apache-2.0
// Tiny PTX kernels with the bytes they must produce. Every executor of PTX runs them: the
// interpreter, the JIT, a real GPU.
//
// To add a case: append to one of the files of this folder (by theme), most easily with
// Unary/Binary/Ternary of elementwise.h, which need only the instruction text, input values and a
// host function for the expected value. For anything else fill a Case: the whole module's text,
// geometry, and one Argument per kernel parameter in order. Expected values come from plain host
// arithmetic in the case itself, never from an executor's output. Names are unique and start with
// the mnemonic under test.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace farcall::cpu_device::ptx_corpus {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

// How an output is compared. Floating ones take any NaN for any NaN and need not differ in bits to
// be equal otherwise.
enum class Match { kExact, kF16, kBf16, kF32, kF64 };

// What a texture or surface object reads: texels of four channels of 32 bits, row after row.
// Coordinates are in texels and clamped.
struct Image {
  bool is_surface = false, is_float = true, is_linear = false, is_layered = false, is_cube = false;
  uint32_t dimensions = 2, width = 1, height = 1, depth = 1;  // depth: or layers, or faces
};

struct Argument {
  enum class Kind { kScalar, kInput, kOutput, kImage };
  Kind kind = Kind::kScalar;
  Image image;                    // kImage: passed as the object's handle
  std::vector<uint8_t> bytes;     // the scalar itself, or what the buffer holds before the launch
  std::vector<uint8_t> expected;  // kOutput, kImage: what it holds after; same size as bytes
  Match match = Match::kExact;
  double relative_tolerance =
      0;  // of kF32/kF64/kF16/kBf16; 0 = equal values (and equal zeros' signs)
};

struct Case {
  std::string name;
  std::string ptx;
  std::string kernel = "k";
  Dim3 grid, block, cluster;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<Argument> arguments;  // buffers are passed as 64-bit addresses
  std::string expected_output;      // what device printf writes
};

// Every case of every file.
const std::vector<Case>& AllCases();

// Empty if `got` (as many bytes as expected) matches; else which element differs and how.
std::string Compare(const Argument& argument, const uint8_t* got);

// Builders of arguments.
template <typename T>
std::vector<uint8_t> BytesOf(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <typename T>
Argument Scalar(T value) {
  Argument a;
  a.bytes = BytesOf(std::vector<T>{value});
  return a;
}
template <typename T>
Argument Input(const std::vector<T>& values) {
  Argument a;
  a.kind = Argument::Kind::kInput;
  a.bytes = BytesOf(values);
  return a;
}
// Starts as `before`, ends as `after`.
template <typename T>
Argument InOut(const std::vector<T>& before, const std::vector<T>& after) {
  Argument a;
  a.kind = Argument::Kind::kOutput;
  a.bytes = BytesOf(before);
  a.expected = BytesOf(after);
  return a;
}
// Starts filled with 0xCD, so that an element never written shows.
template <typename T>
Argument Output(const std::vector<T>& after) {
  Argument a;
  a.kind = Argument::Kind::kOutput;
  a.expected = BytesOf(after);
  a.bytes.assign(a.expected.size(), 0xcd);
  return a;
}

}  // namespace farcall::cpu_device::ptx_corpus
