// SPDX-License-Identifier: Apache-2.0
// cvt between all scalar types, with rounding and saturation; packed conversions; register
// widening.
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/small_float.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using I128 = __int128;

template <typename T>
std::string TypeName() {
  if constexpr (std::is_same_v<T, float>) return "f32";
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, Half>) return "f16";
  return (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T));
}

template <typename To, typename From>
void AddIntegerPair(Cases* out) {
  const auto v = Integers<From>();
  const std::string types = TypeName<To>() + "." + TypeName<From>();
  using L = std::numeric_limits<To>;
  out->push_back(Unary<To, From>("cvt." + types, "cvt." + types + " %d, %a;", v,
                                 [](From a) { return static_cast<To>(a); }));
  out->push_back(Unary<To, From>(
      "cvt.sat." + types, "cvt.sat." + types + " %d, %a;", v,
      [](From a) { return static_cast<To>(std::clamp<I128>(a, L::min(), L::max())); }));
}

template <typename To>
void AddIntegersTo(Cases* out) {
  AddIntegerPair<To, int8_t>(out);
  AddIntegerPair<To, uint8_t>(out);
  AddIntegerPair<To, int16_t>(out);
  AddIntegerPair<To, uint16_t>(out);
  AddIntegerPair<To, int32_t>(out);
  AddIntegerPair<To, uint32_t>(out);
  AddIntegerPair<To, int64_t>(out);
  AddIntegerPair<To, uint64_t>(out);
}

double RoundIntegral(double x, const std::string& mode) {
  if (mode == "rni") return std::nearbyint(x);
  if (mode == "rzi") return std::trunc(x);
  return mode == "rmi" ? std::floor(x) : std::ceil(x);
}

// Out of range clamps; NaN is 0, or the top bit alone if a 64-bit type takes part.
template <typename To, typename From>
To ToInteger(From a, const std::string& mode) {
  using L = std::numeric_limits<To>;
  if (std::isnan(a)) {
    bool wide = sizeof(From) == 8 || sizeof(To) == 8;
    return wide ? static_cast<To>(uint64_t{1} << (8 * sizeof(To) - 1)) : To(0);
  }
  double r = RoundIntegral(a, mode);
  if (r <= static_cast<double>(L::min())) return L::min();
  if (r >= std::ldexp(1.0, L::digits)) return L::max();
  return static_cast<To>(r);
}

template <typename To, typename From>
void AddToInteger(Cases* out, std::vector<From> v) {
  // What a NaN double gives in fewer than 32 bits the ISA's text leaves unclear.
  if (sizeof(From) == 8 && sizeof(To) < 4) std::erase_if(v, [](From a) { return std::isnan(a); });
  for (const std::string mode : {"rni", "rzi", "rmi", "rpi"}) {
    const std::string op = "cvt." + mode + "." + TypeName<To>() + "." + TypeName<From>();
    out->push_back(Unary<To, From>(op, op + " %d, %a;", v,
                                   [=](From a) { return ToInteger<To, From>(a, mode); }));
  }
}

template <typename From>
void AddFloatToIntegers(Cases* out, std::vector<From> v) {
  for (double x : {0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, -128.5, 255.5, 32767.5, 65535.5,
                   2147483647.0, -2147483648.0, 4294967295.0, 9.2e18, -9.3e18, 1.8e19, 1e30})
    v.push_back(static_cast<From>(x));
  AddToInteger<int8_t, From>(out, v);
  AddToInteger<uint8_t, From>(out, v);
  AddToInteger<int16_t, From>(out, v);
  AddToInteger<uint16_t, From>(out, v);
  AddToInteger<int32_t, From>(out, v);
  AddToInteger<uint32_t, From>(out, v);
  AddToInteger<int64_t, From>(out, v);
  AddToInteger<uint64_t, From>(out, v);
}

// Nearest by the host's conversion; the directed modes from which side the exact integer lies on.
template <typename To, typename From>
To FromInteger(From a, const std::string& mode) {
  To nearest = static_cast<To>(a);
  const double limit = std::ldexp(1.0, 8 * sizeof(From));
  I128 back = static_cast<double>(nearest) >= limit ? I128{1} << (8 * sizeof(From))
                                                    : static_cast<I128>(nearest);
  bool above = back > I128{a}, below = back < I128{a};
  bool down = mode == "rm" || (mode == "rz" && a > 0), up = mode == "rp" || (mode == "rz" && a < 0);
  if (mode == "rn") return nearest;
  if (above && down) return std::nextafter(nearest, -static_cast<To>(INFINITY));
  if (below && up) return std::nextafter(nearest, static_cast<To>(INFINITY));
  return nearest;
}

template <typename To, typename From>
void AddFromInteger(Cases* out) {
  std::vector<From> v = Integers<From>();
  for (uint64_t x :
       {16777217ull, 16777219ull, 9007199254740993ull, 9007199254740995ull, 0x7fffffbfffffffffull})
    if (x <= static_cast<uint64_t>(std::numeric_limits<From>::max()))
      v.push_back(static_cast<From>(x));
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    const std::string op = "cvt." + mode + "." + TypeName<To>() + "." + TypeName<From>();
    out->push_back(Unary<To, From>(op, op + " %d, %a;", v,
                                   [=](From a) { return FromInteger<To, From>(a, mode); }));
  }
}

template <typename To>
void AddFromIntegers(Cases* out) {
  AddFromInteger<To, int8_t>(out);
  AddFromInteger<To, uint8_t>(out);
  AddFromInteger<To, int16_t>(out);
  AddFromInteger<To, uint16_t>(out);
  AddFromInteger<To, int32_t>(out);
  AddFromInteger<To, uint32_t>(out);
  AddFromInteger<To, int64_t>(out);
  AddFromInteger<To, uint64_t>(out);
}

float NarrowDouble(double x, const std::string& mode) {
  float nearest = static_cast<float>(x);
  if (mode == "rn" || std::isnan(x) || std::isinf(x)) return nearest;
  bool down = mode == "rm" || (mode == "rz" && x > 0), up = mode == "rp" || (mode == "rz" && x < 0);
  if (nearest > x && down) return std::nextafter(nearest, -INFINITY);
  if (nearest < x && up) return std::nextafter(nearest, INFINITY);
  return nearest;
}

template <typename T>
T Clamp01(T x) {
  return x > 0 ? std::min(x, T(1)) : T(0);
}

void AddFloatPairs(Cases* out) {
  auto doubles = Doubles();
  for (double x : {1e-45, 1.0000000596046448, 3.4028235677973366e38, -0.1, 1e-320})
    doubles.push_back(x);
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    const std::string op = "cvt." + mode + ".f32.f64";
    out->push_back(Unary<float, double>(op, op + " %d, %a;", doubles,
                                        [=](double a) { return NarrowDouble(a, mode); }));
  }
  out->push_back(Unary<double, float>("cvt.f64.f32", "cvt.f64.f32 %d, %a;", Floats(),
                                      [](float a) { return double{a}; }));
  out->push_back(Unary<float, float>("cvt.sat.f32.f32", "cvt.sat.f32.f32 %d, %a;", Floats(),
                                     [](float a) { return Clamp01(a); }));
  out->push_back(Unary<float, float>(
      "cvt.ftz.f32.f32", "cvt.ftz.f32.f32 %d, %a;", Floats(),
      [](float a) { return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0f, a) : a; }));
  auto integral = Floats();
  for (float x : {0.5f, 1.5f, 2.5f, -0.5f, -0.4f, 8388607.5f}) integral.push_back(x);
  for (const std::string mode : {"rni", "rzi", "rmi", "rpi"}) {
    out->push_back(Unary<float, float>(
        "cvt." + mode + ".f32.f32", "cvt." + mode + ".f32.f32 %d, %a;", integral,
        [=](float a) { return static_cast<float>(RoundIntegral(a, mode)); }));
    out->push_back(Unary<double, double>("cvt." + mode + ".f64.f64",
                                         "cvt." + mode + ".f64.f64 %d, %a;", Doubles(),
                                         [=](double a) { return RoundIntegral(a, mode); }));
  }
}

SmallRound RoundOf(const std::string& mode) {
  return mode == "rn"   ? SmallRound::kNearest
         : mode == "rz" ? SmallRound::kZero
         : mode == "rm" ? SmallRound::kDown
                        : SmallRound::kUp;
}

std::vector<float> HalfwayFloats() {
  std::vector<float> v = Floats();
  for (float x : {65504.0f, 65519.0f, 65520.0f, -65536.0f, 5.96e-8f, 2.98e-8f, 2.99e-8f,
                  1.00048828125f, 1.00146484375f, 0.333333f, 6.1e-5f, 1.00390625f, 448.0f, 464.0f,
                  470.0f, 57344.0f, 61440.0f, 0.0019f, 0.001953125f})
    v.push_back(x);
  return v;
}

void AddHalves(Cases* out) {
  const auto floats = HalfwayFloats();
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    const std::string op = "cvt." + mode + ".f16.f32";
    out->push_back(Unary<Half, float>(op, op + " %d, %a;", floats, [=](float a) {
      return Half{static_cast<uint16_t>(EncodeSmall(kF16, a, RoundOf(mode)))};
    }));
  }
  for (const std::string mode : {"rn", "rz"}) {
    const std::string op = "cvt." + mode + ".bf16.f32";
    out->push_back(Unary<Bfloat, float>(op, op + " %d, %a;", floats, [=](float a) {
      return Bfloat{static_cast<uint16_t>(EncodeSmall(kBf16, a, RoundOf(mode)))};
    }));
  }
  // Beyond float's range on either side too: there is no float between a double and a half.
  const std::vector<double> doubles = {
      1.0,    65519.999, 65520.0, 1.00048828125, 1.0004882812500002,
      -3e-8,  1e-60,     -1e-60,  5e-324,        1e300,
      -1e300, 3.5e38,    -3.5e38, HUGE_VAL};
  for (const std::string mode : {"rn", "rz", "rm", "rp"}) {
    const std::string op = "cvt." + mode + ".f16.f64";
    out->push_back(Unary<Half, double>(op, op + " %d, %a;", doubles, [=](double a) {
      return Half{static_cast<uint16_t>(EncodeSmall(kF16, a, RoundOf(mode)))};
    }));
  }
  out->push_back(Unary<uint32_t, float>(
      "cvt.rn.relu.bf16.f32 of zeros", "cvt.rn.relu.bf16.f32 %h0, %a;\n  cvt.u32.u16 %d, %h0;",
      {0.0f, -0.0f, -1.0f, 2.0f}, [](float a) { return a > 0 ? 0x4000u : 0u; }));
  std::vector<Half> every;
  for (uint32_t bits = 0; bits < 0x10000; bits += 37)
    every.push_back({static_cast<uint16_t>(bits)});
  for (uint16_t bits : {0x7c00, 0xfc00, 0x7e00, 0x0001, 0x83ff, 0x7bff}) every.push_back({bits});
  out->push_back(Unary<float, Half>("cvt.f32.f16", "cvt.f32.f16 %d, %a;", every, [](Half a) {
    return static_cast<float>(DecodeSmall(kF16, a.bits));
  }));
  out->push_back(Unary<double, Half>("cvt.f64.f16", "cvt.f64.f16 %d, %a;", every,
                                     [](Half a) { return DecodeSmall(kF16, a.bits); }));
  std::vector<Bfloat> brain;
  for (Half h : every) brain.push_back({h.bits});
  out->push_back(Unary<float, Bfloat>("cvt.f32.bf16", "cvt.f32.bf16 %d, %a;", brain, [](Bfloat a) {
    return static_cast<float>(DecodeSmall(kBf16, a.bits));
  }));
  out->push_back(
      Unary<int32_t, Half>("cvt.rzi.s32.f16", "cvt.rzi.s32.f16 %d, %a;", every, [](Half a) {
        return ToInteger<int32_t, float>(static_cast<float>(DecodeSmall(kF16, a.bits)), "rzi");
      }));
  out->push_back(Unary<Half, int32_t>(
      "cvt.rn.f16.s32", "cvt.rn.f16.s32 %d, %a;",
      {0, 1, -1, 2049, 2051, -4098, 65519, 65520, INT32_MAX},
      [](int32_t a) { return Half{static_cast<uint16_t>(EncodeSmall(kF16, a))}; }));
  out->push_back(Unary<Half, uint64_t>(
      "cvt.rn.f16.u64", "cvt.rn.f16.u64 %d, %a;", {0, 1, 2049, 65504, 1ull << 60},
      [](uint64_t a) { return Half{static_cast<uint16_t>(EncodeSmall(kF16, a))}; }));
}

// The first source becomes the upper half.
void AddPacked(Cases* out) {
  const auto v = HalfwayFloats();
  auto add = [&](const std::string& op, const SmallFormat& f, SmallRound round, bool relu,
                 bool finite, unsigned width) {
    auto encode = [=, &f](float x) {
      return EncodeSmall(f, relu && x <= 0 ? 0.0f : x, round, finite) & ((1u << width) - 1);
    };
    std::vector<float> in = v;
    // Which zero a clamped negative zero becomes the ISA does not say.
    if (relu) std::erase_if(in, [](float x) { return x == 0 && std::signbit(x); });
    // Eight-bit pairs land in a 16-bit register, four-bit pairs in one of 8 bits.
    const std::string body =
        width == 16  ? op + " %d, %a, %b;"
        : width == 8 ? op + " %h0, %a, %b;\n  cvt.u32.u16 %d, %h0;"
                     : ".reg .b8 %byte;\n  " + op + " %byte, %a, %b;\n  cvt.u32.u8 %d, %byte;";
    out->push_back(Binary<uint32_t, float, float>(
        op, body, in, {1.0f, -2.5f, 1000.0f},
        [=](float a, float b) { return encode(a) << width | encode(b); }));
  };
  add("cvt.rn.f16x2.f32", kF16, SmallRound::kNearest, false, false, 16);
  add("cvt.rz.f16x2.f32", kF16, SmallRound::kZero, false, false, 16);
  add("cvt.rn.bf16x2.f32", kBf16, SmallRound::kNearest, false, false, 16);
  add("cvt.rn.relu.f16x2.f32", kF16, SmallRound::kNearest, true, false, 16);
  add("cvt.rn.satfinite.e4m3x2.f32", kF8e4m3, SmallRound::kNearest, false, true, 8);
  add("cvt.rn.satfinite.e5m2x2.f32", kF8e5m2, SmallRound::kNearest, false, true, 8);
  add("cvt.rn.satfinite.e2m1x2.f32", kF4e2m1, SmallRound::kNearest, false, true, 4);
  add("cvt.rn.satfinite.e2m3x2.f32", kF6e2m3, SmallRound::kNearest, false, true, 8);
  add("cvt.rn.satfinite.e3m2x2.f32", kF6e3m2, SmallRound::kNearest, false, true, 8);
  add("cvt.rn.satfinite.relu.e2m1x2.f32", kF4e2m1, SmallRound::kNearest, true, true, 4);
  struct Narrow {
    const char* type;
    const SmallFormat& format;
    unsigned width;
  };
  for (const Narrow& n :
       {Narrow{"e2m1x2", kF4e2m1, 4}, {"e2m3x2", kF6e2m3, 8}, {"e3m2x2", kF6e3m2, 8}}) {
    std::vector<uint16_t> all;
    for (uint32_t x = 0; x < n.format.infinity * 2; ++x)
      all.push_back(static_cast<uint16_t>(x << n.width | (n.format.infinity * 2 - 1 - x)));
    const std::string op = std::string("cvt.rn.f16x2.") + n.type;
    const std::string source =
        n.width == 4 ? ".reg .b8 %byte;\n  cvt.u8.u16 %byte, %a;\n  " + op + " %d, %byte;"
                     : op + " %d, %a;";
    out->push_back(Unary<uint32_t, uint16_t>(op, source, all, [=](uint16_t a) {
      const uint32_t mask = (1u << n.width) - 1;
      return EncodeSmall(kF16, DecodeSmall(n.format, a >> n.width & mask)) << 16 |
             EncodeSmall(kF16, DecodeSmall(n.format, a & mask));
    }));
  }
  std::vector<uint16_t> pairs;
  for (uint32_t x = 0; x < 256; ++x) pairs.push_back(static_cast<uint16_t>(x << 8 | (255 - x)));
  for (bool e4m3 : {true, false}) {
    const SmallFormat& f = e4m3 ? kF8e4m3 : kF8e5m2;
    const std::string op = e4m3 ? "cvt.rn.f16x2.e4m3x2" : "cvt.rn.f16x2.e5m2x2";
    for (bool high : {false, true}) {
      out->push_back(Unary<Half, uint16_t>(
          op + (high ? ".high" : ".low"),
          op + " %t0, %a;\n  mov.b32 {%h0, %h1}, %t0;\n  mov.b16 %d, %h" + (high ? "1;" : "0;"),
          pairs, [=, &f](uint16_t a) {
            uint32_t code = high ? a >> 8 : a & 0xff;
            return Half{static_cast<uint16_t>(EncodeSmall(kF16, DecodeSmall(f, code)))};
          }));
    }
  }
}

void AddRest(Cases* out) {
  // Round half away, ten mantissa bits kept.
  out->push_back(Unary<uint32_t, uint32_t>(
      "cvt.rna.tf32.f32", "mov.b32 %f0, %a;\n  cvt.rna.tf32.f32 %d, %f0;",
      {0x3f800000, 0x3f801000, 0x3f800fff, 0xbf801000, 0x00000000, 0x40490fdb, 0x7f800000},
      [](uint32_t a) { return a == 0x7f800000 ? a : ((a + 0x1000) & ~0x1fffu); }));
  // A result wider than its type fills the register by the type's sign.
  out->push_back(Unary<uint32_t, uint32_t>(
      "cvt.s8.s32.wide", "cvt.s8.s32 %d, %a;", Integers<uint32_t>(),
      [](uint32_t a) { return static_cast<uint32_t>(int32_t{static_cast<int8_t>(a)}); }));
  out->push_back(Unary<uint32_t, uint32_t>("cvt.u8.u32.wide", "cvt.u8.u32 %d, %a;",
                                           Integers<uint32_t>(),
                                           [](uint32_t a) { return a & 0xff; }));
  out->push_back(Unary<uint64_t, uint64_t>(
      "cvt.s16.s64.wide", "cvt.s16.s64 %d, %a;", Integers<uint64_t>(),
      [](uint64_t a) { return static_cast<uint64_t>(int64_t{static_cast<int16_t>(a)}); }));
  // A source register wider than the source type: only its low bits count.
  out->push_back(Unary<uint32_t, uint32_t>(
      "cvt.s32.s8.wide", "cvt.s32.s8 %d, %a;", Integers<uint32_t>(),
      [](uint32_t a) { return static_cast<uint32_t>(int32_t{static_cast<int8_t>(a)}); }));
  out->push_back(Unary<uint32_t, uint32_t>("cvt.u32.u16.wide", "cvt.u32.u16 %d, %a;",
                                           Integers<uint32_t>(),
                                           [](uint32_t a) { return a & 0xffff; }));
  auto clamp = [](int32_t x, int32_t lo, int32_t hi) {
    return static_cast<uint32_t>(std::clamp(x, lo, hi));
  };
  out->push_back(Binary<uint32_t, int32_t, int32_t>(
      "cvt.pack.sat.s16.s32", "cvt.pack.sat.s16.s32 %d, %a, %b;", Integers<int32_t>(),
      Integers<int32_t>(), [=](int32_t a, int32_t b) {
        return clamp(a, -32768, 32767) << 16 | (clamp(b, -32768, 32767) & 0xffff);
      }));
  out->push_back(Binary<uint32_t, int32_t, int32_t>(
      "cvt.pack.sat.u8.s32.b32", "cvt.pack.sat.u8.s32.b32 %d, %a, %b, 0x00001234;",
      Integers<int32_t>(), Integers<int32_t>(), [=](int32_t a, int32_t b) {
        return 0x12340000u | clamp(a, 0, 255) << 8 | clamp(b, 0, 255);
      }));
}

}  // namespace

void AddConvertCases(Cases* out) {
  AddIntegersTo<int8_t>(out);
  AddIntegersTo<uint8_t>(out);
  AddIntegersTo<int16_t>(out);
  AddIntegersTo<uint16_t>(out);
  AddIntegersTo<int32_t>(out);
  AddIntegersTo<uint32_t>(out);
  AddIntegersTo<int64_t>(out);
  AddIntegersTo<uint64_t>(out);
  AddFloatToIntegers<float>(out, Floats());
  AddFloatToIntegers<double>(out, Doubles());
  AddFromIntegers<float>(out);
  AddFromIntegers<double>(out);
  AddFloatPairs(out);
  AddHalves(out);
  AddPacked(out);
  AddRest(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
