// SPDX-License-Identifier: Apache-2.0
// mbarrier, cp.async with mbarriers, bulk copies, clusters. A case's threads wait as programs do,
// so an arrival or a byte that does not count ends in a deadlock or a timeout.
#include <string>

#include "tests/ptx/corpus/elementwise.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using Words = std::vector<uint32_t>;

// A kernel k(d, a): %d and %a hold the addresses, %tid, %rank and %cta numbers; `bar` and `tile`
// are shared.
std::string Module(const std::string& body) {
  return ".version 8.6\n.target sm_90\n.address_size 64\n"
         ".visible .entry k(.param .u64 p_d, .param .u64 p_a)\n{\n"
         "  .reg .pred %p<8>;\n  .reg .b32 %tid, %rank, %cta, %r<32>;\n  .reg .b64 %d, %a, "
         "%rd<16>;\n"
         "  .shared .align 16 .b8 tile[1024];\n  .shared .align 8 .b64 bar;\n"
         "  mov.u32 %tid, %tid.x;\n  mov.u32 %rank, %cluster_ctarank;\n  mov.u32 %cta, %ctaid.x;\n"
         "  ld.param.u64 %d, [p_d];\n  ld.param.u64 %a, [p_a];\n"
         "  setp.eq.u32 %p0, %tid, 0;\n" +
         body + "  ret;\n}\n";
}

Case Made(const std::string& name, const std::string& body, uint32_t threads, const Words& out,
          const Words& in, uint32_t cluster = 1, uint32_t blocks = 1) {
  Case c;
  c.name = name;
  c.ptx = Module(body);
  c.block.x = threads;
  c.grid.x = blocks;
  c.cluster.x = cluster;
  c.arguments = {Output(out), Input(in)};
  return c;
}

Words Count(uint32_t count, uint32_t first = 100) {
  Words words;
  for (uint32_t i = 0; i < count; ++i) words.push_back(first + i);
  return words;
}

// One thread; %p1 is stored as word `at`.
std::string StorePredicate(int at) {
  return "  selp.u32 %r31, 1, 0, %p1;\n  st.global.u32 [%d+" + std::to_string(4 * at) +
         "], %r31;\n";
}
std::string StoreWord(int at, const char* reg) {
  return "  st.global.u32 [%d+" + std::to_string(4 * at) + "], " + reg + ";\n";
}

// The counting of one mbarrier, step by step.
void AddCounting(Cases* out) {
  const std::string pending =
      "  mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd1, [bar], 1;\n  "
      "mbarrier.pending_count.b64 %r1, %rd1;\n";
  out->push_back(Made("mbarrier.arrive.noComplete",
                      "  mbarrier.init.shared::cta.b64 [bar], 5;\n" + pending +
                          StoreWord(0, "%r1") + pending + StoreWord(1, "%r1") +
                          "  mbarrier.inval.shared::cta.b64 [bar];\n  "
                          "mbarrier.init.shared.b64 [bar], 7;\n" +
                          pending + StoreWord(2, "%r1"),
                      1, {5, 4, 7}, {0}));
  out->push_back(
      Made("mbarrier.test_wait.parity",
           "  mbarrier.init.shared.b64 [bar], 2;\n"
           "  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;\n" +
               StorePredicate(0) + "  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 1;\n" +
               StorePredicate(1) +
               "  mbarrier.arrive.shared.b64 %rd1, [bar], 2;\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;\n" +
               StorePredicate(2) + "  mbarrier.test_wait.parity.shared.b64 %p1, [bar], 0;\n" +
               StorePredicate(3) +
               "  mbarrier.arrive.shared.b64 %rd2, [bar];\n"
               "  mbarrier.test_wait.shared::cta.b64 %p1, [bar], %rd2;\n" +
               StorePredicate(4) + "  mbarrier.try_wait.shared.b64 %p1, [bar], %rd1;\n" +
               StorePredicate(5) +
               "  mbarrier.arrive.release.cta.shared.b64 _, [bar];\n"
               "  mbarrier.try_wait.acquire.cta.shared.b64 %p1, [bar], %rd2, 1000;\n" +
               StorePredicate(6) + "  mbarrier.try_wait.parity.shared.b64 %p1, [bar], 1;\n" +
               StorePredicate(7),
           1, {0, 1, 1, 1, 0, 1, 1, 1}, {0}));
  // Dropped arrivals are missing from the next phase on; generic addresses.
  out->push_back(Made(
      "mbarrier.arrive_drop",
      "  mov.u64 %rd3, bar;\n  cvta.shared.u64 %rd3, %rd3;\n"
      "  mbarrier.init.b64 [%rd3], 3;\n  mbarrier.arrive_drop.b64 %rd1, [%rd3];\n"
      "  mbarrier.arrive_drop.noComplete.b64 %rd2, [%rd3], 1;\n"
      "  mbarrier.pending_count.b64 %r1, %rd2;\n" +
          StoreWord(0, "%r1") +
          "  mbarrier.arrive.b64 %rd2, [%rd3];\n  mbarrier.test_wait.b64 %p1, [%rd3], %rd2;\n" +
          StorePredicate(1) + "  mbarrier.arrive.b64 %rd2, [%rd3];\n" +
          "  mbarrier.test_wait.b64 %p1, [%rd3], %rd2;\n" + StorePredicate(2) +
          "  mbarrier.inval.b64 [%rd3];\n",
      1, {2, 1, 1}, {0}));
  // Bytes hold a phase open.
  out->push_back(
      Made("mbarrier.expect_tx",
           "  mbarrier.init.shared.b64 [bar], 1;\n"
           "  mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 48;\n"
           "  mbarrier.arrive.shared.b64 %rd1, [bar];\n  mbarrier.test_wait.shared.b64 %p1, [bar], "
           "%rd1;\n" +
               StorePredicate(0) +
               "  mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 32;\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;\n" +
               StorePredicate(1) +
               "  mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 16;\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd1;\n" +
               StorePredicate(2) +
               "  mbarrier.arrive.expect_tx.shared.b64 %rd2, [bar], 8;\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;\n" +
               StorePredicate(3) +
               "  mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 8;\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;\n" +
               StorePredicate(4) +
               "  mbarrier.init.shared.b64 [bar], 2;\n"
               "  mbarrier.arrive_drop.expect_tx.shared.b64 %rd2, [bar], 8;\n"
               "  mbarrier.arrive.shared.b64 _, [bar];\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;\n" +
               StorePredicate(5) +
               "  mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 8;\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;\n" +
               StorePredicate(6) +
               "  mbarrier.arrive.shared.b64 %rd2, [bar];\n"
               "  mbarrier.test_wait.shared.b64 %p1, [bar], %rd2;\n" +
               StorePredicate(7),
           1, {0, 0, 1, 0, 1, 0, 1, 1}, {0}));
}

const std::string kInit =
    "  @%p0 mbarrier.init.shared.b64 [bar], %r20;\n  bar.sync 0;\n  mov.u32 %r10, tile;\n";
std::string Wait(const std::string& form, const std::string& label) {
  return label + ":\n  " + form + " %p1, [bar], 0;\n  @!%p1 bra " + label + ";\n";
}

// A warp produces, another waits and reads.
void AddProducers(Cases* out) {
  const std::string produce =
      "  mov.u32 %r20, 32;\n" + kInit +
      "  setp.ge.u32 %p2, %tid, 32;\n  @%p2 bra CONSUME;\n"
      "  shl.b32 %r1, %tid, 2;\n  add.u32 %r2, %r10, %r1;\n  cvt.u64.u32 %rd1, %r1;\n"
      "  add.u64 %rd2, %a, %rd1;\n";
  const std::string consume =
      "  bra DONE;\nCONSUME:\n" + Wait("mbarrier.try_wait.parity.shared::cta.b64", "AGAIN") +
      "  sub.u32 %r3, 63, %tid;\n  shl.b32 %r3, %r3, 2;\n  add.u32 %r4, %r10, %r3;\n"
      "  ld.shared.u32 %r5, [%r4];\n  sub.u32 %r6, %tid, 32;\n  shl.b32 %r6, %r6, 2;\n"
      "  cvt.u64.u32 %rd3, %r6;\n  add.u64 %rd4, %d, %rd3;\n  st.global.u32 [%rd4], %r5;\nDONE:\n";
  Words want;
  for (uint32_t i = 0; i < 32; ++i) want.push_back(100 + 31 - i);
  out->push_back(Made("mbarrier.arrive between warps",
                      produce +
                          "  ld.global.u32 %r7, [%rd2];\n  st.shared.u32 [%r2], %r7;\n  "
                          "mbarrier.arrive.shared::cta.b64 _, [bar];\n" +
                          consume,
                      64, want, Count(32)));
  out->push_back(Made("cp.async.mbarrier.arrive.noinc",
                      produce +
                          "  cp.async.ca.shared.global [%r2], [%rd2], 4;\n  "
                          "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];\n" +
                          consume,
                      64, want, Count(32)));
  out->push_back(Made("cp.async.mbarrier.arrive",
                      produce +
                          "  cp.async.ca.shared::cta.global.L2::64B [%r2], [%rd2], 4;\n  "
                          "cp.async.mbarrier.arrive.shared::cta.b64 [bar];\n  "
                          "mbarrier.arrive.shared.b64 _, [bar];\n" +
                          consume,
                      64, want, Count(32)));
}

void AddBulk(Cases* out) {
  const std::string init = "  mov.u32 %r20, 1;\n" + kInit;
  const std::string store =
      "  shl.b32 %r1, %tid, 2;\n  add.u32 %r2, %r10, %r1;\n  ld.shared.u32 %r3, [%r2];\n"
      "  cvt.u64.u32 %rd1, %r1;\n  add.u64 %rd2, %d, %rd1;\n  st.global.u32 [%rd2], %r3;\n";
  for (const char* form : {"shared::cluster", "shared::cta"}) {
    out->push_back(Made(std::string("cp.async.bulk.") + form + ".global",
                        init +
                            "  @!%p0 bra WAIT;\n  mbarrier.arrive.expect_tx.shared.b64 _, [bar], "
                            "128;\n  cp.async.bulk." +
                            form +
                            ".global.mbarrier::complete_tx::bytes [%r10], [%a], 128, [bar];\n" +
                            Wait("mbarrier.try_wait.parity.shared.b64", "WAIT") + store,
                        32, Count(32), Count(32)));
  }
  out->push_back(Made(
      "cp.async.bulk.global.shared::cta",
      "  mov.u32 %r10, tile;\n  shl.b32 %r1, %tid, 2;\n  add.u32 %r2, %r10, %r1;\n"
      "  add.u32 %r3, %tid, 7;\n  st.shared.u32 [%r2], %r3;\n  fence.proxy.async.shared::cta;\n"
      "  bar.sync 0;\n  @!%p0 bra DONE;\n"
      "  cp.async.bulk.global.shared::cta.bulk_group [%d], [%r10], 128;\n"
      "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group.read 0;\n"
      "  cp.async.bulk.wait_group 0;\nDONE:\n",
      32, Count(32, 7), {0}));
  // Within the cluster, here of one block.
  out->push_back(
      Made("cp.async.bulk.shared::cluster.shared::cta",
           init +
               "  @!%p0 bra WAIT;\n  mov.u32 %r5, 77;\n  st.shared.u32 [%r10+16], %r5;\n"
               "  st.shared.u32 [%r10+20], %r5;\n  st.shared.u32 [%r10+24], %r5;\n"
               "  st.shared.u32 [%r10+28], %r5;\n  add.u32 %r6, %r10, 16;\n"
               "  mapa.shared::cluster.u32 %r7, %r10, 0;\n"
               "  mov.u32 %r8, bar;\n  mapa.shared::cluster.u32 %r8, %r8, 0;\n"
               "  mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
               "  cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
               "[%r7], [%r6], 16, [%r8];\n" +
               Wait("mbarrier.try_wait.parity.shared.b64", "WAIT") + store,
           4, {77, 77, 77, 77}, {0}));
  struct Reduction {
    const char* op;
    uint32_t (*apply)(uint32_t, uint32_t);
  };
  for (const Reduction& r : std::initializer_list<Reduction>{
           {"add.u32", [](uint32_t a, uint32_t b) { return a + b; }},
           {"min.s32", [](uint32_t a, uint32_t b) { return int32_t(a) < int32_t(b) ? a : b; }},
           {"max.u32", [](uint32_t a, uint32_t b) { return a < b ? b : a; }},
           {"and.b32", [](uint32_t a, uint32_t b) { return a & b; }},
           {"or.b32", [](uint32_t a, uint32_t b) { return a | b; }},
           {"xor.b32", [](uint32_t a, uint32_t b) { return a ^ b; }},
           {"inc.u32", [](uint32_t a, uint32_t b) { return a >= b ? 0 : a + 1; }},
           {"dec.u32", [](uint32_t a, uint32_t b) { return a == 0 || a > b ? b : a - 1; }}}) {
    Words before = Count(32, 5), in = Count(32, 0x7fffffe8), after;
    for (int i = 0; i < 32; i += 2) in[i] = static_cast<uint32_t>(i);
    for (int i = 0; i < 32; ++i) after.push_back(r.apply(before[i], in[i]));
    Case c =
        Made(std::string("cp.reduce.async.bulk.global.shared::cta.bulk_group.") + r.op,
             "  mov.u32 %r10, tile;\n  shl.b32 %r1, %tid, 2;\n  add.u32 %r2, %r10, %r1;\n"
             "  cvt.u64.u32 %rd1, %r1;\n  add.u64 %rd2, %a, %rd1;\n  ld.global.u32 %r3, [%rd2];\n"
             "  st.shared.u32 [%r2], %r3;\n  bar.sync 0;\n  @!%p0 bra DONE;\n"
             "  cp.reduce.async.bulk.global.shared::cta.bulk_group." +
                 std::string(r.op) +
                 " [%d], [%r10], 128;\n  cp.async.bulk.commit_group;\n"
                 "  cp.async.bulk.wait_group 0;\nDONE:\n",
             32, after, in);
    c.arguments[0] = InOut(before, after);
    out->push_back(c);
  }
}

// Clusters of four blocks, two of them in the grid.
// Long: a list of cases, of which several share the text that they begin with.
void AddClusters(Cases* out) {
  const std::string both = "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n";
  // Thread t of block b writes word 32 * b + t.
  const std::string store =
      "  mad.lo.u32 %r1, %cta, 32, %tid;\n  mul.wide.u32 %rd1, %r1, 4;\n  add.u64 %rd2, %d, %rd1;\n"
      "  st.global.u32 [%rd2], %r5;\n";
  auto words = [](auto value) {
    Words w;
    for (uint32_t b = 0; b < 8; ++b) {
      for (uint32_t t = 0; t < 32; ++t) w.push_back(value(b, t));
    }
    return w;
  };
  auto add = [&](const std::string& name, const std::string& body, const Words& want) {
    out->push_back(Made(name, body + store + both, 32, want, Count(64), 4, 8));
  };
  // Own number into shared memory, the next block's number read.
  const std::string own =
      "  mov.u32 %r10, tile;\n  mad.lo.u32 %r2, %cta, 1000, %tid;\n  shl.b32 %r3, %tid, 2;\n"
      "  add.u32 %r4, %r10, %r3;\n  st.shared.u32 [%r4], %r2;\n" +
      both + "  add.u32 %r6, %rank, 1;\n  and.b32 %r6, %r6, 3;\n";
  const Words next =
      words([](uint32_t b, uint32_t t) { return (b / 4 * 4 + (b + 1) % 4) * 1000 + t; });
  add("ld.shared::cluster",
      own + "  mapa.shared::cluster.u32 %r7, %r4, %r6;\n  ld.shared::cluster.u32 %r5, [%r7];\n",
      next);
  add("mapa.u64",
      own +
          "  cvt.u64.u32 %rd3, %r4;\n  cvta.shared.u64 %rd3, %rd3;\n  mapa.u64 %rd4, %rd3, %r6;\n"
          "  ld.u32 %r5, [%rd4];\n",
      next);
  add("cvta.shared::cluster",
      own +
          "  mapa.shared::cluster.u32 %r7, %r4, %r6;\n  cvt.u64.u32 %rd3, %r7;\n"
          "  cvta.shared::cluster.u64 %rd3, %rd3;\n  ld.u32 %r5, [%rd3];\n",
      next);
  add("cvta.to.shared::cluster",
      own +
          "  cvt.u64.u32 %rd3, %r4;\n  cvta.shared.u64 %rd3, %rd3;\n  mapa.u64 %rd4, %rd3, %r6;\n"
          "  cvta.to.shared::cluster.u64 %rd5, %rd4;\n  ld.shared::cluster.u32 %r5, [%rd5];\n",
      next);
  add("cvta.to.shared",  // as CUDA C++ does it
      own +
          "  cvt.u64.u32 %rd3, %r4;\n  cvta.shared.u64 %rd3, %rd3;\n  mapa.u64 %rd4, %rd3, %r6;\n"
          "  cvta.to.shared.u64 %rd5, %rd4;\n  ld.shared::cluster.u32 %r5, [%rd5];\n",
      next);
  add("st.shared::cluster",
      "  mov.u32 %r10, tile;\n  shl.b32 %r3, %tid, 2;\n  add.u32 %r4, %r10, %r3;\n"
      "  add.u32 %r6, %rank, 3;\n  and.b32 %r6, %r6, 3;\n  mad.lo.u32 %r2, %cta, 1000, %tid;\n"
      "  mapa.shared::cluster.u32 %r7, %r4, %r6;\n" +
          both + "  st.shared::cluster.u32 [%r7], %r2;\n" + both + "  ld.shared.u32 %r5, [%r4];\n",
      next);
  add("atom.shared::cluster.add.u32",
      "  mov.u32 %r10, tile;\n  mov.u32 %r2, 0;\n  @%p0 st.shared.u32 [%r10], %r2;\n" + both +
          "  mapa.shared::cluster.u32 %r7, %r10, 2;\n  add.u32 %r8, %rank, 1;\n"
          "  atom.shared::cluster.add.u32 %r9, [%r7], %r8;\n" +
          both + "  ld.shared::cluster.u32 %r5, [%r7];\n",
      words([](uint32_t, uint32_t) { return 32 * (1 + 2 + 3 + 4); }));
  add("getctarank",
      "  mov.u32 %r10, tile;\n  and.b32 %r6, %tid, 3;\n  mapa.shared::cluster.u32 %r7, %r10, %r6;\n"
      "  getctarank.shared::cluster.u32 %r8, %r7;\n  cvt.u64.u32 %rd3, %r10;\n"
      "  cvta.shared.u64 %rd3, %rd3;\n  getctarank.u64 %r9, %rd3;\n"
      "  mad.lo.u32 %r5, %r9, 16, %r8;\n",
      words([](uint32_t b, uint32_t t) { return b % 4 * 16 + t % 4; }));
  add("isspacep.shared::cluster",
      "  mov.u32 %r10, tile;\n  cvt.u64.u32 %rd3, %r10;\n  cvta.shared.u64 %rd3, %rd3;\n"
      "  add.u32 %r6, %rank, 1;\n  and.b32 %r6, %r6, 3;\n  mapa.u64 %rd4, %rd3, %r6;\n"
      "  isspacep.shared::cluster %p1, %rd4;\n  isspacep.shared::cta %p2, %rd4;\n"
      "  isspacep.shared::cluster %p3, %d;\n  selp.u32 %r5, 1, 0, %p1;\n  selp.u32 %r6, 2, 0, "
      "%p2;\n"
      "  selp.u32 %r7, 4, 0, %p3;\n  or.b32 %r5, %r5, %r6;\n  or.b32 %r5, %r5, %r7;\n",
      words([](uint32_t, uint32_t) { return 1u; }));
  add("clusters' special registers",
      "  mov.u32 %r5, %clusterid.x;\n  mov.u32 %r6, %nclusterid.x;\n  mad.lo.u32 %r5, %r6, 10, "
      "%r5;\n"
      "  mov.u32 %r6, %cluster_ctaid.x;\n  mad.lo.u32 %r5, %r6, 100, %r5;\n"
      "  mov.u32 %r6, %cluster_nctaid.x;\n  mad.lo.u32 %r5, %r6, 1000, %r5;\n"
      "  mov.u32 %r6, %cluster_nctarank;\n  mad.lo.u32 %r5, %r6, 10000, %r5;\n"
      "  mov.pred %p1, %is_explicit_cluster;\n  selp.u32 %r6, 100000, 0, %p1;\n"
      "  add.u32 %r5, %r5, %r6;\n",
      words([](uint32_t b, uint32_t) { return b / 4 + 20 + b % 4 * 100 + 4000 + 40000 + 100000; }));
  // Every block arrives at block 0's mbarrier, which alone waits.
  const std::string init =
      "  @%p0 mbarrier.init.shared.b64 [bar], %r20;\n  mov.u32 %r10, tile;\n"
      "  mov.u32 %r11, bar;\n" +
      both;
  add("mbarrier.arrive.shared::cluster",
      "  mov.u32 %r20, 128;\n" + init +
          "  mapa.shared::cluster.u32 %r7, %r11, 0;\n"
          "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7];\n"
          "  setp.ne.u32 %p2, %rank, 0;\n  @%p2 bra OVER;\n" +
          Wait("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64", "AGAIN") +
          "OVER:\n  mov.u32 %r5, 9;\n",
      words([](uint32_t, uint32_t) { return 9u; }));
  // Values into the next block's memory, whose mbarrier counts their bytes.
  const std::string expect =
      "  mov.u32 %r20, 1;\n" + init +
      "  @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r21;\n"
      "  add.u32 %r6, %rank, 3;\n  and.b32 %r6, %r6, 3;\n  shl.b32 %r3, %tid, 2;\n"
      "  add.u32 %r4, %r10, %r3;\n  mapa.shared::cluster.u32 %r7, %r4, %r6;\n"
      "  mapa.shared::cluster.u32 %r8, %r11, %r6;\n  mad.lo.u32 %r2, %cta, 1000, %tid;\n";
  const std::string wait = Wait("mbarrier.try_wait.parity.shared.b64", "AGAIN");
  add("st.async.shared::cluster",
      "  mov.u32 %r21, 128;\n" + expect +
          "  st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r7], %r2, [%r8];\n" +
          wait + "  ld.shared.u32 %r5, [%r4];\n",
      next);
  add("red.async.shared::cluster",
      "  mov.u32 %r21, 128;\n  mov.u32 %r10, tile;\n  shl.b32 %r3, %tid, 2;\n  add.u32 %r4, %r10, "
      "%r3;\n  mov.u32 %r1, 5;\n  st.shared.u32 [%r4], %r1;\n" +
          expect +
          "  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r7], "
          "%r2, [%r8];\n" +
          wait + "  ld.shared.u32 %r5, [%r4];\n",
      words([](uint32_t b, uint32_t t) { return (b / 4 * 4 + (b + 1) % 4) * 1000 + t + 5; }));
  // Block 1 sends to blocks 0 and 2; the others expect nothing.
  add("cp.async.bulk.multicast::cluster",
      "  mov.u32 %r20, 1;\n  mov.u32 %r21, 0;\n  setp.eq.u32 %p3, %rank, 0;\n  setp.eq.or.u32 %p3, "
      "%rank, 2, %p3;\n  @%p3 mov.u32 %r21, 128;\n  mov.u32 %r12, tile;\n  shl.b32 %r13, %tid, 2;\n"
      "  add.u32 %r13, %r12, %r13;\n  mov.u32 %r14, 1;\n  st.shared.u32 [%r13], %r14;\n" +
          init + "  @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], %r21;\n" + both +
          "  setp.eq.and.u32 %p4, %rank, 1, %p0;\n  .reg .b16 %h1;\n  mov.u16 %h1, 5;\n"
          "  @%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
          ".multicast::cluster [%r10], [%a], 128, [bar], %h1;\n" +
          wait + "  ld.shared.u32 %r5, [%r13];\n",
      words([](uint32_t b, uint32_t t) { return b % 2 == 0 ? 100 + t : 1u; }));
  // Fifty rounds in which each block adds to its neighbour's counter.
  add("barrier.cluster",
      "  mov.u32 %r10, tile;\n  mov.u32 %r2, 0;\n  st.shared.u32 [%r10], %r2;\n" + both +
          "  add.u32 %r6, %rank, 1;\n  and.b32 %r6, %r6, 3;\n"
          "  mapa.shared::cluster.u32 %r7, %r10, %r6;\n  mov.u32 %r8, 0;\nROUND:\n"
          "  ld.shared.u32 %r9, [%r10];\n  add.u32 %r9, %r9, 1;\n"
          "  barrier.cluster.arrive.release;\n  barrier.cluster.wait.acquire;\n"
          "  @%p0 st.shared::cluster.u32 [%r7], %r9;\n"
          "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"
          "  add.u32 %r8, %r8, 1;\n  setp.lt.u32 %p1, %r8, 50;\n  @%p1 bra ROUND;\n"
          "  ld.shared.u32 %r5, [%r10];\n",
      words([](uint32_t, uint32_t) { return 50u; }));
}

}  // namespace

void AddAsyncCases(Cases* out) {
  AddCounting(out);
  AddProducers(out);
  AddBulk(out);
  AddClusters(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
