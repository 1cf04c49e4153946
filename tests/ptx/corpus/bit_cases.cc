// SPDX-License-Identifier: Apache-2.0
// Logic, shifts, bit fields, byte permutation.
#include <algorithm>
#include <bit>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

template <typename T>
void AddLogic(Cases* out) {
  const std::string t = "b" + std::to_string(8 * sizeof(T));
  const auto v = Integers<T>();
  using F = std::function<T(T, T)>;
  auto binary = [&](const std::string& op, F fn) {
    out->push_back(Binary<T, T, T>(op + "." + t, op + "." + t + " %d, %a, %b;", v, v, fn));
  };
  binary("and", [](T a, T b) { return static_cast<T>(a & b); });
  binary("or", [](T a, T b) { return static_cast<T>(a | b); });
  binary("xor", [](T a, T b) { return static_cast<T>(a ^ b); });
  out->push_back(
      Unary<T, T>("not." + t, "not." + t + " %d, %a;", v, [](T a) { return static_cast<T>(~a); }));
  out->push_back(Unary<T, T>("cnot." + t, "cnot." + t + " %d, %a;", v,
                             [](T a) { return static_cast<T>(a == 0); }));
}

template <typename T>
void AddShifts(Cases* out) {
  using S = std::make_signed_t<T>;
  constexpr uint32_t kWidth = 8 * sizeof(T);
  const std::string bits = std::to_string(kWidth);
  const auto v = Integers<T>();
  const std::vector<uint32_t> amounts{0, 1, 5, kWidth - 1, kWidth, kWidth + 1, 255, 0xffffffff};
  using F = std::function<T(T, uint32_t)>;
  auto shift = [&](const std::string& op, F fn) {
    out->push_back(Binary<T, T, uint32_t>(op, op + " %d, %a, %b;", v, amounts, fn));
  };
  shift("shl.b" + bits,
        [](T a, uint32_t n) { return n >= kWidth ? T(0) : static_cast<T>(uint64_t{a} << n); });
  F logical = [](T a, uint32_t n) { return n >= kWidth ? T(0) : static_cast<T>(a >> n); };
  shift("shr.u" + bits, logical);
  shift("shr.b" + bits, logical);
  shift("shr.s" + bits, [](T a, uint32_t n) {
    return static_cast<T>(static_cast<S>(a) >> (n >= kWidth ? kWidth - 1 : n));
  });
}

void AddFunnel(Cases* out) {
  const std::vector<uint32_t> v{0, 1, 0x80000000, 0xdeadbeef, 0xffffffff},
      n{0, 1, 31, 32, 33, 63, 0xffffffff};
  using F = std::function<uint32_t(uint32_t, uint32_t, uint32_t)>;
  auto add = [&](const char* op, F fn) {
    out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
        op, std::string(op) + " %d, %a, %b, %c;", v, v, n, fn));
  };
  auto left = [](uint32_t a, uint32_t b, uint32_t s) {
    return s == 0 ? b : s == 32 ? a : (b << s | a >> (32 - s));
  };
  auto right = [](uint32_t a, uint32_t b, uint32_t s) {
    return s == 0 ? a : s == 32 ? b : (b << (32 - s) | a >> s);
  };
  add("shf.l.wrap.b32", [=](uint32_t a, uint32_t b, uint32_t c) { return left(a, b, c % 32); });
  add("shf.r.wrap.b32", [=](uint32_t a, uint32_t b, uint32_t c) { return right(a, b, c % 32); });
  add("shf.l.clamp.b32",
      [=](uint32_t a, uint32_t b, uint32_t c) { return left(a, b, c > 32 ? 32 : c); });
  add("shf.r.clamp.b32",
      [=](uint32_t a, uint32_t b, uint32_t c) { return right(a, b, c > 32 ? 32 : c); });
}

template <typename T>
void AddCounts(Cases* out) {
  const std::string b = std::to_string(8 * sizeof(T));
  const auto v = Integers<T>();
  out->push_back(Unary<uint32_t, T>("popc.b" + b, "popc.b" + b + " %d, %a;", v,
                                    [](T a) { return static_cast<uint32_t>(std::popcount(a)); }));
  out->push_back(Unary<uint32_t, T>("clz.b" + b, "clz.b" + b + " %d, %a;", v, [](T a) {
    return static_cast<uint32_t>(std::countl_zero(a));
  }));
  out->push_back(Unary<T, T>("brev.b" + b, "brev.b" + b + " %d, %a;", v, [](T a) {
    T r = 0;
    for (unsigned i = 0; i < 8 * sizeof(T); ++i) r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
  }));
  out->push_back(Unary<uint32_t, T>("bfind.u" + b, "bfind.u" + b + " %d, %a;", v, [](T a) {
    return a == 0 ? ~0u : static_cast<uint32_t>(8 * sizeof(T) - 1 - std::countl_zero(a));
  }));
  out->push_back(Unary<uint32_t, T>("bfind.s" + b, "bfind.s" + b + " %d, %a;", v, [](T a) {
    T x = static_cast<std::make_signed_t<T>>(a) < 0 ? static_cast<T>(~a) : a;
    return x == 0 ? ~0u : static_cast<uint32_t>(8 * sizeof(T) - 1 - std::countl_zero(x));
  }));
  out->push_back(Unary<uint32_t, T>(
      "bfind.shiftamt.u" + b, "bfind.shiftamt.u" + b + " %d, %a;", v,
      [](T a) { return a == 0 ? ~0u : static_cast<uint32_t>(std::countl_zero(a)); }));
}

// Written bit by bit, as no shift expression covers every edge.
template <typename T>
T Extract(T a, uint32_t pos, uint32_t len, bool is_signed) {
  const uint32_t width = 8 * sizeof(T);
  pos &= 255;
  len &= 255;
  uint32_t top = pos + len - 1 < width - 1 ? pos + len - 1 : width - 1;
  bool sign = is_signed && len > 0 && (a >> top & 1);
  T r = 0;
  for (uint32_t i = 0; i < width; ++i) {
    bool bit = i < len && pos + i < width ? (a >> (pos + i) & 1) : sign;
    if (bit) r |= T{1} << i;
  }
  return r;
}

template <typename T>
void AddFields(Cases* out) {
  const std::string b = std::to_string(8 * sizeof(T));
  const std::vector<T> v{0, static_cast<T>(~T{0}), static_cast<T>(0x8123456789abcdefull),
                         static_cast<T>(0x5a5a5a5a80000001ull)};
  const std::vector<uint32_t> pos{0, 1, 8, 31, 32, 63, 255}, len{0, 1, 8, 31, 32, 64, 255};
  for (bool is_signed : {false, true}) {
    const std::string op = std::string("bfe.") + (is_signed ? "s" : "u") + b;
    out->push_back(Ternary<T, T, uint32_t, uint32_t>(
        op, op + " %d, %a, %b, %c;", v, pos, len,
        [=](T a, uint32_t p, uint32_t l) { return Extract(a, p, l, is_signed); }));
  }
  // The background is the complement, so both fields show.
  out->push_back(Ternary<T, T, uint32_t, uint32_t>(
      "bfi.b" + b,
      "not.b" + b + (sizeof(T) == 4 ? " %t0" : " %u0") + ", %a;\n  bfi.b" + b + " %d, %a, " +
          (sizeof(T) == 4 ? "%t0" : "%u0") + ", %b, %c;",
      v, pos, len, [](T a, uint32_t p, uint32_t l) {
        T r = static_cast<T>(~a);
        p &= 255;
        l &= 255;
        for (uint32_t i = 0; i < l && p + i < 8 * sizeof(T); ++i) {
          T bit = T{1} << (p + i);
          r = (a >> i & 1) ? static_cast<T>(r | bit) : static_cast<T>(r & ~bit);
        }
        return r;
      }));
}

void AddMasks(Cases* out) {
  const std::vector<uint32_t> v{0, 1, 4, 31, 32, 33, 100};
  for (bool clamp : {true, false}) {
    const std::string mode = clamp ? "clamp" : "wrap";
    out->push_back(Binary<uint32_t, uint32_t, uint32_t>(
        "bmsk." + mode + ".b32", "bmsk." + mode + ".b32 %d, %a, %b;", v, v,
        [=](uint32_t a, uint32_t b) {
          uint32_t from = clamp ? a : a % 32, count = clamp ? b : b % 32, r = 0;
          for (uint64_t i = from; i < uint64_t{from} + count && i < 32; ++i) r |= 1u << i;
          return r;
        }));
    for (bool is_signed : {false, true}) {
      const std::string op = "szext." + mode + (is_signed ? ".s32" : ".u32");
      out->push_back(Binary<uint32_t, uint32_t, uint32_t>(
          op, op + " %d, %a, %b;", {0, 0xffffffff, 0x80000001, 0x12345678, 0x15}, v,
          [=](uint32_t a, uint32_t b) {
            uint32_t n = clamp ? b : b % 32;
            if (n >= 32) return a;
            if (n == 0) return 0u;
            uint32_t low = a & ((1u << n) - 1);
            bool sign = is_signed && (low >> (n - 1) & 1);
            return sign ? low | ~((1u << n) - 1) : low;
          }));
    }
  }
}

void AddLop3(Cases* out) {
  const std::vector<uint32_t> v{0, 0xffffffff, 0x0f0f00ff, 0x3c5a96f0};
  struct Table {
    uint32_t lut;
    std::function<uint32_t(uint32_t, uint32_t, uint32_t)> fn;
  };
  const Table tables[] = {
      {0x80, [](uint32_t a, uint32_t b, uint32_t c) { return a & b & c; }},
      {0x96, [](uint32_t a, uint32_t b, uint32_t c) { return a ^ b ^ c; }},
      {0xe8, [](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | (b & c) | (a & c); }},
      {0xca, [](uint32_t a, uint32_t b, uint32_t c) { return (a & b) | (~a & c); }},
      {0x1a, [](uint32_t a, uint32_t b, uint32_t c) { return ((a & b) | c) ^ a; }},
  };
  for (const Table& t : tables) {
    const std::string lut = std::to_string(t.lut);
    out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
        "lop3.b32." + lut, "lop3.b32 %d, %a, %b, %c, " + lut + ";", v, v, v, t.fn));
  }
  out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
      "lop3.or.b32",
      "setp.eq.u32 %q, %c, 0;\n  lop3.or.b32 %t0|%p, %a, %b, %c, 0x80, %q;\n  selp.b32 %d, 1, 0, "
      "%p;",
      v, v, v,
      [](uint32_t a, uint32_t b, uint32_t c) { return uint32_t{(a & b & c) != 0 || c == 0}; }));
}

void AddPermute(Cases* out) {
  const std::vector<uint32_t> v{0x03020100, 0x8f7fa5c3}, w{0x07060504, 0xf0e1d2c3},
      selectors{0x3210, 0x7654, 0x5410, 0x0123, 0xba98, 0xfedc, 0x8888, 0x0007};
  auto byte = [](uint32_t a, uint32_t b, unsigned i) {
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> (8 * i) & 0xff);
  };
  out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
      "prmt.b32", "prmt.b32 %d, %a, %b, %c;", v, w, selectors,
      [=](uint32_t a, uint32_t b, uint32_t s) {
        uint32_t r = 0;
        for (unsigned i = 0; i < 4; ++i) {
          uint32_t nibble = s >> (4 * i) & 15, x = byte(a, b, nibble & 7);
          if (nibble & 8) x = (x & 0x80) ? 0xff : 0;
          r |= x << (8 * i);
        }
        return r;
      }));
  // Source byte indices of result bytes 0..3 for selector 0..3, from the ISA's table.
  struct Mode {
    const char* name;
    uint8_t index[4][4];
  };
  const Mode modes[] = {
      {"f4e", {{0, 1, 2, 3}, {1, 2, 3, 4}, {2, 3, 4, 5}, {3, 4, 5, 6}}},
      {"b4e", {{0, 7, 6, 5}, {1, 0, 7, 6}, {2, 1, 0, 7}, {3, 2, 1, 0}}},
      {"rc8", {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
      {"ecl", {{0, 1, 2, 3}, {1, 1, 2, 3}, {2, 2, 2, 3}, {3, 3, 3, 3}}},
      {"ecr", {{0, 0, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 2, 3}}},
      {"rc16", {{0, 1, 0, 1}, {2, 3, 2, 3}, {0, 1, 0, 1}, {2, 3, 2, 3}}},
  };
  for (const Mode& m : modes) {
    const std::string op = std::string("prmt.b32.") + m.name;
    out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
        op, op + " %d, %a, %b, %c;", v, w, {0, 1, 2, 3}, [=](uint32_t a, uint32_t b, uint32_t s) {
          uint32_t r = 0;
          for (unsigned i = 0; i < 4; ++i) r |= byte(a, b, m.index[s][i]) << (8 * i);
          return r;
        }));
  }
}

void AddFns(Cases* out) {
  out->push_back(Ternary<uint32_t, uint32_t, uint32_t, int32_t>(
      "fns.b32", "fns.b32 %d, %a, %b, %c;", {0, 1, 0x80000001, 0xf0f0f0f0, 0xffffffff},
      {0, 3, 4, 31}, {0, 1, 2, 5, -1, -2, -4},
      [](uint32_t mask, uint32_t base, int32_t nth) -> uint32_t {
        if (nth == 0) return (mask >> base & 1) ? base : ~0u;
        int step = nth > 0 ? 1 : -1, left = nth > 0 ? nth : -nth;
        for (int i = static_cast<int>(base); i >= 0 && i < 32; i += step)
          if ((mask >> i & 1) && --left == 0) return static_cast<uint32_t>(i);
        return ~0u;
      }));
}

// Video shifts of whole words.
void AddVideoShifts(Cases* out) {
  const std::vector<uint32_t> v{0, 1, 0x80000000, 0xdeadbeef, 0x7fffffff}, n{0, 1, 31, 32, 40},
      more{0, 5, 0xfffffff0};
  auto shift = [](bool left, bool is_signed, bool wrap, uint32_t a, uint32_t by) -> uint32_t {
    by = wrap ? by % 32 : std::min(by, 32u);
    if (left) return by == 32 ? 0 : a << by;
    if (is_signed)
      return static_cast<uint32_t>(static_cast<int64_t>(static_cast<int32_t>(a)) >> by);
    return by == 32 ? 0 : a >> by;
  };
  for (bool left : {false, true}) {
    for (bool is_signed : {false, true}) {
      for (bool wrap : {false, true}) {
        const std::string t = is_signed ? "s32" : "u32";
        const std::string op = std::string(left ? "vshl." : "vshr.") + t + "." + t + ".u32." +
                               (wrap ? "wrap" : "clamp");
        out->push_back(Binary<uint32_t, uint32_t, uint32_t>(
            op, op + " %d, %a, %b;", v, n,
            [=](uint32_t a, uint32_t b) { return shift(left, is_signed, wrap, a, b); }));
        auto add = [&](const std::string& second, auto combine) {
          out->push_back(Ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
              op + second, op + second + " %d, %a, %b, %c;", v, n, more,
              [=](uint32_t a, uint32_t b, uint32_t c) {
                return combine(shift(left, is_signed, wrap, a, b), c);
              }));
        };
        auto less = [=](uint32_t a, uint32_t b) {
          return is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
        };
        add(".add", [](uint32_t a, uint32_t b) { return a + b; });
        add(".min", [=](uint32_t a, uint32_t b) { return less(a, b) ? a : b; });
        add(".max", [=](uint32_t a, uint32_t b) { return less(a, b) ? b : a; });
      }
    }
  }
}

}  // namespace

void AddBitCases(Cases* out) {
  AddLogic<uint16_t>(out);
  AddLogic<uint32_t>(out);
  AddLogic<uint64_t>(out);
  AddShifts<uint16_t>(out);
  AddShifts<uint32_t>(out);
  AddShifts<uint64_t>(out);
  AddFunnel(out);
  AddCounts<uint32_t>(out);
  AddCounts<uint64_t>(out);
  AddFields<uint32_t>(out);
  AddFields<uint64_t>(out);
  AddMasks(out);
  AddLop3(out);
  AddPermute(out);
  AddFns(out);
  AddVideoShifts(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
