// SPDX-License-Identifier: Apache-2.0
// atom and red: results that hold for every order of the threads.
#include <algorithm>
#include <string>

#include "tests/ptx/corpus/elementwise.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
constexpr uint32_t kThreads = 64, kBlocks = 2;

// k(cell, a, seen): thread i applies `op` to cell with a[i]; `seen` collects what atom returned, or
// is left alone.
template <typename T>
Case Atomic(const std::string& name, const std::string& type, const std::string& body, T before,
            const std::vector<T>& in, T after) {
  const std::string width = std::to_string(8 * sizeof(T)), size = std::to_string(sizeof(T));
  const bool floating = type == "f32" || type == "f64";
  const std::string reg = (floating ? "." : ".b") + (floating ? type : width);
  Case c;
  c.name = name;
  c.ptx =
      ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p_cell, .param "
      ".u64 p_a)\n{\n"
      "  .reg .pred %p;\n  .reg .b32 %i, %r<4>;\n  .reg .b64 %rd<6>;\n  .reg " +
      reg +
      " %a, %old, %t;\n"
      "  ld.param.u64 %rd1, [p_cell];\n  ld.param.u64 %rd2, [p_a];\n  cvta.to.global.u64 %rd1, "
      "%rd1;\n  cvta.to.global.u64 %rd2, %rd2;\n"
      "  mov.u32 %i, %tid.x;\n  mov.u32 %r1, %ctaid.x;\n  mad.lo.s32 %i, %r1, " +
      std::to_string(kThreads) +
      ", %i;\n"
      "  mul.wide.u32 %rd3, %i, " +
      size + ";\n  add.s64 %rd4, %rd2, %rd3;\n  ld.global" + reg + " %a, [%rd4];\n  " + body +
      "\n  ret;\n}\n";
  c.block.x = kThreads;
  c.grid.x = kBlocks;
  c.arguments.push_back(InOut<T>({before}, {after}));
  c.arguments.push_back(Input(in));
  return c;
}

template <typename T>
std::vector<T> Inputs() {
  std::vector<T> v;
  for (uint32_t i = 0; i < kThreads * kBlocks; ++i)
    v.push_back(static_cast<T>(static_cast<int64_t>(i * 37 % 101) - 50));
  return v;
}

template <typename T>
void AddReductions(Cases* out, const std::string& type, bool is_float) {
  const auto in = Inputs<T>();
  T sum = 5, low = 5, high = 5;
  for (T x : in) {
    sum = static_cast<T>(sum + x);
    low = std::min(low, x);
    high = std::max(high, x);
  }
  auto both = [&](const std::string& op, T want) {
    out->push_back(Atomic<T>("atom.global." + op + "." + type, type,
                             "atom.global." + op + "." + type + " %old, [%rd1], %a;", 5, in, want));
    out->push_back(Atomic<T>("red.global." + op + "." + type, type,
                             "red.global." + op + "." + type + " [%rd1], %a;", 5, in, want));
  };
  both("add", sum);
  if (is_float) return;
  both("min", low);
  both("max", high);
}

template <typename T>
void AddBitwise(Cases* out, const std::string& type) {
  const auto in = Inputs<T>();
  T all = static_cast<T>(0x0f0f0f0f0f0f0f0full), any = all, odd = all;
  for (T x : in) {
    all = static_cast<T>(all & x);
    any = static_cast<T>(any | x);
    odd = static_cast<T>(odd ^ x);
  }
  const T before = static_cast<T>(0x0f0f0f0f0f0f0f0full);
  for (auto [op, want] : {std::pair<const char*, T>{"and", all}, {"or", any}, {"xor", odd}}) {
    const std::string name = std::string("atom.global.") + op + "." + type;
    out->push_back(Atomic<T>(name, type, name + " %old, [%rd1], %a;", before, in, want));
  }
}

void AddExchanges(Cases* out) {
  const std::vector<uint32_t> in(kThreads * kBlocks, 9);
  // All write the same value.
  out->push_back(Atomic<uint32_t>("atom.global.exch.b32", "b32",
                                  "atom.global.exch.b32 %old, [%rd1], %a;", 1, in, 9));
  out->push_back(Atomic<uint32_t>("atom.exch.b32", "b32",
                                  "cvta.global.u64 %rd5, %rd1;\n  atom.exch.b32 %old, [%rd5], 12;",
                                  1, in, 12));
  // Exactly one compare-and-swap of each value succeeds: a ticket counter by cas loop.
  for (const std::string width : {"32", "64"}) {
    const std::string body = "ld.global.b" + width + " %t, [%rd1];\nAGAIN:\n  add.u" + width +
                             " %a, %t, 3;\n  atom.global.cas.b" + width +
                             " %old, [%rd1], %t, %a;\n  setp.ne.s" + width +
                             " %p, %old, %t;\n  mov.b" + width + " %t, %old;\n  @%p bra AGAIN;";
    const uint32_t n = 3 * kThreads * kBlocks;
    if (width == "32") {
      out->push_back(Atomic<uint32_t>("atom.global.cas.b32", "b32", body, 0, in, n));
    } else {
      out->push_back(Atomic<uint64_t>("atom.global.cas.b64", "b64", body, 0,
                                      std::vector<uint64_t>(kThreads * kBlocks), n));
    }
  }
  // inc wraps to 0 past its bound, dec to the bound below 1: 128 steps over a ring of 11.
  out->push_back(Atomic<uint32_t>("atom.global.inc.u32", "u32",
                                  "atom.global.inc.u32 %old, [%rd1], 10;", 4, in, (4 + 128) % 11));
  out->push_back(Atomic<uint32_t>("atom.global.dec.u32", "u32",
                                  "atom.global.dec.u32 %old, [%rd1], 10;", 4, in,
                                  (4 + 11 * 12 - 128) % 11));
  for (const std::string op :
       {"atom.relaxed.gpu.global.add.u32", "atom.acq_rel.sys.global.add.u32", "atom.add.u32"}) {
    out->push_back(
        Atomic<uint32_t>(op, "u32", op + " %old, [%rd1], %a;", 1, in, 1 + 9 * kThreads * kBlocks));
  }
  out->push_back(Atomic<uint16_t>("atom.global.cas.b16", "b16",
                                  "atom.global.cas.b16 %old, [%rd1], 5, 6;", 5,
                                  std::vector<uint16_t>(kThreads * kBlocks), 6));
  // Only thread 0 adds: one rounding, known result. 1.5 + 2.25 and -1 + 0.5 in halves.
  const std::string only = "setp.ne.u32 %p, %i, 0;\n  @%p ret;\n  mov.b32 %r2, 0x38004080;\n  ";
  out->push_back(Atomic<uint32_t>("atom.global.add.noftz.f16x2", "b32",
                                  only + "atom.global.add.noftz.f16x2 %old, [%rd1], %r2;",
                                  0xbc003e00, in, 0xb8004380));
  out->push_back(Atomic<uint32_t>("red.global.add.noftz.f16x2", "b32",
                                  only + "red.global.add.noftz.f16x2 [%rd1], %r2;", 0xbc003e00, in,
                                  0xb8004380));
}

// A block's histogram in shared memory, then added to the global one.
void AddShared(Cases* out) {
  Case c;
  c.name = "atom.shared.add.u32";
  c.ptx = R"(.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p_d, .param .u64 p_a)
{
  .reg .pred %p;
  .reg .b32 %r<10>;
  .reg .b64 %rd<8>;
  .shared .align 4 .b8 bins[32];
  ld.param.u64 %rd1, [p_d];
  ld.param.u64 %rd2, [p_a];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r1, %tid.x;
  setp.gt.u32 %p, %r1, 7;
  mov.u32 %r2, bins;
  shl.b32 %r3, %r1, 2;
  add.s32 %r4, %r2, %r3;
  @!%p st.shared.u32 [%r4], 0;
  bar.sync 0;
  mov.u32 %r5, %ctaid.x;
  mad.lo.s32 %r5, %r5, 64, %r1;
  mul.wide.u32 %rd3, %r5, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r6, [%rd4];
  and.b32 %r6, %r6, 7;
  shl.b32 %r6, %r6, 2;
  add.s32 %r7, %r2, %r6;
  atom.shared.add.u32 %r8, [%r7], 1;
  bar.sync 0;
  @%p ret;
  ld.shared.u32 %r9, [%r4];
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd1, %rd5;
  red.global.add.u32 [%rd6], %r9;
  ret;
}
)";
  c.block.x = kThreads;
  c.grid.x = kBlocks;
  std::vector<uint32_t> in, bins(8);
  for (uint32_t i = 0; i < kThreads * kBlocks; ++i) {
    in.push_back(i * i + i / 3);
    ++bins[in.back() & 7];
  }
  c.arguments.push_back(InOut(std::vector<uint32_t>(8), bins));
  c.arguments.push_back(Input(in));
  out->push_back(c);
}

}  // namespace

void AddAtomicCases(Cases* out) {
  AddReductions<uint32_t>(out, "u32", false);
  AddReductions<int32_t>(out, "s32", false);
  AddReductions<uint64_t>(out, "u64", false);
  AddReductions<float>(out, "f32", true);  // integers of this size add exactly in any order
  AddReductions<double>(out, "f64", true);
  AddBitwise<uint32_t>(out, "b32");
  AddBitwise<uint64_t>(out, "b64");
  AddExchanges(out);
  AddShared(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
