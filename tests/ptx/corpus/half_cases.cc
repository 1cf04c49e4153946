// SPDX-License-Identifier: Apache-2.0
// f16, bf16 and their packed pairs.
#include <algorithm>
#include <cmath>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/small_float.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using Real = long double;  // holds every sum and product below exactly

template <typename T>
constexpr const SmallFormat& FormatOf() {
  if constexpr (std::is_same_v<T, Half>) return kF16;
  return kBf16;
}
template <typename T>
Real Value(T x) {
  return DecodeSmall(FormatOf<T>(), x.bits);
}
template <typename T>
T Make(Real value) {
  return T{static_cast<uint16_t>(EncodeSmall(FormatOf<T>(), value))};
}

// Ordinary numbers near each other in size, and the special ones.
template <typename T>
std::vector<T> Values() {
  std::vector<T> v;
  for (double x :
       {0.0, -0.0, 1.0, -1.0, 0.1, 1.5, -2.75, 3.140625, 100.25, -0.333, 1000.0, 0.0078125,
        static_cast<double>(INFINITY), -static_cast<double>(INFINITY), static_cast<double>(NAN)})
    v.push_back(Make<T>(x));
  return v;
}

std::vector<Half> HalfEdges() {
  std::vector<Half> v = Values<Half>();
  for (uint16_t bits : {0x7bff, 0xfbff, 0x0400, 0x0001, 0x83ff}) v.push_back({bits});
  return v;
}

Real Lesser(Real a, Real b, bool max) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) == max ? b : a;
  return (a < b) == max ? b : a;
}
Real Clamp01(Real x) {
  return x > 0 ? std::min<Real>(x, 1) : 0;
}
// As max(x, +0): a negative zero becomes positive.
Real Relu(Real x) {
  return x > 0 || std::isnan(x) ? x : 0;
}
Real NoNan(Real a, Real b, bool max) {
  return std::isnan(a) || std::isnan(b) ? NAN : Lesser(a, b, max);
}

using Op2 = std::function<Real(Real, Real)>;
using Op3 = std::function<Real(Real, Real, Real)>;

// The scalar form, and the packed form with the operands of the halves swapped so that mixing them
// up shows.
template <typename T>
void AddBinary(Cases* out, const std::string& scalar, const std::string& packed,
               const std::vector<T>& v, Op2 fn) {
  if (!scalar.empty()) {
    out->push_back(Binary<T, T, T>(scalar, scalar + " %d, %a, %b;", v, v,
                                   [=](T a, T b) { return Make<T>(fn(Value(a), Value(b))); }));
  }
  if (packed.empty()) return;
  const std::string t = packed;
  // Low half op(a, b), high half op(b, a); each is checked in its own case.
  const std::string body = "mov.b32 %t0, {%a, %b};\n  mov.b32 %t1, {%b, %a};\n  " + t +
                           " %t2, %t0, %t1;\n  mov.b32 {%h0, %h1}, %t2;\n  mov.b16 %d, ";
  out->push_back(Binary<T, T, T>(t + ".low", body + "%h0;", v, v,
                                 [=](T a, T b) { return Make<T>(fn(Value(a), Value(b))); }));
  out->push_back(Binary<T, T, T>(t + ".high", body + "%h1;", v, v,
                                 [=](T a, T b) { return Make<T>(fn(Value(b), Value(a))); }));
}

template <typename T>
void AddTernary(Cases* out, const std::string& scalar, const std::string& packed, Op3 fn) {
  std::vector<T> v;
  for (double x : {0.0, -0.0, 1.0, -1.5, 0.1, 3.140625, -0.333, 100.25, static_cast<double>(NAN)})
    v.push_back(Make<T>(x));
  auto expected = [=](T a, T b, T c) { return Make<T>(fn(Value(a), Value(b), Value(c))); };
  out->push_back(Ternary<T, T, T, T>(scalar, scalar + " %d, %a, %b, %c;", v, v, v, expected));
  out->push_back(Ternary<T, T, T, T>(
      packed + ".high",
      "mov.b16 %h2, 0;\n  mov.b32 %t0, {%h2, %a};\n  mov.b32 %t1, {%h2, %b};\n"
      "  mov.b32 %t2, {%h2, %c};\n  " +
          packed + " %t3, %t0, %t1, %t2;\n  mov.b32 {%h0, %h1}, %t3;\n  mov.b16 %d, %h1;",
      v, v, v, expected));
}

template <typename T>
void AddUnary(Cases* out, const std::string& op, const std::vector<T>& v,
              std::function<Real(Real)> fn, double tolerance = 0) {
  out->push_back(Unary<T, T>(
      op, op + " %d, %a;", v, [=](T a) { return Make<T>(fn(Value(a))); }, tolerance));
}

// fma's exact value: a zero product of unlike sign and such follow the host's addition.
Real Fma(Real a, Real b, Real c) {
  return a * b + c;
}

template <typename T>
void AddCompare(Cases* out, const std::string& t, const std::vector<T>& v) {
  using P = std::function<bool(Real, Real)>;
  auto add = [&](const char* op, P fn) {
    const std::string name = std::string("setp.") + op + "." + t;
    out->push_back(
        Binary<uint32_t, T, T>(name, name + " %p, %a, %b;\n  selp.u32 %d, 1, 0, %p;", v, v,
                               [=](T a, T b) { return uint32_t{fn(Value(a), Value(b))}; }));
  };
  add("lt", [](Real a, Real b) { return a < b; });
  add("ge", [](Real a, Real b) { return a >= b; });
  add("eq", [](Real a, Real b) { return a == b; });
  add("neu", [](Real a, Real b) { return a != b; });
  add("gtu", [](Real a, Real b) { return !(a <= b); });
  add("nan", [](Real a, Real b) { return std::isnan(a) || std::isnan(b); });
  const std::string packed = "setp.lt." + t + "x2";
  out->push_back(Binary<uint32_t, T, T>(
      packed,
      "mov.b32 %t0, {%a, %b};\n  mov.b32 %t1, {%b, %a};\n  " + packed +
          " %p|%q, %t0, %t1;\n  selp.b32 %t2, 1, 0, %p;\n"
          "  selp.b32 %t3, 2, 0, %q;\n  or.b32 %d, %t2, %t3;",
      v, v,
      [](T a, T b) { return uint32_t{Value(a) < Value(b)} | (Value(b) < Value(a) ? 2u : 0u); }));
}

void AddFlushed(Cases* out) {
  auto flush = [](Half h) {
    return (h.bits & 0x7c00) ? h : Half{static_cast<uint16_t>(h.bits & 0x8000)};
  };
  const std::vector<Half> v{{0x0001}, {0x83ff}, {0x0400}, {0x3c00}, {0x1400}, {0x8000}};
  out->push_back(Binary<Half, Half, Half>(
      "mul.ftz.f16", "mul.ftz.f16 %d, %a, %b;", v, v,
      [=](Half a, Half b) { return flush(Make<Half>(Value(flush(a)) * Value(flush(b)))); }));
  out->push_back(Binary<Half, Half, Half>(
      "add.ftz.f16", "add.ftz.f16 %d, %a, %b;", v, v,
      [=](Half a, Half b) { return flush(Make<Half>(Value(flush(a)) + Value(flush(b)))); }));
  out->push_back(Binary<uint32_t, Half, Half>(
      "setp.lt.ftz.f16", "setp.lt.ftz.f16 %p, %a, %b;\n  selp.u32 %d, 1, 0, %p;", v, v,
      [=](Half a, Half b) { return uint32_t{Value(flush(a)) < Value(flush(b))}; }));
  out->push_back(Unary<uint32_t, Half>("abs.ftz.f16",
                                       "abs.ftz.f16 %h0, %a;\n  cvt.u32.u16 %d, %h0;", v,
                                       [=](Half a) { return uint32_t{flush(a).bits} & 0x7fff; }));
  out->push_back(Unary<uint32_t, Half>("neg.ftz.f16",
                                       "neg.ftz.f16 %h0, %a;\n  cvt.u32.u16 %d, %h0;", v,
                                       [=](Half a) { return uint32_t{flush(a).bits} ^ 0x8000; }));
}

}  // namespace

void AddHalfCases(Cases* out) {
  const auto h = HalfEdges();
  const auto b = Values<Bfloat>();
  auto add = [](Real x, Real y) { return x + y; };
  auto sub = [](Real x, Real y) { return x - y; };
  auto mul = [](Real x, Real y) { return x * y; };
  auto min = [](Real x, Real y) { return Lesser(x, y, false); };
  auto max = [](Real x, Real y) { return Lesser(x, y, true); };
  AddBinary<Half>(out, "add.f16", "add.f16x2", h, add);
  AddBinary<Half>(out, "add.rn.f16", "add.rn.f16x2", h, add);
  AddBinary<Half>(out, "sub.f16", "sub.f16x2", h, sub);
  AddBinary<Half>(out, "mul.f16", "mul.f16x2", h, mul);
  AddBinary<Half>(out, "add.sat.f16", "", h, [=](Real x, Real y) { return Clamp01(x + y); });
  AddBinary<Half>(out, "", "mul.sat.f16x2", h, [=](Real x, Real y) { return Clamp01(x * y); });
  AddBinary<Half>(out, "min.f16", "min.f16x2", h, min);
  AddBinary<Half>(out, "max.f16", "max.f16x2", h, max);
  AddBinary<Half>(out, "min.NaN.f16", "min.NaN.f16x2", h,
                  [](Real x, Real y) { return NoNan(x, y, false); });
  AddBinary<Bfloat>(out, "add.rn.bf16", "add.rn.bf16x2", b, add);
  AddBinary<Bfloat>(out, "sub.rn.bf16", "sub.rn.bf16x2", b, sub);
  AddBinary<Bfloat>(out, "mul.rn.bf16", "mul.rn.bf16x2", b, mul);
  AddBinary<Bfloat>(out, "min.bf16", "min.bf16x2", b, min);
  AddBinary<Bfloat>(out, "max.bf16", "max.bf16x2", b, max);
  AddTernary<Half>(out, "fma.rn.f16", "fma.rn.f16x2", Fma);
  AddTernary<Half>(out, "fma.rn.sat.f16", "fma.rn.sat.f16x2",
                   [](Real x, Real y, Real z) { return Clamp01(Fma(x, y, z)); });
  AddTernary<Half>(out, "fma.rn.relu.f16", "fma.rn.relu.f16x2",
                   [](Real x, Real y, Real z) { return Relu(Fma(x, y, z)); });
  AddTernary<Bfloat>(out, "fma.rn.bf16", "fma.rn.bf16x2", Fma);
  AddUnary<Half>(out, "neg.f16", h, [](Real x) { return -x; });
  AddUnary<Half>(out, "abs.f16", h, [](Real x) { return std::fabs(x); });
  AddUnary<Bfloat>(out, "neg.bf16", b, [](Real x) { return -x; });
  AddUnary<Bfloat>(out, "abs.bf16", b, [](Real x) { return std::fabs(x); });
  const std::vector<Half> mild{Make<Half>(-3), Make<Half>(-0.5), Make<Half>(0.25), Make<Half>(1),
                               Make<Half>(7.5)};
  AddUnary<Half>(
      out, "ex2.approx.f16", mild, [](Real x) { return std::exp2(x); }, 2e-3);
  AddUnary<Half>(
      out, "tanh.approx.f16", mild, [](Real x) { return std::tanh(x); }, 2e-3);
  AddCompare<Half>(out, "f16", h);
  AddCompare<Bfloat>(out, "bf16", b);
  AddFlushed(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
