// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic.
#include <algorithm>
#include <string>
#include <type_traits>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using I128 = __int128;
using U128 = unsigned __int128;

template <typename T>
std::string TypeName() {
  return (std::is_signed_v<T> ? "s" : "u") + std::to_string(8 * sizeof(T));
}

// add, sub, min, max, mul.lo, mul.hi, div, rem, mad.lo, sad: of one type.
template <typename T>
void AddArithmetic(Cases* out) {
  using U = std::make_unsigned_t<T>;
  using B = std::function<T(T, T)>;
  const std::string t = TypeName<T>();
  const auto v = Integers<T>(), nz = NonZeroIntegers<T>();
  auto wrap = [](I128 x) { return static_cast<T>(static_cast<U>(x)); };
  auto binary = [&](const std::string& op, B fn, const std::vector<T>& bs) {
    out->push_back(Binary<T, T, T>(op + "." + t, op + "." + t + " %d, %a, %b;", v, bs, fn));
  };
  binary(
      "add", [=](T a, T b) { return wrap(I128(a) + b); }, v);
  binary(
      "sub", [=](T a, T b) { return wrap(I128(a) - b); }, v);
  binary(
      "min", [](T a, T b) { return std::min(a, b); }, v);
  binary(
      "max", [](T a, T b) { return std::max(a, b); }, v);
  binary(
      "mul.lo", [=](T a, T b) { return wrap(I128(U128(a) * U128(b))); }, v);
  binary(
      "mul.hi",
      [=](T a, T b) {
        if (std::is_signed_v<T>) return wrap(I128(a) * I128(b) >> (8 * sizeof(T)));
        return wrap(static_cast<I128>(U128(U(a)) * U128(U(b)) >> (8 * sizeof(T))));
      },
      v);
  binary(
      "div", [=](T a, T b) { return wrap(I128(a) / b); }, nz);
  binary(
      "rem", [=](T a, T b) { return wrap(I128(a) % b); }, nz);
  const std::vector<T> few{
      0, 1, static_cast<T>(-3), std::numeric_limits<T>::max(), std::numeric_limits<T>::min(), 12};
  out->push_back(
      Ternary<T, T, T, T>("mad.lo." + t, "mad.lo." + t + " %d, %a, %b, %c;", few, few, few,
                          [=](T a, T b, T c) { return wrap(I128(U128(a) * U128(b) + U128(c))); }));
  out->push_back(Ternary<T, T, T, T>(
      "sad." + t, "sad." + t + " %d, %a, %b, %c;", few, few, few,
      [=](T a, T b, T c) { return wrap(I128(c) + (a < b ? I128(b) - a : I128(a) - b)); }));
}

template <typename T>
void AddSigned(Cases* out) {
  using U = std::make_unsigned_t<T>;
  const std::string t = TypeName<T>();
  out->push_back(Unary<T, T>("neg." + t, "neg." + t + " %d, %a;", Integers<T>(),
                             [](T a) { return static_cast<T>(U(0) - static_cast<U>(a)); }));
  out->push_back(Unary<T, T>("abs." + t, "abs." + t + " %d, %a;", Integers<T>(), [](T a) {
    return a < 0 ? static_cast<T>(U(0) - static_cast<U>(a)) : a;
  }));
}

template <typename T, typename W>
void AddWide(Cases* out) {
  const std::string t = TypeName<T>();
  const auto v = Integers<T>();
  out->push_back(Binary<W, T, T>("mul.wide." + t, "mul.wide." + t + " %d, %a, %b;", v, v,
                                 [](T a, T b) { return static_cast<W>(W(a) * W(b)); }));
  out->push_back(Ternary<W, T, T, W>(
      "mad.wide." + t, "mad.wide." + t + " %d, %a, %b, %c;", v, v,
      {0, 5, std::numeric_limits<W>::max()}, [](T a, T b, W c) {
        return static_cast<W>(static_cast<uint64_t>(I128(a) * I128(b)) + static_cast<uint64_t>(c));
      }));
}

int64_t Clamp32(int64_t x) {
  return std::clamp<int64_t>(x, INT32_MIN, INT32_MAX);
}

void AddSaturating(Cases* out) {
  const auto v = Integers<int32_t>();
  out->push_back(Binary<int32_t, int32_t, int32_t>(
      "add.sat.s32", "add.sat.s32 %d, %a, %b;", v, v,
      [](int32_t a, int32_t b) { return static_cast<int32_t>(Clamp32(int64_t{a} + b)); }));
  out->push_back(Binary<int32_t, int32_t, int32_t>(
      "sub.sat.s32", "sub.sat.s32 %d, %a, %b;", v, v,
      [](int32_t a, int32_t b) { return static_cast<int32_t>(Clamp32(int64_t{a} - b)); }));
  out->push_back(Ternary<int32_t, int32_t, int32_t, int32_t>(
      "mad.hi.sat.s32", "mad.hi.sat.s32 %d, %a, %b, %c;", v, v, {0, INT32_MAX, INT32_MIN, 9},
      [](int32_t a, int32_t b, int32_t c) {
        return static_cast<int32_t>(Clamp32((int64_t{a} * b >> 32) + c));
      }));
  out->push_back(Ternary<int32_t, int32_t, int32_t, int32_t>(
      "mad.hi.s32", "mad.hi.s32 %d, %a, %b, %c;", v, v, {0, INT32_MAX, -9},
      [](int32_t a, int32_t b, int32_t c) {
        return static_cast<int32_t>(static_cast<uint32_t>(int64_t{a} * b >> 32) +
                                    static_cast<uint32_t>(c));
      }));
  out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
      "mad.hi.u32", "mad.hi.u32 %d, %a, %b, %c;", Integers<uint32_t>(), Integers<uint32_t>(),
      {0, 77}, [](uint32_t a, uint32_t b, uint32_t c) {
        return static_cast<uint32_t>((uint64_t{a} * b >> 32) + c);
      }));
}

int64_t Sign24(uint32_t x) {
  return static_cast<int32_t>(x << 8) >> 8;
}

void AddMul24(Cases* out) {
  const auto v = Integers<uint32_t>();
  using F = std::function<uint32_t(uint32_t, uint32_t)>;
  auto add = [&](const char* op, F fn) {
    out->push_back(
        Binary<uint32_t, uint32_t, uint32_t>(op, std::string(op) + " %d, %a, %b;", v, v, fn));
  };
  add("mul24.lo.u32", [](uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(uint64_t{a & 0xffffff} * (b & 0xffffff));
  });
  add("mul24.hi.u32", [](uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(uint64_t{a & 0xffffff} * (b & 0xffffff) >> 16);
  });
  add("mul24.lo.s32",
      [](uint32_t a, uint32_t b) { return static_cast<uint32_t>(Sign24(a) * Sign24(b)); });
  add("mul24.hi.s32",
      [](uint32_t a, uint32_t b) { return static_cast<uint32_t>(Sign24(a) * Sign24(b) >> 16); });
  out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
      "mad24.lo.u32", "mad24.lo.u32 %d, %a, %b, %c;", v, v, {0, 1234567},
      [](uint32_t a, uint32_t b, uint32_t c) {
        return static_cast<uint32_t>(uint64_t{a & 0xffffff} * (b & 0xffffff) + c);
      }));
}

// 128-bit sums and products in 32- and 64-bit steps.
void AddCarries(Cases* out) {
  const auto v = Integers<uint64_t>();
  const auto w = Integers<uint32_t>();
  using F = std::function<uint64_t(uint64_t, uint64_t)>;
  auto add = [&](const char* name, const char* body, F fn) {
    out->push_back(Binary<uint64_t, uint64_t, uint64_t>(name, body, v, v, fn));
  };
  const std::string split = "mov.b64 {%t0, %t1}, %a;\n  mov.b64 {%t2, %t3}, %b;\n  ";
  add("add.cc.u32",
      (split + "add.cc.u32 %t4, %t0, %t2;\n  addc.u32 %t5, %t1, %t3;\n"
               "  mov.b64 %d, {%t4, %t5};")
          .c_str(),
      [](uint64_t a, uint64_t b) { return a + b; });
  add("sub.cc.s32",
      (split + "sub.cc.s32 %t4, %t0, %t2;\n  subc.s32 %t5, %t1, %t3;\n"
               "  mov.b64 %d, {%t4, %t5};")
          .c_str(),
      [](uint64_t a, uint64_t b) { return a - b; });
  add("add.cc.u64", "add.cc.u64 %u0, %a, %b;\n  addc.u64 %d, 0, 0;",
      [](uint64_t a, uint64_t b) { return static_cast<uint64_t>((U128(a) + b) >> 64); });
  add("sub.cc.u64", "sub.cc.u64 %u0, %a, %b;\n  subc.u64 %d, 0, 0;",
      [](uint64_t a, uint64_t b) { return a < b ? ~0ull : 0; });
  // The carry of an addc goes on into a third word.
  add("addc.cc.u32",
      (split + "add.cc.u32 %t4, %t0, %t2;\n  addc.cc.u32 %t5, %t1, %t3;\n"
               "  addc.u32 %t6, 0, 0;\n  mov.b64 %d, {%t5, %t6};")
          .c_str(),
      [](uint64_t a, uint64_t b) {
        unsigned __int128 sum = U128(a) + b;
        return static_cast<uint64_t>(sum >> 32);
      });
  // 32 x 32 + 64 by mad.lo.cc and madc.hi.
  out->push_back(Ternary<uint64_t, uint32_t, uint32_t, uint64_t>(
      "mad.lo.cc.u32",
      "mov.b64 {%t0, %t1}, %c;\n  mad.lo.cc.u32 %t2, %a, %b, %t0;\n"
      "  madc.hi.u32 %t3, %a, %b, %t1;\n  mov.b64 %d, {%t2, %t3};",
      w, w, {0, 0xffffffffull, 0x1234567890abcdefull},
      [](uint32_t a, uint32_t b, uint64_t c) { return uint64_t{a} * b + c; }));
  out->push_back(Ternary<uint64_t, uint64_t, uint64_t, uint64_t>(
      "madc.hi.cc.u64", "mad.lo.cc.u64 %u0, %a, %b, %c;\n  madc.hi.u64 %d, %a, %b, 1;", v, v,
      {0, ~0ull}, [](uint64_t a, uint64_t b, uint64_t c) {
        unsigned __int128 sum = U128(a) * b + c;
        return static_cast<uint64_t>(sum >> 64) + 1;
      }));
}

void AddDots(Cases* out) {
  const std::vector<uint32_t> v{0, 0x01020304, 0xff80017f, 0xffffffff, 0x7f7f8080, 0x12fe34dc};
  struct Signs {
    const char* name;
    bool a, b;
  };
  for (Signs s : {Signs{"s32.s32", true, true},
                  {"u32.u32", false, false},
                  {"s32.u32", true, false},
                  {"u32.s32", false, true}}) {
    auto byte = [](uint32_t x, int i, bool is_signed) {
      uint8_t b = static_cast<uint8_t>(x >> (8 * i));
      return is_signed ? int64_t{static_cast<int8_t>(b)} : int64_t{b};
    };
    auto half = [](uint32_t x, int i, bool is_signed) {
      uint16_t h = static_cast<uint16_t>(x >> (16 * i));
      return is_signed ? int64_t{static_cast<int16_t>(h)} : int64_t{h};
    };
    const std::string name = s.name;
    out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
        "dp4a." + name, "dp4a." + name + " %d, %a, %b, %c;", v, v, {0, 0xfffffff0},
        [=](uint32_t a, uint32_t b, uint32_t c) {
          int64_t sum = c;
          for (int i = 0; i < 4; ++i) sum += byte(a, i, s.a) * byte(b, i, s.b);
          return static_cast<uint32_t>(sum);
        }));
    for (bool high : {false, true}) {
      const std::string op = std::string("dp2a.") + (high ? "hi." : "lo.") + name;
      out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
          op, op + " %d, %a, %b, %c;", v, v, {0, 1000}, [=](uint32_t a, uint32_t b, uint32_t c) {
            int64_t sum = c;
            for (int i = 0; i < 2; ++i) sum += half(a, i, s.a) * byte(b, i + (high ? 2 : 0), s.b);
            return static_cast<uint32_t>(sum);
          }));
    }
  }
}

// Two 16-bit lanes.
void AddPacked(Cases* out) {
  const std::vector<uint32_t> v{0, 0x00010002, 0x7fff8000, 0xffff0001, 0x80007fff, 0x1234fedc};
  using L = std::function<int32_t(int32_t, int32_t)>;
  auto add = [&](const char* op, bool is_signed, L lane) {
    out->push_back(Binary<uint32_t, uint32_t, uint32_t>(
        op, std::string(op) + " %d, %a, %b;", v, v, [=](uint32_t a, uint32_t b) {
          uint32_t packed = 0;
          for (int s = 0; s < 32; s += 16) {
            int32_t x = static_cast<int32_t>(a >> s & 0xffff),
                    y = static_cast<int32_t>(b >> s & 0xffff);
            if (is_signed) {
              x = static_cast<int16_t>(x);
              y = static_cast<int16_t>(y);
            }
            packed |= (static_cast<uint32_t>(lane(x, y)) & 0xffff) << s;
          }
          return packed;
        }));
  };
  add("add.u16x2", false, [](int32_t a, int32_t b) { return a + b; });
  add("add.s16x2", true, [](int32_t a, int32_t b) { return a + b; });
  add("min.u16x2", false, [](int32_t a, int32_t b) { return std::min(a, b); });
  add("max.s16x2", true, [](int32_t a, int32_t b) { return std::max(a, b); });
  add("min.relu.s16x2", true, [](int32_t a, int32_t b) { return std::max(std::min(a, b), 0); });
}

// What the instructions that set the carry leave themselves.
void AddLowHalves(Cases* out) {
  const auto v = Integers<uint64_t>();
  using F = std::function<uint64_t(uint64_t, uint64_t)>;
  auto add = [&](const std::string& op, F fn) {
    out->push_back(
        Binary<uint64_t, uint64_t, uint64_t>(op + " (low)", op + " %d, %a, %b;", v, v, fn));
  };
  add("add.cc.u64", [](uint64_t a, uint64_t b) { return a + b; });
  add("add.cc.s64", [](uint64_t a, uint64_t b) { return a + b; });
  add("sub.cc.u64", [](uint64_t a, uint64_t b) { return a - b; });
  add("sub.cc.s64", [](uint64_t a, uint64_t b) { return a - b; });
  out->push_back(
      Binary<uint64_t, uint64_t, uint64_t>("mad.lo.cc.u64 (low)", "mad.lo.cc.u64 %d, %a, %b, 5;", v,
                                           v, [](uint64_t a, uint64_t b) { return a * b + 5; }));
}

}  // namespace

void AddIntegerCases(Cases* out) {
  AddArithmetic<int16_t>(out);
  AddArithmetic<uint16_t>(out);
  AddArithmetic<int32_t>(out);
  AddArithmetic<uint32_t>(out);
  AddArithmetic<int64_t>(out);
  AddArithmetic<uint64_t>(out);
  AddSigned<int16_t>(out);
  AddSigned<int32_t>(out);
  AddSigned<int64_t>(out);
  AddWide<int16_t, int32_t>(out);
  AddWide<uint16_t, uint32_t>(out);
  AddWide<int32_t, int64_t>(out);
  AddWide<uint32_t, uint64_t>(out);
  AddSaturating(out);
  AddMul24(out);
  AddCarries(out);
  AddDots(out);
  AddPacked(out);
  AddLowHalves(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
