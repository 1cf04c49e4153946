// SPDX-License-Identifier: Apache-2.0
// Collection, comparison, and the elementwise kernel's text.
#include "tests/ptx/corpus/corpus.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tests/ptx/corpus/elementwise.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

constexpr uint32_t kBlock = 64;

// Value of element `i`; small formats by their definition.
double Value(Match match, const uint8_t* bytes, size_t i) {
  switch (match) {
    case Match::kF32: {
      float f;
      std::memcpy(&f, bytes + 4 * i, 4);
      return f;
    }
    case Match::kF64: {
      double d;
      std::memcpy(&d, bytes + 8 * i, 8);
      return d;
    }
    case Match::kBf16: {
      uint32_t word = 0;
      std::memcpy(reinterpret_cast<uint8_t*>(&word) + 2, bytes + 2 * i, 2);
      float f;
      std::memcpy(&f, &word, 4);
      return f;
    }
    default:
      break;
  }
  uint16_t half;
  std::memcpy(&half, bytes + 2 * i, 2);
  int exponent = half >> 10 & 31, mantissa = half & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                  : std::ldexp(mantissa + 1024, exponent - 25);
  return half >> 15 ? -value : value;
}

size_t WidthOf(Match match) {
  switch (match) {
    case Match::kExact:
      return 1;
    case Match::kF16:
    case Match::kBf16:
      return 2;
    case Match::kF32:
      return 4;
    default:
      return 8;
  }
}

bool Near(double want, double got, double tolerance) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (want == got) return tolerance > 0 || std::signbit(want) == std::signbit(got);
  if (std::isinf(want) || std::isinf(got)) return false;
  return std::fabs(want - got) <= tolerance * std::fabs(want);
}

// The ISA does not say which zero .relu makes of a negative zero.
void LetClampedZerosHaveEitherSign(Case* c) {
  const bool clamps = c->name.find("relu.") != std::string::npos;
  for (Argument& argument : c->arguments)
    if (clamps && argument.match != Match::kExact)
      argument.relative_tolerance = std::max(argument.relative_tolerance, 1e-300);
}

}  // namespace

std::string Compare(const Argument& argument, const uint8_t* got) {
  const size_t width = WidthOf(argument.match);
  const uint8_t* want = argument.expected.data();
  char text[160];
  for (size_t i = 0; i < argument.expected.size() / width; ++i) {
    if (argument.match == Match::kExact) {
      if (want[i] == got[i]) continue;
      std::snprintf(text, sizeof text, "byte %zu: want %02x, got %02x", i, want[i], got[i]);
      return text;
    }
    double w = Value(argument.match, want, i), g = Value(argument.match, got, i);
    if (Near(w, g, argument.relative_tolerance)) continue;
    std::snprintf(text, sizeof text, "element %zu: want %.17g (%a), got %.17g (%a)", i, w, w, g, g);
    return text;
  }
  return {};
}

std::string ElementwiseModule(const std::string& body, Slot d, const std::vector<Slot>& sources) {
  std::string text =
      ".version 8.6\n.target sm_90\n.address_size 64\n\n"
      ".visible .entry k(.param .u64 p_d, .param .u64 p_a, .param .u64 p_b, .param .u64 p_c,\n"
      "                  .param .u32 p_n)\n{\n"
      "  .reg .pred %p, %q, %pp;\n  .reg .b32 %i, %n, %bx, %bd, %t<8>;\n  .reg .b64 %addr, %off, "
      "%u<8>;\n"
      "  .reg .b16 %h<8>;\n  .reg .f32 %f<8>;\n  .reg .f64 %g<8>;\n";
  text += "  .reg ." + std::string(d.reg) + " %d;\n";
  const char* names[] = {"a", "b", "c"};
  for (size_t i = 0; i < sources.size(); ++i)
    text += "  .reg ." + std::string(sources[i].reg) + " %" + names[i] + ";\n";
  text +=
      "  mov.u32 %i, %tid.x;\n  mov.u32 %bx, %ctaid.x;\n  mov.u32 %bd, %ntid.x;\n"
      "  mad.lo.s32 %i, %bx, %bd, %i;\n  ld.param.u32 %n, [p_n];\n"
      "  setp.ge.u32 %p, %i, %n;\n  @%p bra DONE;\n";
  auto address = [](const char* name, unsigned bytes) {
    return "  ld.param.u64 %addr, [p_" + std::string(name) +
           "];\n  cvta.to.global.u64 %addr, %addr;\n" + "  mul.wide.u32 %off, %i, " +
           std::to_string(bytes) + ";\n  add.s64 %addr, %addr, %off;\n";
  };
  for (size_t i = 0; i < sources.size(); ++i) {
    text += address(names[i], sources[i].bytes) + "  ld.global." + sources[i].memory + " %" +
            names[i] + ", [%addr];\n";
  }
  text += "  " + body + "\n";
  text += address("d", d.bytes) + "  st.global." + d.memory + " [%addr], %d;\n";
  return text + "DONE:\n  ret;\n}\n";
}

Case ElementwiseCase(const std::string& name, const std::string& body, size_t count, Slot d,
                     const std::vector<Slot>& sources) {
  Case c;
  c.name = name;
  c.ptx = ElementwiseModule(body, d, sources);
  c.block.x = kBlock;
  c.grid.x = static_cast<uint32_t>((count + kBlock - 1) / kBlock);
  c.arguments.resize(4, Scalar<uint64_t>(0));
  c.arguments.push_back(Scalar(static_cast<uint32_t>(count)));
  return c;
}

const std::vector<Case>& AllCases() {
  static const auto& cases = *new std::vector<Case>([] {
    std::vector<Case> all;
    AddIntegerCases(&all);
    AddBitCases(&all);
    AddVideoCases(&all);
    AddFloatCases(&all);
    AddHalfCases(&all);
    AddCompareCases(&all);
    AddConvertCases(&all);
    AddMemoryCases(&all);
    AddAtomicCases(&all);
    AddWarpCases(&all);
    AddControlCases(&all);
    AddMatrixCases(&all);
    AddWmmaCases(&all);
    AddAsyncCases(&all);
    AddLibraryCases(&all);
    AddMpfrCases(&all);
    AddTransferCases(&all);
    for (Case& c : all) LetClampedZerosHaveEitherSign(&c);
    return all;
  }());
  return cases;
}

}  // namespace farcall::cpu_device::ptx_corpus
