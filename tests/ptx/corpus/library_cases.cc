// SPDX-License-Identifier: Apache-2.0
// Spellings and odd forms that libraries use beside those of the other files.
#include <bit>
#include <cmath>
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/small_float.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using Word = uint32_t;

float Flush(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}

// .ftz behind the type.
void AddLateFlush(Cases* out) {
  const auto v = Floats();
  out->push_back(
      Binary<float, float, float>("add.f32.ftz", "add.f32.ftz %d, %a, %b;", v, v,
                                  [](float a, float b) { return Flush(Flush(a) + Flush(b)); }));
  auto approximate = [&](const std::string& op, std::function<float(float)> fn) {
    out->push_back(Unary<float, float>(op, op + " %d, %a;",
                                       {0.5f, 1.25f, 3.0f, 100.0f, 0.001f, 1e-39f}, fn, 1e-5));
  };
  approximate("ex2.approx.f32.ftz", [](float a) { return std::exp2(Flush(a)); });
  approximate("lg2.approx.f32.ftz", [](float a) { return std::log2(Flush(a)); });
  approximate("rcp.approx.f32.ftz", [](float a) { return 1 / Flush(a); });
  approximate("rsqrt.approx.f32.ftz", [](float a) { return 1 / std::sqrt(Flush(a)); });
  // What CUDA's rsqrt(double) is made of: an ulp.
  out->push_back(Unary<double, double>(
      "rsqrt.approx.f64", "rsqrt.approx.f64 %d, %a;", {0.25, 2.0, 3.0, 1e10, 0.7, 1e-300},
      [](double a) { return 1 / std::sqrt(a); }, 2.3e-16));
}

template <typename To, typename From>
To Rounded(From a) {
  if (std::isnan(a)) return std::is_same_v<From, double> ? std::numeric_limits<To>::min() : To(0);
  const double r = std::nearbyint(static_cast<double>(a));
  return static_cast<To>(std::min<double>(std::max<double>(r, std::numeric_limits<To>::min()),
                                          std::numeric_limits<To>::max()));
}

void AddConversions(Cases* out) {
  const std::vector<float> f{0.0f, 0.5f, 1.5f, -2.5f, 127.4f, 300.0f, -300.0f, 1e20f, -1e20f};
  const std::vector<double> g{0.0, 0.5, 1.5, -2.5, 127.4, 300.0, -300.0, 1e20, -1e20};
  out->push_back(Unary<int32_t, float>("cvt.rni.sat.s32.f32", "cvt.rni.sat.s32.f32 %d, %a;", f,
                                       Rounded<int32_t, float>));
  out->push_back(Unary<int32_t, double>("cvt.rni.sat.s32.f64", "cvt.rni.sat.s32.f64 %d, %a;", g,
                                        Rounded<int32_t, double>));
  out->push_back(Unary<int32_t, float>("cvt.rni.sat.s8.f32", "cvt.rni.sat.s8.f32 %d, %a;", f,
                                       Rounded<int8_t, float>));
  out->push_back(Unary<int32_t, double>("cvt.rni.sat.s8.f64", "cvt.rni.sat.s8.f64 %d, %a;", g,
                                        Rounded<int8_t, double>));
}

void AddPredicates(Cases* out) {
  const std::vector<Word> v{0, 1, 5, 0x80000000, 0xffffffff};
  out->push_back(Binary<Word, Word, Word>(
      "setp.ne.and.b32",
      "setp.lt.u32 %q, %a, 6;\n  setp.ne.and.b32 %pp, %a, %b, %q;\n  selp.u32 %d, 1, 0, %pp;", v, v,
      [](Word a, Word b) { return Word{a != b && a < 6}; }));
  out->push_back(Binary<Word, Word, Word>(
      "setp.eq.and.u32",
      "setp.lt.u32 %q, %a, 6;\n  setp.eq.and.u32 %pp, %a, %b, %q;\n  selp.u32 %d, 1, 0, %pp;", v, v,
      [](Word a, Word b) { return Word{a == b && a < 6}; }));
  out->push_back(Unary<Word, Word>("mul.rm.f32x2",
                                   "mov.b64 %u0, {%a, 0f3F800001};\n  mov.b64 %u1, {0f3F800001, "
                                   "0f3F800001};\n  mul.rm.f32x2 %u2, %u0, %u1;\n  mov.b64 {%d, "
                                   "%t0}, %u2;\n  xor.b32 %d, %d, %t0;",
                                   {0x3f800001, 0xbf800001, 0x40490fdb}, [](Word a) {
                                     auto down = [](Word x) {
                                       const double exact = double{std::bit_cast<float>(x)} *
                                                            std::bit_cast<float>(0x3f800001u);
                                       float r = static_cast<float>(exact);
                                       if (r > exact) r = std::nextafter(r, -INFINITY);
                                       return std::bit_cast<Word>(r);
                                     };
                                     return down(a) ^ down(0x3f800001);
                                   }));
}

// Whole warps; the words that come out are known for each lane.
// Long: a list of cases.
void AddWarps(Cases* out) {
  auto add = [&](const std::string& name, const std::string& body, std::function<Word(Word)> lane,
                 const std::string& more = "") {
    Case c;
    c.name = name;
    c.ptx =
        ".version 8.8\n.target sm_100\n.address_size 64\n.visible .entry k(.param .u64 p_d)\n{\n"
        "  .reg .pred %p<4>;\n  .reg .b32 %tid, %d, %r<8>;\n  .reg .b64 %rd<8>;\n  .reg .b128 "
        "%q;\n" +
        more + "  mov.u32 %tid, %tid.x;\n" + body +
        "  ld.param.u64 %rd6, [p_d];\n  mul.wide.u32 %rd7, %tid, 4;\n  add.u64 %rd6, %rd6, "
        "%rd7;\n  st.global.u32 [%rd6], %d;\n  ret;\n}\n";
    c.block.x = 32;
    std::vector<Word> want;
    for (Word i = 0; i < 32; ++i) want.push_back(lane(i));
    c.arguments = {Output(want)};
    out->push_back(c);
  };
  add("elect.sync",
      "  elect.sync %r1|%p1, 0xffffffff;\n  selp.u32 %d, 100, 0, %p1;\n  add.u32 %d, "
      "%d, %r1;\n",
      [](Word i) { return i == 0 ? 100u : 0u; });
  add("elect.sync of some",
      "  setp.lt.u32 %p2, %tid, 5;\n  mov.u32 %d, 7;\n  @%p2 bra OVER;\n  elect.sync %r1|%p1, "
      "0xffffffe0;\n  selp.u32 %d, 100, 0, %p1;\n  add.u32 %d, %d, %r1;\nOVER:\n",
      [](Word i) { return i < 5    ? 7u
                          : i == 5 ? 105u
                                   : 5u; });
  add("vote.ballot.sync.b32",
      "  setp.gt.u32 %p1, %tid, 20;\n  vote.ballot.sync.b32 %d, %p1, 0xffffffff;\n",
      [](Word) { return 0xffe00000u; });
  add("barrier.red.or.pred",
      "  setp.eq.u32 %p1, %tid, 31;\n  barrier.red.or.pred %p2, 1, %p1;\n  selp.u32 %d, 3, 4, "
      "%p2;\n",
      [](Word) { return 3u; });
  add(
      "ld.shared::cta.b128",
      "  shl.b32 %r1, %tid, 4;\n  mov.u32 %r2, area;\n  add.u32 %r1, %r1, %r2;\n  st.shared.u32 "
      "[%r1], "
      "%tid;\n  st.shared.u32 [%r1+4], 10;\n  st.shared.u32 [%r1+8], 200;\n  st.shared.u32 "
      "[%r1+12], "
      "3000;\n  ld.shared::cta.b128 %q, [%r1];\n  mov.b128 {%rd1, %rd2}, %q;\n  shr.u64 %rd3, "
      "%rd1, "
      "32;\n  shr.u64 %rd4, %rd2, 32;\n  add.u64 %rd1, %rd1, %rd2;\n  add.u64 %rd3, %rd3, %rd4;\n  "
      "add.u64 %rd1, %rd1, %rd3;\n  cvt.u32.u64 %d, %rd1;\n",
      [](Word i) { return i + 3210; }, "  .shared .align 16 .b8 area[512];\n");
  add(
      "cvta.shared::cta.u64",
      "  shl.b32 %r1, %tid, 2;\n  cvt.u64.u32 %rd1, %r1;\n  mov.u64 %rd2, area;\n  "
      "cvta.shared::cta.u64 "
      "%rd2, %rd2;\n  add.u64 %rd2, %rd2, %rd1;\n  add.u32 %r2, %tid, 9;\n  st.u32 [%rd2], %r2;\n  "
      "mov.u32 "
      "%r3, area;\n  add.u32 %r3, %r3, %r1;\n  ld.shared.u32 %d, [%r3];\n",
      [](Word i) { return i + 9; }, "  .shared .align 16 .b8 area[512];\n");
  // Rows of 8 halves: element = matrix << 8 | row << 4 | column.
  for (const bool trans : {false, true}) {
    const std::string op =
        std::string("ldmatrix.sync.aligned.x4.") + (trans ? "trans." : "") + "m8n8.shared.b16";
    add(
        op,
        "  shl.b32 %r1, %tid, 4;\n  mov.u32 %r2, area;\n  add.u32 %r1, %r1, %r2;\n  shr.u32 %r3, "
        "%tid, "
        "3;\n  shl.b32 %r3, %r3, 8;\n  and.b32 %r4, %tid, 7;\n  shl.b32 %r4, %r4, 4;\n  or.b32 "
        "%r3, %r3, "
        "%r4;\n  mul.lo.u32 %r3, %r3, 65537;\n  add.u32 %r3, %r3, 0x00010000;\n  st.shared.u32 "
        "[%r1], "
        "%r3;\n  add.u32 %r3, %r3, 0x00020002;\n  st.shared.u32 [%r1+4], %r3;\n  add.u32 %r3, %r3, "
        "0x00020002;\n  st.shared.u32 [%r1+8], %r3;\n  add.u32 %r3, %r3, 0x00020002;\n  "
        "st.shared.u32 "
        "[%r1+12], %r3;\n  bar.warp.sync -1;\n  " +
            op +
            " {%r4, %r5, %r6, %r7}, [%r1];\n  mad.lo.u32 %d, %r5, 3, %r4;\n  mad.lo.u32 %d, %r6, "
            "5, %d;\n  "
            "mad.lo.u32 %d, %r7, 7, %d;\n",
        [=](Word lane) {
          Word sum = 0;
          for (Word q = 0; q < 4; ++q) {
            Word pair = 0;
            for (Word i = 0; i < 2; ++i) {
              const Word r = lane / 4, c = 2 * (lane % 4) + i;
              pair |= (q << 8 | (trans ? c << 4 | r : r << 4 | c)) << (16 * i);
            }
            sum += pair * (q == 0 ? 1 : 2 * q + 1);
          }
          return sum;
        },
        "  .shared .align 16 .b8 area[512];\n");
  }
  // mbarriers by their longer names.
  add(
      "mbarrier.arrive.expect_tx.shared::cta.b64",
      "  setp.ne.u32 %p1, %tid, 0;\n  mov.u32 %d, 1;\n  @%p1 bra OVER;\n"
      "  mbarrier.init.shared::cta.b64 [bar], 2;\n"
      "  mbarrier.arrive.expect_tx.shared::cta.b64 %rd1, [bar], 16;\n"
      "  mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd2, [bar], 32;\n"
      "  mbarrier.try_wait.shared::cta.b64 %p2, [bar], %rd1;\n  selp.u32 %d, 100, 0, %p2;\n"
      "  mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 48;\n"
      "  mbarrier.try_wait.shared::cta.b64 %p2, [bar], %rd2;\n  selp.u32 %r1, 10, 0, %p2;\n"
      "  add.u32 %d, %d, %r1;\nOVER:\n",
      [](Word i) { return i == 0 ? 10u : 1u; }, "  .shared .align 8 .b64 bar;\n");
}

}  // namespace

void AddLibraryCases(Cases* out) {
  AddLateFlush(out);
  AddConversions(out);
  AddPredicates(out);
  AddWarps(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
