// SPDX-License-Identifier: Apache-2.0
// Single and double arithmetic: rounding modes, flush to zero, saturation, approximations.
#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

enum class Mode { kNearest, kZero, kDown, kUp };
struct NamedMode {
  Mode mode;
  const char* name;
};
constexpr NamedMode kModes[] = {
    {Mode::kNearest, "rn"}, {Mode::kZero, "rz"}, {Mode::kDown, "rm"}, {Mode::kUp, "rp"}};

// The neighbour `nearest` must become in `mode`, given on which side of it the exact value lies.
template <typename T>
T Direct(T nearest, int exact_minus_nearest, bool exact_negative, Mode mode) {
  if (exact_minus_nearest == 0 || mode == Mode::kNearest || std::isnan(nearest)) return nearest;
  bool down = mode == Mode::kDown || (mode == Mode::kZero && !exact_negative);
  if (down && exact_minus_nearest < 0) return std::nextafter(nearest, -static_cast<T>(INFINITY));
  if (!down && exact_minus_nearest > 0) return std::nextafter(nearest, static_cast<T>(INFINITY));
  return nearest;
}

int Sign(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

// x + y = *sum + return value, exactly.
double TwoSum(double x, double y, double* sum) {
  volatile double s = x + y, yy = s - x, xx = s - yy;
  volatile double dy = y - yy, dx = x - xx;
  *sum = s;
  return dx + dy;
}

bool IsZeroSum(double x, double y) {
  return x == -y;
}

// x + y rounded once to single; x and y are exact doubles.
float AddToSingle(double x, double y, Mode mode) {
  if (!std::isfinite(x) || !std::isfinite(y)) return static_cast<float>(x + y);
  if (IsZeroSum(x, y)) {  // exact zero: its sign follows the mode
    if (x == 0 && std::signbit(x) == std::signbit(y)) return static_cast<float>(x);
    return mode == Mode::kDown ? -0.0f : 0.0f;
  }
  double sum, error = TwoSum(x, y, &sum);
  // Rounding twice can miss at a tie; nudge the sum off the tie first.
  if (error != 0) {
    uint64_t bits;
    std::memcpy(&bits, &sum, 8);
    if (!(bits & 1)) sum = std::nextafter(sum, error > 0 ? INFINITY : -INFINITY);
  }
  float nearest = static_cast<float>(sum);
  return Direct(nearest, sum > nearest ? 1 : sum < nearest ? -1 : 0, sum < 0, mode);
}

float Multiply(float a, float b, Mode mode) {
  double exact = double{a} * b;
  float nearest = static_cast<float>(exact);
  if (!std::isfinite(exact)) return nearest;
  return Direct(nearest, exact > nearest ? 1 : exact < nearest ? -1 : 0, exact < 0, mode);
}

float Divide(float a, float b, Mode mode) {
  float q = a / b;
  if (!std::isfinite(a) || !std::isfinite(b) || b == 0 || std::isnan(q)) return q;
  bool negative = std::signbit(a) != std::signbit(b);
  if (std::isinf(q)) return Direct(q, negative ? 1 : -1, negative, mode);
  // a - q * b is exact in double here; its sign against b's tells the side.
  double rest = std::fma(-double{q}, double{b}, double{a});
  return Direct(q, Sign(rest) * (b < 0 ? -1 : 1), negative, mode);
}

float SquareRoot(float a, Mode mode) {
  float r = std::sqrt(a);
  if (!std::isfinite(r) || a <= 0) return r;
  return Direct(r, Sign(std::fma(-double{r}, double{r}, double{a})), false, mode);
}

double AddDouble(double x, double y, Mode mode) {
  if (!std::isfinite(x) || !std::isfinite(y)) return x + y;
  if (IsZeroSum(x, y)) {
    if (x == 0 && std::signbit(x) == std::signbit(y)) return x;
    return mode == Mode::kDown ? -0.0 : 0.0;
  }
  double sum, error = TwoSum(x, y, &sum);
  return Direct(sum, Sign(error), sum < 0, mode);
}

double MultiplyDouble(double x, double y, Mode mode) {
  double p = x * y;
  if (!std::isfinite(p)) return p;
  return Direct(p, Sign(std::fma(x, y, -p)), p < 0, mode);
}

double DivideDouble(double x, double y, Mode mode) {
  double q = x / y;
  if (!std::isfinite(q) || y == 0) return q;
  return Direct(q, Sign(std::fma(-q, y, x)) * (y < 0 ? -1 : 1), q < 0, mode);
}

float Flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
float Clamp01(float x) {
  return x > 0 ? std::min(x, 1.0f) : 0.0f;
}

void AddRounded(Cases* out) {
  const auto v = Floats();
  const auto few = FiniteFloats();
  for (NamedMode m : kModes) {
    const Mode mode = m.mode;
    const std::string r = m.name;
    auto binary = [&](const std::string& op, std::function<float(float, float)> fn) {
      const std::string name = op + "." + r + ".f32";
      out->push_back(Binary<float, float, float>(name, name + " %d, %a, %b;", v, v, fn));
    };
    binary("add", [=](float a, float b) { return AddToSingle(a, b, mode); });
    binary("sub", [=](float a, float b) { return AddToSingle(a, -double{b}, mode); });
    binary("mul", [=](float a, float b) { return Multiply(a, b, mode); });
    binary("div", [=](float a, float b) { return Divide(a, b, mode); });
    const std::string t = "." + r + ".f32";
    out->push_back(Ternary<float, float, float, float>(
        "fma" + t, "fma" + t + " %d, %a, %b, %c;", few, few, few, [=](float a, float b, float c) {
          return mode == Mode::kNearest ? std::fma(a, b, c) : AddToSingle(double{a} * b, c, mode);
        }));
    out->push_back(Unary<float, float>("rcp" + t, "rcp" + t + " %d, %a;", v,
                                       [=](float a) { return Divide(1.0f, a, mode); }));
    out->push_back(Unary<float, float>("sqrt" + t, "sqrt" + t + " %d, %a;", v,
                                       [=](float a) { return SquareRoot(a, mode); }));
  }
}

void AddRoundedDouble(Cases* out) {
  const auto v = FiniteDoubles();
  for (NamedMode m : kModes) {
    const Mode mode = m.mode;
    const std::string t = std::string(".") + m.name + ".f64";
    auto binary = [&](const std::string& op, std::function<double(double, double)> fn) {
      out->push_back(Binary<double, double, double>(op + t, op + t + " %d, %a, %b;", v, v, fn));
    };
    binary("add", [=](double a, double b) { return AddDouble(a, b, mode); });
    binary("sub", [=](double a, double b) { return AddDouble(a, -b, mode); });
    // Residuals of very small products are not representable; keep to ordinary magnitudes.
    const std::vector<double> mid{
        0.0, -0.0, 1.0, -1.5, 0.1, 3.141592653589793, -1.0 / 3, 1e10, 1.0000000000000002};
    out->push_back(Binary<double, double, double>(
        "mul" + t, "mul" + t + " %d, %a, %b;", mid, mid,
        [=](double a, double b) { return MultiplyDouble(a, b, mode); }));
    out->push_back(Binary<double, double, double>(
        "div" + t, "div" + t + " %d, %a, %b;", mid, mid,
        [=](double a, double b) { return DivideDouble(a, b, mode); }));
    out->push_back(Unary<double, double>("rcp" + t, "rcp" + t + " %d, %a;", mid,
                                         [=](double a) { return DivideDouble(1.0, a, mode); }));
    out->push_back(Unary<double, double>("sqrt" + t, "sqrt" + t + " %d, %a;", mid, [=](double a) {
      double r = std::sqrt(a);
      return a > 0 ? Direct(r, Sign(std::fma(-r, r, a)), false, mode) : r;
    }));
  }
  out->push_back(Ternary<double, double, double, double>(
      "fma.rn.f64", "fma.rn.f64 %d, %a, %b, %c;", v, v, v,
      [](double a, double b, double c) { return std::fma(a, b, c); }));
  const auto all = Doubles();
  auto plain = [&](const std::string& op, std::function<double(double, double)> fn) {
    out->push_back(Binary<double, double, double>(op, op + " %d, %a, %b;", all, all, fn));
  };
  plain("add.f64", [](double a, double b) { return a + b; });
  plain("sub.f64", [](double a, double b) { return a - b; });
  plain("mul.f64", [](double a, double b) { return a * b; });
}

// .ftz: subnormal inputs and results become zeros of their sign. .sat: [0, 1], NaN and -0 to +0.
void AddFlushed(Cases* out) {
  const auto v = Floats();
  auto binary = [&](const std::string& op, std::function<float(float, float)> fn) {
    out->push_back(Binary<float, float, float>(op, op + " %d, %a, %b;", v, v, fn));
  };
  binary("add.f32", [](float a, float b) { return a + b; });
  binary("sub.f32", [](float a, float b) { return a - b; });
  binary("mul.f32", [](float a, float b) { return a * b; });
  binary("add.ftz.f32", [](float a, float b) { return Flush(Flush(a) + Flush(b)); });
  binary("sub.ftz.f32", [](float a, float b) { return Flush(Flush(a) - Flush(b)); });
  binary("mul.ftz.f32", [](float a, float b) { return Flush(Flush(a) * Flush(b)); });
  binary("div.rn.ftz.f32", [](float a, float b) { return Flush(Flush(a) / Flush(b)); });
  binary("add.sat.f32", [](float a, float b) { return Clamp01(a + b); });
  binary("mul.sat.f32", [](float a, float b) { return Clamp01(a * b); });
  binary("mul.ftz.sat.f32", [](float a, float b) { return Clamp01(Flush(Flush(a) * Flush(b))); });
  const std::vector<float> few{0.0f, -1.0f, 0.25f, 1.5f, FLT_MIN, FLT_MIN / 2, NAN};
  out->push_back(Ternary<float, float, float, float>(
      "fma.rn.ftz.f32", "fma.rn.ftz.f32 %d, %a, %b, %c;", few, few, few,
      [](float a, float b, float c) { return Flush(std::fma(Flush(a), Flush(b), Flush(c))); }));
  out->push_back(Ternary<float, float, float, float>(
      "fma.rn.sat.f32", "fma.rn.sat.f32 %d, %a, %b, %c;", few, few, few,
      [](float a, float b, float c) { return Clamp01(std::fma(a, b, c)); }));
  out->push_back(Ternary<float, float, float, float>(
      "mad.rn.f32", "mad.rn.f32 %d, %a, %b, %c;", few, few, few,
      [](float a, float b, float c) { return std::fma(a, b, c); }));
}

// A NaN loses; -0 is below +0.
template <typename T>
T Lesser(T a, T b, bool max) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) == max ? b : a;
  return (a < b) == max ? b : a;
}

template <typename T>
void AddSigns(Cases* out, const std::vector<T>& v, const std::string& t) {
  auto unary = [&](const std::string& op, std::function<T(T)> fn) {
    out->push_back(Unary<T, T>(op + t, op + t + " %d, %a;", v, fn));
  };
  auto binary = [&](const std::string& op, std::function<T(T, T)> fn) {
    out->push_back(Binary<T, T, T>(op + t, op + t + " %d, %a, %b;", v, v, fn));
  };
  unary("neg", [](T a) { return -a; });
  unary("abs", [](T a) { return std::fabs(a); });
  binary("min", [](T a, T b) { return Lesser(a, b, false); });
  binary("max", [](T a, T b) { return Lesser(a, b, true); });
  binary("copysign", [](T a, T b) { return std::copysign(b, a); });
}

void AddMinMax(Cases* out) {
  const auto v = Floats();
  auto binary = [&](const std::string& op, std::function<float(float, float)> fn) {
    out->push_back(Binary<float, float, float>(op, op + " %d, %a, %b;", v, v, fn));
  };
  binary("min.NaN.f32", [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? NAN : Lesser(a, b, false);
  });
  binary("max.NaN.f32", [](float a, float b) {
    return std::isnan(a) || std::isnan(b) ? NAN : Lesser(a, b, true);
  });
  binary("min.ftz.f32", [](float a, float b) { return Lesser(Flush(a), Flush(b), false); });
  binary("max.xorsign.abs.f32", [](float a, float b) {
    float r = Lesser(std::fabs(a), std::fabs(b), true);
    return std::signbit(a) != std::signbit(b) ? -r : r;
  });
  out->push_back(Unary<float, float>("neg.ftz.f32", "neg.ftz.f32 %d, %a;", v,
                                     [](float a) { return -Flush(a); }));
  out->push_back(Unary<float, float>("abs.ftz.f32", "abs.ftz.f32 %d, %a;", v,
                                     [](float a) { return std::fabs(Flush(a)); }));
}

// Approximations: the tolerance is the ISA's bound, rounded up.
void AddApproximations(Cases* out) {
  const std::vector<float> positive{0.5f,       1.0f,   2.0f,  3.0f, 0.001f,
                                    12345.678f, 1e-20f, 1e20f, 7.25f};
  const std::vector<float> angles{-3.0f, -1.0f, 0.25f, 0.5f, 1.0f, 2.0f, 3.0f};
  const std::vector<float> edges{0.0f, -0.0f, INFINITY, -INFINITY, NAN};
  constexpr double kTight = 1e-6, kLoose = 1e-5, kHalfway = 0x1p-11;
  auto add = [&](const std::string& op, const std::vector<float>& v, std::function<float(float)> fn,
                 double tol) {
    out->push_back(Unary<float, float>(op, op + " %d, %a;", v, fn, tol));
  };
  for (const std::string ftz : {"", ".ftz"}) {
    add(
        "rcp.approx" + ftz + ".f32", positive, [](float a) { return 1 / a; }, kTight);
    add(
        "rsqrt.approx" + ftz + ".f32", positive,
        [](float a) { return static_cast<float>(1 / std::sqrt(double{a})); }, kTight);
    add(
        "sqrt.approx" + ftz + ".f32", positive, [](float a) { return std::sqrt(a); }, kTight);
    add(
        "ex2.approx" + ftz + ".f32", {-20.5f, -1.0f, 0.0f, 0.3f, 1.0f, 10.7f, 100.0f},
        [](float a) { return std::exp2(a); }, kTight);
    add(
        "lg2.approx" + ftz + ".f32", {0.25f, 2.0f, 3.0f, 10.0f, 12345.0f, 1e-10f},
        [](float a) { return std::log2(a); }, kLoose);
    add(
        "sin.approx" + ftz + ".f32", angles, [](float a) { return std::sin(a); }, kLoose);
    add(
        "cos.approx" + ftz + ".f32", angles, [](float a) { return std::cos(a); }, kLoose);
  }
  add(
      "tanh.approx.f32", angles, [](float a) { return std::tanh(a); }, kHalfway);
  // The ISA fixes these exactly.
  auto edge = [&](const std::string& op, std::function<float(float)> fn) {
    out->push_back(Unary<float, float>(op + ".edges", op + " %d, %a;", edges, fn));
  };
  edge("rcp.approx.f32", [](float a) { return 1 / a; });
  edge("rsqrt.approx.f32", [](float a) {
    return a == 0 ? std::copysign(INFINITY, a) : a > 0 ? 0.0f : NAN;
  });
  edge("sqrt.approx.f32", [](float a) { return std::sqrt(a); });
  edge("ex2.approx.f32", [](float a) { return std::exp2(a); });
  edge("lg2.approx.f32", [](float a) { return a == 0 ? -INFINITY : a > 0 ? a : NAN; });
  for (const std::string op :
       {"div.approx.f32", "div.full.f32", "div.approx.ftz.f32", "div.full.ftz.f32"}) {
    out->push_back(Binary<float, float, float>(
        op, op + " %d, %a, %b;", {1.0f, -3.0f, 0.1f, 1e10f}, {1.0f, 3.0f, -7.5f, 1e5f},
        [](float a, float b) { return a / b; }, kTight));
  }
  // Only the upper half of the result counts: about 2^-20.
  out->push_back(Unary<double, double>(
      "rcp.approx.ftz.f64", "rcp.approx.ftz.f64 %d, %a;", {1.0, 3.0, -0.7, 1e100},
      [](double a) { return 1 / a; }, 2e-6));
  out->push_back(Unary<double, double>(
      "rsqrt.approx.ftz.f64", "rsqrt.approx.ftz.f64 %d, %a;", {1.0, 3.0, 0.7, 1e100},
      [](double a) { return 1 / std::sqrt(a); }, 2e-6));
}

// A product without rounding may go into its sum unrounded, one with .rn may not.
void AddContraction(Cases* out) {
  const std::vector<double> x{1.0 + 0x1p-30, 3.0, 0.1}, y{1.0 - 0x1p-30, 7.0 / 3}, z{-1.0, 0.3};
  out->push_back(Ternary<double, double, double, double>(
      "mul.rn.f64.then.add", "mul.rn.f64 %g0, %a, %b;\n  add.rn.f64 %d, %g0, %c;", x, y, z,
      [](double a, double b, double c) {
        volatile double product = a * b;
        return product + c;
      }));
  const std::vector<float> few{1.25f, 3.0f, 0.1f};
  out->push_back(Ternary<float, float, float, float>(
      "mul.f32.then.add", "mul.f32 %f0, %a, %b;\n  add.f32 %d, %f0, %c;", few, few, few,
      [](float a, float b, float c) { return std::fma(a, b, c); }, 0x1p-23));
}

// nvcc 13 keeps floats in .b32/.b64 registers and writes float literals into integer moves.
void AddLiterals(Cases* out) {
  out->push_back(Unary<uint32_t, uint32_t>(
      "fma.rn.f32.b32", "mov.b32 %t0, 0f3FC00000;\n  fma.rn.f32 %d, %a, %t0, 0fBF800000;",
      {0x3f800000, 0x40490fdb, 0}, [](uint32_t bits) {
        float x;
        std::memcpy(&x, &bits, 4);
        float r = std::fma(x, 1.5f, -1.0f);
        std::memcpy(&bits, &r, 4);
        return bits;
      }));
  out->push_back(Unary<double, double>("add.f64.literal", "add.f64 %d, %a, 0d4004000000000000;",
                                       {1.0, -2.5}, [](double a) { return a + 2.5; }));
  out->push_back(Unary<float, float>("mul.f32.decimal", "mul.f32 %d, %a, 2.5;", {1.0f, -2.0f},
                                     [](float a) { return a * 2.5f; }));
  out->push_back(Unary<float, float>("add.f32.inf", "add.f32 %d, %a, 0f7F800000;",
                                     {1.0f, -INFINITY}, [](float a) { return a + INFINITY; }));
}

}  // namespace

void AddFloatCases(Cases* out) {
  AddRounded(out);
  AddRoundedDouble(out);
  AddFlushed(out);
  AddSigns<float>(out, Floats(), ".f32");
  std::vector<double> doubles = Doubles();
  AddSigns<double>(out, doubles, ".f64");
  AddMinMax(out);
  AddApproximations(out);
  AddContraction(out);
  AddLiterals(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
