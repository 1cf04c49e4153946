// SPDX-License-Identifier: Apache-2.0
// Barriers, shuffles, votes, match, redux, active masks, special registers.
#include <algorithm>
#include <bit>
#include <functional>
#include <string>

#include "tests/ptx/corpus/elementwise.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using Word = uint32_t;

const char kProlog[] =
    ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p_d, .param .u64 "
    "p_a)\n{\n"
    "  .reg .pred %p<8>;\n  .reg .b16 %h<4>;\n  .reg .b32 %r<24>, %a, %d, %tid, %lane;\n  .reg "
    ".b64 %rd<8>, %off;\n  .reg .f32 %f<8>;\n"
    "  .shared .align 16 .b8 area[4096];\n"
    "  ld.param.u64 %rd1, [p_d];\n  ld.param.u64 %rd2, [p_a];\n  cvta.to.global.u64 %rd1, %rd1;\n  "
    "cvta.to.global.u64 %rd2, %rd2;\n"
    "  mov.u32 %tid, %tid.x;\n  mov.u32 %lane, %laneid;\n  mul.wide.u32 %off, %tid, 4;\n  add.s64 "
    "%rd1, %rd1, %off;\n  add.s64 %rd2, %rd2, %off;\n"
    "  ld.global.u32 %a, [%rd2];\n  mov.u32 %d, 0xEEEEEEEE;\n";
const char kEpilog[] = "\n  st.global.u32 [%rd1], %d;\n  ret;\n}\n";

std::vector<Word> Inputs(Word threads) {
  std::vector<Word> v;
  for (Word i = 0; i < threads; ++i) v.push_back(i * 2654435761u >> 7 ^ i);
  return v;
}

// One word in, one out, per thread of one block. expected(a, i): of thread i, given all inputs.
Case Warp(const std::string& name, const std::string& body, const std::vector<Word>& in,
          const std::function<Word(const std::vector<Word>&, Word)>& expected) {
  Case c;
  c.name = name;
  c.ptx = kProlog + ("  " + body) + kEpilog;
  c.block.x = static_cast<Word>(in.size());
  std::vector<Word> want;
  for (Word i = 0; i < in.size(); ++i) want.push_back(expected(in, i));
  c.arguments.push_back(Output(want));
  c.arguments.push_back(Input(in));
  return c;
}

using In = const std::vector<Word>&;

void AddShuffles(Cases* out) {
  const auto in = Inputs(64);
  const std::string tail =
      ", 0xFFFFFFFF;\n  selp.u32 %r2, 0x80000000, 0, %p1;\n  and.b32 %r1, %r1, 0x7FFFFFFF;\n  "
      "or.b32 %d, %r1, %r2;";
  auto pack = [](Word value, bool in_range) {
    return (value & 0x7fffffff) | (in_range ? 0x80000000u : 0);
  };
  for (Word delta : {0u, 1u, 5u, 16u, 31u}) {
    const std::string n = std::to_string(delta);
    out->push_back(Warp("shfl.sync.down." + n,
                        "shfl.sync.down.b32 %r1|%p1, %a, " + n + ", 31" + tail, in,
                        [=](In a, Word i) {
                          Word lane = i % 32, base = i - lane;
                          bool ok = lane + delta < 32;
                          return pack(a[base + (ok ? lane + delta : lane)], ok);
                        }));
    out->push_back(Warp("shfl.sync.up." + n, "shfl.sync.up.b32 %r1|%p1, %a, " + n + ", 0" + tail,
                        in, [=](In a, Word i) {
                          Word lane = i % 32, base = i - lane;
                          bool ok = lane >= delta;
                          return pack(a[base + (ok ? lane - delta : lane)], ok);
                        }));
    out->push_back(
        Warp("shfl.sync.bfly." + n, "shfl.sync.bfly.b32 %r1|%p1, %a, " + n + ", 31" + tail, in,
             [=](In a, Word i) { return pack(a[(i & ~31u) + ((i & 31) ^ delta)], true); }));
    out->push_back(Warp("shfl.sync.idx." + n, "shfl.sync.idx.b32 %r1|%p1, %a, " + n + ", 31" + tail,
                        in, [=](In a, Word i) { return pack(a[(i & ~31u) + delta], true); }));
  }
  // Segments of 8: c = (32 - 8) << 8 | 31, as __shfl_*_sync(..., 8) compiles to; up has 0 in the
  // low bits.
  out->push_back(Warp("shfl.sync.down.width8", "shfl.sync.down.b32 %r1|%p1, %a, 3, 0x181F" + tail,
                      in, [=](In a, Word i) {
                        bool ok = i % 8 + 3 < 8;
                        return pack(a[ok ? i + 3 : i], ok);
                      }));
  out->push_back(Warp("shfl.sync.up.width8", "shfl.sync.up.b32 %r1|%p1, %a, 3, 0x1800" + tail, in,
                      [=](In a, Word i) {
                        bool ok = i % 8 >= 3;
                        return pack(a[ok ? i - 3 : i], ok);
                      }));
  out->push_back(Warp("shfl.sync.idx.width8", "shfl.sync.idx.b32 %r1|%p1, %a, %lane, 0x181F" + tail,
                      in, [=](In a, Word i) { return pack(a[i / 8 * 8 + i % 8], true); }));
  out->push_back(Warp("shfl.sync.idx.variable",
                      "sub.u32 %r3, 31, %lane;\n  shfl.sync.idx.b32 %d, %a, %r3, 31, -1;", in,
                      [](In a, Word i) { return a[(i & ~31u) + 31 - i % 32]; }));
  // Destination is source: every lane's value is read before any is written.
  out->push_back(Warp("shfl.sync.inplace",
                      "shfl.sync.bfly.b32 %a, %a, 1, 31, -1;\n  mov.b32 %d, %a;", in,
                      [](In a, Word i) { return a[i ^ 1]; }));
  // Divergent halves, each with its own mask.
  out->push_back(Warp("shfl.sync.divergent",
                      "setp.lt.u32 %p1, %lane, 16;\n  @%p1 bra LOW;\n  shfl.sync.bfly.b32 %d, %a, "
                      "2, 31, 0xFFFF0000;\n  add.u32 %d, %d, 1;\n  bra JOIN;\n"
                      "LOW:\n  shfl.sync.bfly.b32 %d, %a, 4, 31, 0x0000FFFF;\nJOIN:",
                      in, [](In a, Word i) { return i % 32 < 16 ? a[i ^ 4] : a[i ^ 2] + 1; }));
  // The sum of a warp by a butterfly of floats kept in .b32.
  out->push_back(Warp("shfl.sync.reduce",
                      "cvt.rn.f32.u32 %f1, %lane;\n  mov.b32 %r1, %f1;\n  shfl.sync.bfly.b32 %r2, "
                      "%r1, 16, 31, -1;\n  mov.b32 %f2, %r2;\n  add.f32 %f1, %f1, %f2;\n"
                      "  mov.b32 %r1, %f1;\n  shfl.sync.bfly.b32 %r2, %r1, 8, 31, -1;\n  mov.b32 "
                      "%f2, %r2;\n  add.f32 %f1, %f1, %f2;\n"
                      "  mov.b32 %r1, %f1;\n  shfl.sync.bfly.b32 %r2, %r1, 4, 31, -1;\n  mov.b32 "
                      "%f2, %r2;\n  add.f32 %f1, %f1, %f2;\n"
                      "  mov.b32 %r1, %f1;\n  shfl.sync.bfly.b32 %r2, %r1, 2, 31, -1;\n  mov.b32 "
                      "%f2, %r2;\n  add.f32 %f1, %f1, %f2;\n"
                      "  mov.b32 %r1, %f1;\n  shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;\n  mov.b32 "
                      "%f2, %r2;\n  add.f32 %f1, %f1, %f2;\n  cvt.rzi.u32.f32 %d, %f1;",
                      in, [](In, Word) { return 496u; }));
}

Word Ballot(In a, Word i, const std::function<bool(Word)>& test) {
  Word mask = 0;
  for (Word lane = 0; lane < 32 && (i & ~31u) + lane < a.size(); ++lane)
    if (test(a[(i & ~31u) + lane])) mask |= 1u << lane;
  return mask;
}

void AddVotes(Cases* out) {
  const auto in = Inputs(64);
  auto odd = [](Word x) { return (x & 1) != 0; };
  const std::string test = "and.b32 %r1, %a, 1;\n  setp.ne.u32 %p1, %r1, 0;\n  ";
  out->push_back(Warp("vote.sync.ballot.b32", test + "vote.sync.ballot.b32 %d, %p1, -1;", in,
                      [=](In a, Word i) { return Ballot(a, i, odd); }));
  out->push_back(Warp("vote.sync.ballot.negated", test + "vote.sync.ballot.b32 %d, !%p1, -1;", in,
                      [=](In a, Word i) { return ~Ballot(a, i, odd); }));
  // Lanes whose input is below a bound: the first warp's all agree, the second's do not.
  std::vector<Word> steps;
  for (Word i = 0; i < 64; ++i) steps.push_back(i);
  const std::string low = "setp.lt.u32 %p1, %a, 40;\n  ", give = "\n  selp.u32 %d, 1, 0, %p2;";
  out->push_back(Warp("vote.sync.all.pred", low + "vote.sync.all.pred %p2, %p1, -1;" + give, steps,
                      [](In, Word i) { return Word{i < 32}; }));
  out->push_back(Warp("vote.sync.any.pred",
                      "setp.gt.u32 %p1, %a, 40;\n  vote.sync.any.pred %p2, %p1, -1;" + give, steps,
                      [](In, Word i) { return Word{i >= 32}; }));
  out->push_back(Warp("vote.sync.uni.pred", low + "vote.sync.uni.pred %p2, %p1, -1;" + give, steps,
                      [](In, Word i) { return Word{i < 32}; }));
  out->push_back(
      Warp("activemask.b32", "activemask.b32 %d;", Inputs(32), [](In, Word) { return ~0u; }));
  out->push_back(Warp("activemask.b32.tail", "activemask.b32 %d;", Inputs(40),
                      [](In, Word i) { return i < 32 ? ~0u : 0xffu; }));
  // Lanes that left are not waited for.
  Case early = Warp("vote.sync.early.exit",
                    "setp.lt.u32 %p1, %lane, 8;\n  st.global.u32 [%rd1], 5;\n  @%p1 ret;\n  "
                    "setp.gt.u32 %p2, %lane, 9;\n  vote.sync.ballot.b32 %d, %p2, 0xFFFFFF00;",
                    Inputs(32), [](In, Word i) { return i < 8 ? 5 : 0xfffffc00; });
  out->push_back(early);
}

void AddMatches(Cases* out) {
  std::vector<Word> in;
  for (Word i = 0; i < 64; ++i) in.push_back(i < 32 ? i % 3 : 7);
  auto same = [](In a, Word i) { return Ballot(a, i, [&](Word x) { return x == a[i]; }); };
  out->push_back(Warp("match.any.sync.b32", "match.any.sync.b32 %d, %a, -1;", in, same));
  out->push_back(
      Warp("match.any.sync.b64",
           "cvt.u64.u32 %rd3, %a;\n  shl.b64 %rd3, %rd3, 33;\n  match.any.sync.b64 %d, %rd3, -1;",
           in, same));
  out->push_back(Warp("match.all.sync.b32",
                      "match.all.sync.b32 %r1|%p1, %a, -1;\n  selp.u32 %r2, 1, 2, %p1;\n  "
                      "mad.lo.u32 %d, %r1, 4, %r2;",
                      in, [](In, Word i) { return i < 32 ? 2u : 0xfffffffdu; }));
}

void AddRedux(Cases* out) {
  const auto in = Inputs(64);
  auto fold = [](In a, Word i, std::function<Word(Word, Word)> f) {
    Word r = a[i & ~31u];
    for (Word lane = 1; lane < 32; ++lane) r = f(r, a[(i & ~31u) + lane]);
    return r;
  };
  auto add = [&](const std::string& op, std::function<Word(Word, Word)> f) {
    out->push_back(Warp("redux.sync." + op, "redux.sync." + op + " %d, %a, -1;", in,
                        [=](In a, Word i) { return fold(a, i, f); }));
  };
  auto as_signed = [](Word x) { return static_cast<int32_t>(x); };
  add("add.u32", [](Word x, Word y) { return x + y; });
  add("add.s32", [](Word x, Word y) { return x + y; });
  add("min.u32", [](Word x, Word y) { return std::min(x, y); });
  add("max.u32", [](Word x, Word y) { return std::max(x, y); });
  add("min.s32", [=](Word x, Word y) { return as_signed(x) < as_signed(y) ? x : y; });
  add("max.s32", [=](Word x, Word y) { return as_signed(x) < as_signed(y) ? y : x; });
  add("and.b32", [](Word x, Word y) { return x & y; });
  add("or.b32", [](Word x, Word y) { return x | y; });
  add("xor.b32", [](Word x, Word y) { return x ^ y; });
}

void AddBarriers(Cases* out) {
  const auto in = Inputs(96);
  const std::string slot =
      "mov.u32 %r1, area;\n  shl.b32 %r2, %tid, 2;\n  add.s32 %r3, %r1, %r2;\n  st.shared.u32 "
      "[%r3], %a;\n  ";
  const std::string read =
      "\n  sub.u32 %r4, 95, %tid;\n  shl.b32 %r4, %r4, 2;\n  add.s32 %r5, %r1, %r4;\n  "
      "ld.shared.u32 %d, [%r5];";
  auto mirrored = [](In a, Word i) { return a[95 - i]; };
  for (const std::string op :
       {"bar.sync 0", "barrier.sync 0", "barrier.sync.aligned 0", "bar.sync 3, 96",
        "barrier.cta.sync 1", "barrier.cta.sync.aligned 2, 96"})
    out->push_back(Warp(op, slot + op + ";" + read, in, mirrored));
  out->push_back(
      Warp("bar.red.popc.u32",
           "and.b32 %r1, %tid, 3;\n  setp.eq.u32 %p1, %r1, 0;\n  bar.red.popc.u32 %d, 0, %p1;", in,
           [](In, Word) { return 24u; }));
  out->push_back(
      Warp("bar.red.and.pred",
           "setp.lt.u32 %p1, %tid, 95;\n  bar.red.and.pred %p2, 0, %p1;\n  bar.red.or.pred %p3, 0, "
           "!%p1;\n  selp.u32 %r1, 1, 0, %p2;\n  selp.u32 %r2, 2, 0, %p3;\n  or.b32 %d, %r1, %r2;",
           in, [](In, Word) { return 2u; }));
  // Warps 1 and 2 produce and arrive; warp 0 waits for all 96.
  out->push_back(Warp("bar.arrive",
                      slot + "setp.ge.u32 %p1, %tid, 32;\n  @%p1 bar.arrive 5, 96;\n  mov.u32 %d, "
                             "1;\n  @%p1 bra DONE;\n  bar.sync 5, 96;\n"
                             "  add.s32 %r5, %r3, 128;\n  ld.shared.u32 %d, [%r5];\n  "
                             "ld.shared.u32 %r6, [%r5+128];\n  xor.b32 %d, %d, %r6;\nDONE:",
                      in, [](In a, Word i) { return i < 32 ? a[i + 32] ^ a[i + 64] : 1u; }));
  // Threads that have left count as arrived.
  out->push_back(Warp(
      "bar.sync.after.exit",
      slot + "setp.ge.u32 %p1, %tid, 64;\n  st.global.u32 [%rd1], 3;\n  @%p1 exit;\n  bar.sync "
             "0;\n  xor.b32 %r4, %r2, 252;\n  add.s32 %r5, %r1, %r4;\n  ld.shared.u32 %d, [%r5];",
      in, [](In a, Word i) { return i >= 64 ? 3u : a[i ^ 63]; }));
  out->push_back(Warp("bar.warp.sync",
                      slot + "bar.warp.sync 0xFFFFFFFF;\n  xor.b32 %r4, %r2, 124;\n  add.s32 %r5, "
                             "%r1, %r4;\n  ld.shared.u32 %d, [%r5];",
                      in, [](In a, Word i) { return a[i ^ 31]; }));
  // A tree sum, a barrier each round.
  out->push_back(
      Warp("bar.sync.reduce",
           slot + "mov.u32 %r6, 64;\nROUND:\n  bar.sync 0;\n  setp.lt.u32 %p1, %tid, %r6;\n  "
                  "add.u32 %r7, %tid, %r6;\n  setp.lt.and.u32 %p2, %r7, 96, %p1;\n  shl.b32 %r8, "
                  "%r6, 2;\n  add.s32 %r9, %r3, %r8;\n"
                  "  @!%p2 bra NEXT;\n  ld.shared.u32 %r10, [%r3];\n  ld.shared.u32 %r11, [%r9];\n "
                  " add.u32 %r10, %r10, %r11;\n  st.shared.u32 [%r3], %r10;\nNEXT:\n  shr.u32 %r6, "
                  "%r6, 1;\n  setp.ne.u32 %p3, %r6, 0;\n  @%p3 bra ROUND;\n"
                  "  bar.sync 0;\n  ld.shared.u32 %d, [area];",
           in, [](In a, Word) {
             Word sum = 0;
             for (Word x : a) sum += x;
             return sum;
           }));
}

void AddSpecialRegisters(Cases* out) {
  const std::vector<Word> in(64);
  auto add = [&](const std::string& name, std::function<Word(Word)> f) {
    out->push_back(
        Warp("mov.u32." + name, "mov.u32 %d, " + name + ";", in, [=](In, Word i) { return f(i); }));
  };
  add("%tid.x", [](Word i) { return i; });
  add("%tid.y", [](Word) { return 0u; });
  add("%ntid.x", [](Word) { return 64u; });
  add("%nctaid.x", [](Word) { return 1u; });
  add("%laneid", [](Word i) { return i % 32; });
  add("%lanemask_eq", [](Word i) { return 1u << i % 32; });
  add("%lanemask_lt", [](Word i) { return (1u << i % 32) - 1; });
  add("%lanemask_le", [](Word i) { return (2u << i % 32) - 1; });
  add("%lanemask_gt", [](Word i) { return ~((2u << i % 32) - 1); });
  add("%lanemask_ge", [](Word i) { return ~((1u << i % 32) - 1); });
  add("WARP_SZ", [](Word) { return 32u; });
  // A three-dimensional launch: every thread writes its own linear number.
  Case c;
  c.name = "mov.u32.geometry";
  c.ptx = R"(.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p_d)
{
  .reg .b32 %r<24>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [p_d];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %tid.y;
  mov.u32 %r3, %tid.z;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ctaid.y;
  mov.u32 %r6, %ctaid.z;
  mov.u32 %r7, %ntid.x;
  mov.u32 %r8, %ntid.y;
  mov.u32 %r9, %ntid.z;
  mov.u32 %r10, %nctaid.x;
  mov.u32 %r11, %nctaid.y;
  mad.lo.u32 %r12, %r6, %r11, %r5;
  mad.lo.u32 %r12, %r12, %r10, %r4;
  mad.lo.u32 %r12, %r12, %r9, %r3;
  mad.lo.u32 %r12, %r12, %r8, %r2;
  mad.lo.u32 %r12, %r12, %r7, %r1;
  mul.wide.u32 %rd2, %r12, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r12;
  ret;
}
)";
  c.grid = {2, 3, 2};
  c.block = {4, 2, 3};
  std::vector<Word> want;
  for (Word i = 0; i < 12 * 24; ++i) want.push_back(i);
  c.arguments.push_back(Output(want));
  out->push_back(c);
}

}  // namespace

void AddWarpCases(Cases* out) {
  AddShuffles(out);
  AddVotes(out);
  AddMatches(out);
  AddRedux(out);
  AddBarriers(out);
  AddSpecialRegisters(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
