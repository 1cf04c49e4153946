// SPDX-License-Identifier: Apache-2.0
// Rounding, by MPFR: add, sub, mul, fma, div, rcp, sqrt and cvt in every rounding mode, with ftz,
// sat and relu, of edge values and random ones.
#include <mpfr.h>

#include <algorithm>
#include <bit>
#include <random>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

struct Format {
  int precision;
  mpfr_exp_t least, most;  // MPFR's exponents: of 0.1 in binary
};
constexpr Format kSingle = {24, -148, 128}, kDouble = {53, -1073, 1024}, kF16 = {11, -23, 16},
                 kBf16 = {8, -132, 128};

struct NamedMode {
  const char* name;
  mpfr_rnd_t mode;
};
constexpr NamedMode kModes[] = {
    {"rn", MPFR_RNDN}, {"rz", MPFR_RNDZ}, {"rm", MPFR_RNDD}, {"rp", MPFR_RNDU}};

// A number of `format`, computed once and rounded once, underflow included.
class Rounded {
 public:
  Rounded(const Format& format, mpfr_rnd_t mode) : format_(format), mode_(mode) {
    mpfr_init2(value_, format.precision);
  }
  ~Rounded() { mpfr_clear(value_); }
  Rounded(const Rounded&) = delete;
  Rounded& operator=(const Rounded&) = delete;

  // `compute(result, mode)` returns MPFR's ternary value.
  template <typename F>
  double operator()(F compute) {
    int ternary = compute(value_, mode_);
    const mpfr_exp_t low = mpfr_get_emin(), high = mpfr_get_emax();
    mpfr_set_emin(format_.least);
    mpfr_set_emax(format_.most);
    ternary = mpfr_check_range(value_, ternary, mode_);
    mpfr_subnormalize(value_, ternary, mode_);
    mpfr_set_emin(low);
    mpfr_set_emax(high);
    return mpfr_get_d(value_, MPFR_RNDN);
  }

 private:
  const Format format_;
  const mpfr_rnd_t mode_;
  mpfr_t value_;
};

// An operand, exact.
class Exact {
 public:
  explicit Exact(double value) {
    mpfr_init2(value_, 64);
    mpfr_set_d(value_, value, MPFR_RNDN);
  }
  explicit Exact(int64_t value) {
    mpfr_init2(value_, 64);
    mpfr_set_si(value_, value, MPFR_RNDN);
  }
  explicit Exact(uint64_t value) {
    mpfr_init2(value_, 64);
    mpfr_set_ui(value_, value, MPFR_RNDN);
  }
  ~Exact() { mpfr_clear(value_); }
  Exact(const Exact&) = delete;
  Exact& operator=(const Exact&) = delete;
  operator mpfr_srcptr() const { return value_; }

 private:
  mpfr_t value_;
};

enum class Op { kAdd, kSub, kMul, kDiv, kFma, kRcp, kSqrt };

double Compute(Op op, const Format& format, mpfr_rnd_t mode, double a, double b, double c) {
  const Exact x(a), y(b), z(c);
  return Rounded(format, mode)([&](mpfr_ptr r, mpfr_rnd_t rounding) {
    switch (op) {
      case Op::kAdd:
        return mpfr_add(r, x, y, rounding);
      case Op::kSub:
        return mpfr_sub(r, x, y, rounding);
      case Op::kMul:
        return mpfr_mul(r, x, y, rounding);
      case Op::kDiv:
        return mpfr_div(r, x, y, rounding);
      case Op::kFma:
        return mpfr_fma(r, x, y, z, rounding);
      case Op::kRcp:
        return mpfr_ui_div(r, 1, x, rounding);
      default:
        return mpfr_sqrt(r, x, rounding);
    }
  });
}

struct Adjust {
  bool ftz = false, sat = false, relu = false;
  std::string Suffix() const {
    return std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "") + (relu ? ".relu" : "");
  }
};

double FlushTo(double x, double least_normal, bool ftz) {
  return ftz && std::fabs(x) < least_normal ? std::copysign(0.0, x) : x;
}
double Limit(double x, const Adjust& adjust) {
  if (adjust.sat) return x > 0 ? std::min(x, 1.0) : 0;
  if (adjust.relu) return x < 0 ? 0 : x;
  return x;
}

template <typename T>
double ToDouble(T value) {
  if constexpr (std::is_same_v<T, Half>) {
    const int exponent = value.bits >> 10 & 31, mantissa = value.bits & 1023;
    const double size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                        : exponent     ? std::ldexp(mantissa + 1024, exponent - 25)
                                       : std::ldexp(mantissa, -24);
    return value.bits >> 15 ? -size : size;
  } else if constexpr (std::is_same_v<T, Bfloat>) {
    return std::bit_cast<float>(uint32_t{value.bits} << 16);
  } else {
    return static_cast<double>(value);
  }
}

// Exact: `value` is a number of the format.
template <typename T>
T FromDouble(double value) {
  if constexpr (std::is_same_v<T, Bfloat>) {
    return {static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16)};
  } else if constexpr (std::is_same_v<T, Half>) {
    const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const double size = std::fabs(value);
    if (std::isnan(value)) return {0x7fff};
    if (std::isinf(value)) return {static_cast<uint16_t>(sign | 0x7c00)};
    int exponent;
    std::frexp(size, &exponent);
    exponent = std::max(exponent - 1, -14);
    const int mantissa = static_cast<int>(std::ldexp(size, 10 - exponent));
    return {static_cast<uint16_t>(
        sign | (mantissa < 1024 ? mantissa : (exponent + 15) << 10 | (mantissa - 1024)))};
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
struct Of;
template <>
struct Of<float> {
  static constexpr Format kFormat = kSingle;
  static constexpr double kLeastNormal = 0x1p-126;
  static constexpr const char* kName = "f32";
};
template <>
struct Of<double> {
  static constexpr Format kFormat = kDouble;
  static constexpr double kLeastNormal = 0x1p-1022;
  static constexpr const char* kName = "f64";
};
template <>
struct Of<Half> {
  static constexpr Format kFormat = kF16;
  static constexpr double kLeastNormal = 0x1p-14;
  static constexpr const char* kName = "f16";
};
template <>
struct Of<Bfloat> {
  static constexpr Format kFormat = kBf16;
  static constexpr double kLeastNormal = 0x1p-126;
  static constexpr const char* kName = "bf16";
};

// Edges, and `random` numbers of nearby exponents, so that sums and quotients have to be rounded.
template <typename T>
std::vector<T> Values(int random) {
  std::mt19937_64 bits(20251122);
  std::vector<T> values;
  const double least = Of<T>::kLeastNormal, most = Of<T>::kFormat.most;
  const int precision = Of<T>::kFormat.precision;
  const double largest = std::ldexp(2 - std::ldexp(1.0, 1 - precision), static_cast<int>(most) - 1);
  for (double edge : {0.0, -0.0, 1.0, -1.5, least, -least / 2, largest, -largest, double{INFINITY},
                      -double{INFINITY}, double{NAN}})
    values.push_back(FromDouble<T>(edge));
  for (int i = 0; i < random; ++i) {
    double mantissa = static_cast<double>(bits() >> (64 - precision) | 1ull << (precision - 1));
    const int exponent = static_cast<int>(bits() % 13) - 6 - (precision - 1);
    values.push_back(FromDouble<T>(std::ldexp(bits() & 1 ? -mantissa : mantissa, exponent)));
  }
  // Whose products and quotients fall below the least normal number.
  for (double scale : {1.25, -1.75}) {
    values.push_back(FromDouble<T>(
        scale * std::ldexp(1.0, (static_cast<int>(Of<T>::kFormat.least) + precision) / 2)));
  }
  return values;
}

// `mode` may be left out of the mnemonic: then it is the nearest.
template <typename T>
void AddOperation(Cases* out, const std::string& op, Op which, const NamedMode& mode,
                  const Adjust& adjust) {
  const std::string mnemonic = op + "." + mode.name + adjust.Suffix() + "." + Of<T>::kName;
  auto apply = [=](T a, T b, T c) {
    auto flush = [&](T x) { return FlushTo(ToDouble(x), Of<T>::kLeastNormal, adjust.ftz); };
    double r = Compute(which, Of<T>::kFormat, mode.mode, flush(a), flush(b), flush(c));
    return FromDouble<T>(Limit(FlushTo(r, Of<T>::kLeastNormal, adjust.ftz), adjust));
  };
  const std::string name = mnemonic + " (MPFR)";
  if (which == Op::kFma) {
    out->push_back(Ternary<T, T, T, T>(name, mnemonic + " %d, %a, %b, %c;", Values<T>(4),
                                       Values<T>(4), Values<T>(4), apply));
  } else if (which == Op::kRcp || which == Op::kSqrt) {
    out->push_back(Unary<T, T>(name, mnemonic + " %d, %a;", Values<T>(200),
                               [=](T a) { return apply(a, a, a); }));
  } else {
    out->push_back(Binary<T, T, T>(name, mnemonic + " %d, %a, %b;", Values<T>(20), Values<T>(20),
                                   [=](T a, T b) { return apply(a, b, b); }));
  }
}

// The narrow operands are a, and b of fma; the last is single.
template <typename T>
void AddMixed(Cases* out, const NamedMode& mode, bool sat) {
  const Adjust adjust{false, sat, false};
  auto apply = [=](Op which, double a, double b, double c) {
    const double r = Compute(which, kSingle, mode.mode, a, b, c);
    return static_cast<float>(Limit(r, adjust));
  };
  for (const Op which : {Op::kAdd, Op::kSub}) {
    const std::string mnemonic = std::string(which == Op::kAdd ? "add." : "sub.") + mode.name +
                                 adjust.Suffix() + ".f32." + Of<T>::kName;
    out->push_back(Binary<float, T, float>(
        mnemonic + " (MPFR)", mnemonic + " %d, %a, %b;", Values<T>(20), Values<float>(20),
        [=](T a, float c) { return apply(which, ToDouble(a), c, c); }));
  }
  const std::string mnemonic =
      std::string("fma.") + mode.name + adjust.Suffix() + ".f32." + Of<T>::kName;
  out->push_back(Ternary<float, T, T, float>(
      mnemonic + " (MPFR)", mnemonic + " %d, %a, %b, %c;", Values<T>(4), Values<T>(4),
      Values<float>(4),
      [=](T a, T b, float c) { return apply(Op::kFma, ToDouble(a), ToDouble(b), c); }));
}

void AddArithmetic(Cases* out) {
  struct Named {
    const char* name;
    Op op;
  };
  for (const NamedMode& mode : kModes) {
    for (const Named& n : {Named{"add", Op::kAdd},
                           {"sub", Op::kSub},
                           {"mul", Op::kMul},
                           {"div", Op::kDiv},
                           {"fma", Op::kFma},
                           {"rcp", Op::kRcp},
                           {"sqrt", Op::kSqrt}}) {
      for (bool ftz : {false, true}) {
        for (bool sat : {false, true}) {
          const bool clamps =
              n.op == Op::kAdd || n.op == Op::kSub || n.op == Op::kMul || n.op == Op::kFma;
          if (sat && !clamps) continue;
          AddOperation<float>(out, n.name, n.op, mode, {ftz, sat, false});
        }
      }
      AddOperation<double>(out, n.name, n.op, mode, {});
    }
    for (bool sat : {false, true}) {
      AddMixed<Half>(out, mode, sat);
      AddMixed<Bfloat>(out, mode, sat);
    }
  }
  for (const Named& n :
       {Named{"add", Op::kAdd}, {"sub", Op::kSub}, {"mul", Op::kMul}, {"fma", Op::kFma}}) {
    for (bool ftz : {false, true})
      for (bool sat : {false, true})
        AddOperation<Half>(out, n.name, n.op, kModes[0], {ftz, sat, false});
    AddOperation<Bfloat>(out, n.name, n.op, kModes[0], {});
  }
  AddOperation<Half>(out, "fma", Op::kFma, kModes[0], {false, false, true});
  AddOperation<Bfloat>(out, "fma", Op::kFma, kModes[0], {false, false, true});
}

// From a wider float to a narrower one.
template <typename To, typename From>
void AddNarrowing(Cases* out) {
  std::vector<From> values = Values<From>(100);
  for (double edge : {0x1.001p0, 0x1.003p0, 0x1.01p0, 0x1.0180001p0, 65519.0, 65520.0, 1e-7, 3e-8,
                      -6e-8, 0x1.fffffep127, 1e39, -1e39, 1e-40, 1e-46})
    values.push_back(static_cast<From>(edge));
  for (const NamedMode& mode : kModes) {
    const std::string mnemonic =
        std::string("cvt.") + mode.name + "." + Of<To>::kName + "." + Of<From>::kName;
    out->push_back(
        Unary<To, From>(mnemonic + " (MPFR)", mnemonic + " %d, %a;", values, [=](From a) {
          const Exact x(static_cast<double>(a));
          return FromDouble<To>(Rounded(Of<To>::kFormat, mode.mode)(
              [&](mpfr_ptr r, mpfr_rnd_t rounding) { return mpfr_set(r, x, rounding); }));
        }));
  }
}

// From an integer.
template <typename To, typename From>
void AddFromInteger(Cases* out, const std::string& type) {
  std::vector<From> values = Integers<From>();
  std::mt19937_64 bits(7);
  for (int i = 0; i < 100; ++i) values.push_back(static_cast<From>(bits() >> bits() % 60));
  for (const NamedMode& mode : kModes) {
    const std::string mnemonic = std::string("cvt.") + mode.name + "." + Of<To>::kName + "." + type;
    out->push_back(
        Unary<To, From>(mnemonic + " (MPFR)", mnemonic + " %d, %a;", values, [=](From a) {
          using Wide = std::conditional_t<std::is_signed_v<From>, int64_t, uint64_t>;
          const Exact x(static_cast<Wide>(a));
          return FromDouble<To>(Rounded(Of<To>::kFormat, mode.mode)(
              [&](mpfr_ptr r, mpfr_rnd_t rounding) { return mpfr_set(r, x, rounding); }));
        }));
  }
}

void AddConversions(Cases* out) {
  AddNarrowing<float, double>(out);
  AddNarrowing<Half, float>(out);
  AddNarrowing<Half, double>(out);
  AddNarrowing<Bfloat, double>(out);
  AddFromInteger<float, int32_t>(out, "s32");
  AddFromInteger<float, uint32_t>(out, "u32");
  AddFromInteger<float, int64_t>(out, "s64");
  AddFromInteger<float, uint64_t>(out, "u64");
  AddFromInteger<double, int64_t>(out, "s64");
  AddFromInteger<double, uint64_t>(out, "u64");
  AddFromInteger<Half, int32_t>(out, "s32");
  AddFromInteger<Half, uint64_t>(out, "u64");
}

}  // namespace

void AddMpfrCases(Cases* out) {
  AddArithmetic(out);
  AddConversions(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
