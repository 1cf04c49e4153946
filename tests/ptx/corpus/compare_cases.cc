// SPDX-License-Identifier: Apache-2.0
// setp, set, selp, slct, testp, predicate logic.
#include <cmath>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

template <typename T>
bool Holds(const std::string& op, T a, T b) {
  bool unordered = a != a || b != b;
  if (op == "num") return !unordered;
  if (op == "nan") return unordered;
  bool u = op.size() == 3;  // equ, neu, ltu, ...
  if (unordered) return u;
  const std::string o = op.substr(0, 2);
  if (o == "eq") return a == b;
  if (o == "ne") return a != b;
  if (o == "lt" || o == "lo") return a < b;
  if (o == "le" || o == "ls") return a <= b;
  if (o == "gt" || o == "hi") return a > b;
  return a >= b;
}

template <typename T>
void AddComparisons(Cases* out, const std::string& type, const std::vector<T>& v,
                    const std::vector<std::string>& ops) {
  for (const std::string& op : ops) {
    const std::string name = "setp." + op + "." + type;
    out->push_back(Binary<uint32_t, T, T>(name, name + " %p, %a, %b;\n  selp.u32 %d, 1, 0, %p;", v,
                                          v, [=](T a, T b) { return uint32_t{Holds(op, a, b)}; }));
  }
}

void AddCombined(Cases* out) {
  const auto v = Integers<int32_t>();
  using F = std::function<uint32_t(int32_t, int32_t)>;
  auto add = [&](const char* name, const std::string& body, F fn) {
    out->push_back(
        Binary<uint32_t, int32_t, int32_t>(name,
                                           "setp.gt.s32 %pp, %a, 5;\n  " + body +
                                               "\n  selp.b32 %t0, 1, 0, %p;\n"
                                               "  selp.b32 %t1, 2, 0, %q;\n  or.b32 %d, %t0, %t1;",
                                           v, v, fn));
  };
  auto pair = [](bool p, bool q) { return uint32_t{p} | (q ? 2u : 0u); };
  add("setp.lt.and.s32", "setp.lt.and.s32 %p|%q, %a, %b, %pp;",
      [=](int32_t a, int32_t b) { return pair(a < b && a > 5, !(a < b) && a > 5); });
  add("setp.eq.or.s32", "setp.eq.or.s32 %p|%q, %a, %b, !%pp;",
      [=](int32_t a, int32_t b) { return pair(a == b || !(a > 5), a != b || !(a > 5)); });
  add("setp.ge.xor.s32", "setp.ge.xor.s32 %p|%q, %a, %b, %pp;",
      [=](int32_t a, int32_t b) { return pair((a >= b) != (a > 5), (a < b) != (a > 5)); });
  add("and.pred", "setp.lt.s32 %q, %a, %b;\n  and.pred %p, %pp, %q;\n  xor.pred %q, %pp, %q;",
      [=](int32_t a, int32_t b) { return pair(a > 5 && a < b, (a > 5) != (a < b)); });
  add("or.pred", "setp.lt.s32 %q, %a, %b;\n  or.pred %p, %pp, %q;\n  not.pred %q, %q;",
      [=](int32_t a, int32_t b) { return pair(a > 5 || a < b, !(a < b)); });
  add("mov.pred", "mov.pred %p, %pp;\n  mov.pred %q, 0;\n  @!%p mov.pred %q, -1;",
      [=](int32_t a, int32_t) { return pair(a > 5, !(a > 5)); });
}

void AddSelections(Cases* out) {
  const auto v = Integers<int32_t>();
  out->push_back(Binary<int32_t, int32_t, int32_t>(
      "selp.s32", "setp.lt.s32 %p, %a, %b;\n  selp.s32 %d, %a, %b, %p;", v, v,
      [](int32_t a, int32_t b) { return a < b ? a : b; }));
  out->push_back(Binary<double, double, double>(
      "selp.f64", "setp.lt.f64 %p, %a, %b;\n  selp.f64 %d, %b, %a, %p;", FiniteDoubles(),
      FiniteDoubles(), [](double a, double b) { return a < b ? b : a; }));
  out->push_back(Unary<float, float>(
      "selp.f32.literal",
      "setp.gt.f32 %p, %a, 0f00000000;\n  selp.f32 %d, 0f3F800000, 0fBF800000, %p;", FiniteFloats(),
      [](float a) { return a > 0 ? 1.0f : -1.0f; }));
  out->push_back(Unary<uint16_t, uint16_t>(
      "selp.b16", "setp.eq.s16 %p, %a, 7;\n  selp.b16 %d, -1, %a, %p;", Integers<uint16_t>(),
      [](uint16_t a) { return a == 7 ? uint16_t{0xffff} : a; }));
  out->push_back(Ternary<uint32_t, uint32_t, uint32_t, int32_t>(
      "slct.u32.s32", "slct.u32.s32 %d, %a, %b, %c;", {1, 2}, {3, 4}, v,
      [](uint32_t a, uint32_t b, int32_t c) { return c >= 0 ? a : b; }));
  out->push_back(Ternary<uint64_t, uint64_t, uint64_t, float>(
      "slct.u64.f32", "slct.u64.f32 %d, %a, %b, %c;", {1, 2}, {3, 4}, Floats(),
      [](uint64_t a, uint64_t b, float c) { return c >= 0 ? a : b; }));
}

void AddSets(Cases* out) {
  const auto v = Floats();
  out->push_back(Binary<uint32_t, float, float>("set.lt.u32.f32", "set.lt.u32.f32 %d, %a, %b;", v,
                                                v,
                                                [](float a, float b) { return a < b ? ~0u : 0u; }));
  out->push_back(
      Binary<float, float, float>("set.geu.f32.f32", "set.geu.f32.f32 %d, %a, %b;", v, v,
                                  [](float a, float b) { return !(a < b) ? 1.0f : 0.0f; }));
  out->push_back(Binary<uint32_t, int32_t, int32_t>(
      "set.ne.and.s32.s32", "setp.gt.s32 %p, %a, 2;\n  set.ne.and.s32.s32 %d, %a, %b, %p;",
      Integers<int32_t>(), Integers<int32_t>(),
      [](int32_t a, int32_t b) { return a != b && a > 2 ? ~0u : 0u; }));
}

template <typename T>
void AddTests(Cases* out, const std::string& type, const std::vector<T>& v) {
  auto add = [&](const std::string& property, std::function<bool(T)> fn) {
    const std::string name = "testp." + property + "." + type;
    out->push_back(Unary<uint32_t, T>(name, name + " %p, %a;\n  selp.u32 %d, 1, 0, %p;", v,
                                      [=](T a) { return uint32_t{fn(a)}; }));
  };
  add("finite", [](T a) { return std::isfinite(a); });
  add("infinite", [](T a) { return std::isinf(a); });
  add("number", [](T a) { return !std::isnan(a); });
  add("notanumber", [](T a) { return std::isnan(a); });
  add("normal", [](T a) { return std::fpclassify(a) == FP_NORMAL; });
  add("subnormal", [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
}

}  // namespace

void AddCompareCases(Cases* out) {
  const std::vector<std::string> plain{"eq", "ne", "lt", "le", "gt", "ge"}, equality{"eq", "ne"},
      halves{"lo", "ls", "hi", "hs"};
  const std::vector<std::string> floats{"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
  AddComparisons<int16_t>(out, "s16", Integers<int16_t>(), plain);
  AddComparisons<uint16_t>(out, "u16", Integers<uint16_t>(), plain);
  AddComparisons<int32_t>(out, "s32", Integers<int32_t>(), plain);
  AddComparisons<uint32_t>(out, "u32", Integers<uint32_t>(), plain);
  AddComparisons<uint32_t>(out, "u32", Integers<uint32_t>(), halves);
  AddComparisons<int64_t>(out, "s64", Integers<int64_t>(), plain);
  AddComparisons<uint64_t>(out, "u64", Integers<uint64_t>(), plain);
  AddComparisons<uint16_t>(out, "b16", Integers<uint16_t>(), equality);
  AddComparisons<uint32_t>(out, "b32", Integers<uint32_t>(), equality);
  AddComparisons<uint64_t>(out, "b64", Integers<uint64_t>(), equality);
  AddComparisons<float>(out, "f32", Floats(), floats);
  AddComparisons<double>(out, "f64", Doubles(), floats);
  out->push_back(Binary<uint32_t, float, float>(
      "setp.eq.ftz.f32", "setp.eq.ftz.f32 %p, %a, %b;\n  selp.u32 %d, 1, 0, %p;", Floats(),
      Floats(), [](float a, float b) {
        auto flush = [](float x) { return std::fabs(x) < FLT_MIN ? 0.0f : x; };
        return uint32_t{flush(a) == flush(b)};
      }));
  AddCombined(out);
  AddSelections(out);
  AddSets(out);
  AddTests<float>(out, "f32", Floats());
  AddTests<double>(out, "f64", Doubles());
}

}  // namespace farcall::cpu_device::ptx_corpus
