// SPDX-License-Identifier: Apache-2.0
// Loads, stores and moves: every width, vectors, state spaces, parameters, initialised variables.
#include <string>

#include "tests/ptx/corpus/elementwise.h"
#include "tests/ptx/corpus/values.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;

const char kHeader[] = ".version 8.6\n.target sm_90\n.address_size 64\n";
// %r: .b32, %rd: .b64, %h: .b16, %f: .f32, %fd: .f64, %p: .pred. %rd1 = d, %rd2 = a, both global.
const char kProlog[] =
    "  .reg .pred %p<8>;\n  .reg .b16 %h<16>;\n  .reg .b32 %r<32>;\n  .reg .b64 %rd<32>;\n"
    "  .reg .f32 %f<16>;\n  .reg .f64 %fd<16>;\n"
    "  ld.param.u64 %rd1, [p_d];\n  ld.param.u64 %rd2, [p_a];\n"
    "  cvta.to.global.u64 %rd1, %rd1;\n  cvta.to.global.u64 %rd2, %rd2;\n  mov.u32 %r0, %tid.x;\n";

// k(d, a): `body` after the prolog, `globals` before the entry.
template <typename D, typename A>
Case Memory(const std::string& name, const std::string& globals, const std::string& body,
            const std::vector<A>& in, const std::vector<D>& before, const std::vector<D>& after,
            uint32_t threads = 1) {
  Case c;
  c.name = name;
  c.ptx = std::string(kHeader) + globals +
          ".visible .entry k(.param .u64 p_d, .param .u64 p_a)\n{\n" + kProlog + body +
          "\n  ret;\n}\n";
  c.block.x = threads;
  c.arguments.push_back(InOut(before, after));
  c.arguments.push_back(Input(in));
  return c;
}

template <typename D, typename A>
Case Memory(const std::string& name, const std::string& body, const std::vector<A>& in,
            const std::vector<D>& after) {
  std::vector<D> before(after.size());
  std::memset(before.data(), 0xcd, before.size() * sizeof(D));
  return Memory<D, A>(name, "", body, in, before, after);
}

// A narrow load fills a wide register by the type's sign; a store takes the low bits.
void AddWidths(Cases* out) {
  const std::vector<uint64_t> in{0x8796a5b4c3d2e1f0ull};
  struct Row {
    const char* type;
    uint64_t want;
  };
  for (Row row : {Row{"u8", 0xf0},
                  {"s8", 0xfffffffffffffff0ull},
                  {"b8", 0xf0},
                  {"u16", 0xe1f0},
                  {"s16", 0xffffffffffffe1f0ull},
                  {"b16", 0xe1f0},
                  {"u32", 0xc3d2e1f0},
                  {"s32", 0xffffffffc3d2e1f0ull},
                  {"b32", 0xc3d2e1f0},
                  {"u64", 0x8796a5b4c3d2e1f0ull},
                  {"b64", 0x8796a5b4c3d2e1f0ull}}) {
    const std::string t = row.type;
    out->push_back(Memory<uint64_t, uint64_t>(
        "ld.global." + t, "  ld.global." + t + " %rd3, [%rd2];\n  st.global.b64 [%rd1], %rd3;", in,
        {row.want}));
  }
  out->push_back(Memory<uint32_t, uint64_t>(
      "ld.global.s8.b32", "  ld.global.s8 %r1, [%rd2+7];\n  st.global.b32 [%rd1], %r1;", in,
      {0xffffff87}));
  const std::vector<uint64_t> fill{~0ull};
  for (Row row : {Row{"u8", 0xfffffffffffffff0ull},
                  {"b16", 0xffffffffffffe1f0ull},
                  {"u32", 0xffffffffc3d2e1f0ull},
                  {"b64", 0x8796a5b4c3d2e1f0ull}}) {
    const std::string t = row.type;
    out->push_back(Memory<uint64_t, uint64_t>(
        "st.global." + t, "", "  ld.global.b64 %rd3, [%rd2];\n  st.global." + t + " [%rd1], %rd3;",
        in, fill, {row.want}));
  }
  out->push_back(Memory<uint32_t, uint32_t>(
      "ld.global.negative.offset",
      "  add.s64 %rd3, %rd2, 8;\n  ld.global.b32 %r1, [%rd3+-8];\n  ld.global.b32 %r2, [%rd3-4];\n"
      "  st.global.b32 [%rd1], %r1;\n  st.global.b32 [%rd1+4], %r2;",
      {11, 22, 33}, {11, 22}));
}

void AddVectors(Cases* out) {
  const std::vector<uint32_t> in{1, 2, 3, 4};
  out->push_back(Memory<uint32_t, uint32_t>(
      "ld.global.v2.b32",
      "  ld.global.v2.b32 {%r1, %r2}, [%rd2+8];\n  st.global.v2.b32 [%rd1], {%r2, %r1};", in,
      {4, 3}));
  out->push_back(Memory<uint32_t, uint32_t>("ld.global.v4.u32",
                                            "  ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd2];\n  "
                                            "st.global.v4.u32 [%rd1], {%r4, %r3, %r2, %r1};",
                                            in, {4, 3, 2, 1}));
  out->push_back(Memory<uint32_t, uint32_t>(
      "ld.global.nc.v4.b32",
      "  ld.global.nc.v4.b32 {%r1, _, %r3, %r4}, [%rd2];\n  st.global.v2.b32 [%rd1], {%r1, %r4};",
      in, {1, 4}));
  out->push_back(Memory<float, float>(
      "ld.global.v4.f32",
      "  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd2];\n  st.global.v2.f32 [%rd1], {%f4, %f1};",
      {1, 2, 3, 4}, {4, 1}));
  out->push_back(Memory<double, double>(
      "ld.global.v2.f64",
      "  ld.global.v2.f64 {%fd1, %fd2}, [%rd2];\n  st.global.v2.f64 [%rd1], {%fd2, %fd1};", {1, 2},
      {2, 1}));
  out->push_back(Memory<uint16_t, uint16_t>("ld.global.v4.u16",
                                            "  ld.global.v4.u16 {%h1, %h2, %h3, %h4}, [%rd2];\n  "
                                            "st.global.v4.b16 [%rd1], {%h4, %h3, %h2, %h1};",
                                            {1, 2, 3, 0xffff}, {0xffff, 3, 2, 1}));
  out->push_back(Memory<uint32_t, int8_t>("ld.global.v4.s8",
                                          "  ld.global.v4.s8 {%r1, %r2, %r3, %r4}, [%rd2];\n  "
                                          "st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};",
                                          {-1, 2, -128, 127}, {~0u, 2, 0xffffff80, 127}));
  out->push_back(Memory<uint64_t, uint64_t>(
      "ld.global.v2.u64",
      "  ld.global.v2.u64 {%rd3, %rd4}, [%rd2];\n  st.global.v2.u64 [%rd1], {%rd4, %rd3};", {5, 6},
      {6, 5}));
}

// Cache operators, ordering and hints do not change the value.
void AddQualifiers(Cases* out) {
  for (const std::string op :
       {"ld.global.ca.b32", "ld.global.cg.b32", "ld.global.cs.b32", "ld.global.lu.b32",
        "ld.global.cv.b32", "ld.global.nc.b32", "ld.volatile.global.b32",
        "ld.relaxed.gpu.global.b32", "ld.acquire.sys.global.b32", "ld.weak.global.b32",
        "ld.global.L1::evict_last.b32", "ld.global.L2::128B.b32",
        "ld.global.nc.L1::no_allocate.L2::256B.b32"}) {
    out->push_back(Memory<uint32_t, uint32_t>(
        op, "  " + op + " %r1, [%rd2];\n  st.global.b32 [%rd1], %r1;", {77}, {77}));
  }
  for (const std::string op :
       {"st.global.wb.b32", "st.global.cg.b32", "st.global.cs.b32", "st.global.wt.b32",
        "st.volatile.global.b32", "st.relaxed.sys.global.b32", "st.release.gpu.global.b32"}) {
    out->push_back(Memory<uint32_t, uint32_t>(
        op, "  ld.global.b32 %r1, [%rd2];\n  " + op + " [%rd1], %r1;", {78}, {78}));
  }
  for (const std::string op : {"membar.gl", "membar.cta", "membar.sys", "fence.acq_rel.gpu",
                               "fence.sc.sys", "fence.proxy.async"}) {
    out->push_back(Memory<uint32_t, uint32_t>(
        op, "  ld.global.b32 %r1, [%rd2];\n  " + op + ";\n  st.global.b32 [%rd1], %r1;", {79},
        {79}));
  }
}

void AddMoves(Cases* out) {
  const std::vector<uint64_t> in{0x1122334455667788ull};
  auto add = [&](const char* name, const std::string& body, uint64_t want) {
    out->push_back(Memory<uint64_t, uint64_t>(
        name, "  ld.global.b64 %rd3, [%rd2];\n" + body + "\n  st.global.b64 [%rd1], %rd4;", in,
        {want}));
  };
  add("mov.b64.unpack", "  mov.b64 {%r1, %r2}, %rd3;\n  mov.b64 %rd4, {%r2, %r1};",
      0x5566778811223344ull);
  add("mov.b64.unpack4",
      "  mov.b64 {%h1, %h2, %h3, %h4}, %rd3;\n  mov.b64 %rd4, {%h4, %h3, %h2, %h1};",
      0x7788556633441122ull);
  add("mov.b64.sink", "  mov.b64 {_, %r2}, %rd3;\n  mov.b64 %rd4, {%r2, %r2};",
      0x1122334411223344ull);
  add("mov.b32.unpack",
      "  cvt.u32.u64 %r1, %rd3;\n  mov.b32 {%h1, %h2}, %r1;\n  mov.b32 %r2, {%h2, %h1};\n  "
      "cvt.u64.u32 %rd4, %r2;",
      0x77885566ull);
  add("mov.u64.negative", "  mov.u64 %rd4, -5;", ~0ull - 4);
  add("mov.b32.immediates",
      "  mov.b32 %r1, 0xFFFF;\n  mov.b32 %r2, 017;\n  mov.b32 %r3, 0b101;\n  add.s32 %r1, %r1, "
      "%r2;\n  add.s32 %r1, %r1, %r3;\n  cvt.u64.u32 %rd4, %r1;",
      65535 + 15 + 5);
  add("mov.constant.expression",
      "  mov.u32 %r1, (1<<4)|3;\n  add.s32 %r1, %r1, 10*(2+3)-1;\n  cvt.u64.u32 %rd4, %r1;",
      19 + 49);
  add("mov.f64.bits", "  mov.f64 %fd1, 0d3FF8000000000000;\n  mov.b64 %rd4, %fd1;",
      0x3ff8000000000000ull);
}

void AddShared(Cases* out) {
  const std::string globals = ".shared .align 4 .b8 buffer[64];\n";
  std::vector<uint32_t> in(16), want(16);
  for (uint32_t i = 0; i < 16; ++i) {
    in[i] = i * i + 1;
    want[15 - i] = in[i];
  }
  const std::vector<uint32_t> before(16);
  const std::string load =
      "  mul.wide.u32 %rd3, %r0, 4;\n  add.s64 %rd4, %rd2, %rd3;\n  ld.global.b32 %r1, [%rd4];\n";
  const std::string store = "  add.s64 %rd5, %rd1, %rd3;\n  st.global.b32 [%rd5], %r5;";
  out->push_back(Memory<uint32_t, uint32_t>(
      "st.shared.b32", globals,
      load +
          "  mov.u32 %r2, buffer;\n  shl.b32 %r3, %r0, 2;\n  add.s32 %r4, %r2, %r3;\n  "
          "st.shared.b32 [%r4], %r1;\n  bar.sync 0;\n"
          "  sub.s32 %r6, 60, %r3;\n  add.s32 %r4, %r2, %r6;\n  ld.shared.b32 %r5, [%r4];\n" +
          store,
      in, before, want, 16));
  // The same through generic addresses.
  out->push_back(Memory<uint32_t, uint32_t>(
      "cvta.shared.u64", globals,
      load +
          "  mov.u64 %rd6, buffer;\n  cvta.shared.u64 %rd7, %rd6;\n  add.s64 %rd8, %rd7, %rd3;\n  "
          "st.b32 [%rd8], %r1;\n  bar.sync 0;\n"
          "  sub.s64 %rd9, 60, %rd3;\n  add.s64 %rd8, %rd7, %rd9;\n  ld.u32 %r5, [%rd8];\n" +
          store,
      in, before, want, 16));
  out->push_back(Memory<uint32_t, uint32_t>(
      "cvta.to.shared.u64", globals,
      load +
          "  mov.u64 %rd6, buffer;\n  cvta.shared.u64 %rd7, %rd6;\n  add.s64 %rd8, %rd7, %rd3;\n  "
          "cvta.to.shared.u64 %rd9, %rd8;\n  st.shared.b32 [%rd9], %r1;\n  bar.sync 0;\n"
          "  sub.s64 %rd10, 60, %rd3;\n  add.s64 %rd11, %rd6, %rd10;\n  ld.shared.b32 %r5, "
          "[%rd11];\n" +
          store,
      in, before, want, 16));
  // Dynamic shared memory, declared in the function that uses it.
  Case dynamic = Memory<uint32_t, uint32_t>(
      "st.shared.dynamic", ".extern .shared .align 16 .b8 dynamic[];\n",
      load +
          "  mov.u32 %r2, dynamic;\n  shl.b32 %r3, %r0, 2;\n  add.s32 %r4, %r2, %r3;\n  "
          "st.shared.b32 [%r4], %r1;\n  bar.sync 0;\n"
          "  sub.s32 %r6, 60, %r3;\n  add.s32 %r4, %r2, %r6;\n  ld.shared.b32 %r5, [%r4];\n" +
          store,
      in, before, want, 16);
  dynamic.dynamic_shared_bytes = 64;
  out->push_back(dynamic);
  out->push_back(Memory<uint32_t, uint32_t>(
      "st.shared.v4.b32", globals,
      "  ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2];\n  st.shared.v4.b32 [buffer+16], {%r1, "
      "%r2, %r3, %r4};\n"
      "  ld.shared.v2.b32 {%r5, %r6}, [buffer+24];\n  st.global.v2.b32 [%rd1], {%r5, %r6};",
      {1, 2, 3, 4}, {0, 0}, {3, 4}));
}

void AddLocal(Cases* out) {
  // An array indexed at run time, as nvcc spills it: depot, cvta, generic access.
  out->push_back(
      Memory<uint32_t, uint32_t>("st.local.b32", "",
                                 "  .local .align 16 .b8 depot[32];\n  .reg .b64 %SP;\n  .reg .b64 "
                                 "%SPL;\n  mov.b64 %SPL, depot;\n  cvta.local.u64 %SP, %SPL;\n"
                                 "  ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd2];\n  "
                                 "st.local.v4.b32 [%SPL], {%r1, %r2, %r3, %r4};\n"
                                 "  ld.global.b32 %r5, [%rd2+16];\n  mul.wide.u32 %rd3, %r5, 4;\n  "
                                 "add.s64 %rd4, %SP, %rd3;\n  ld.b32 %r6, [%rd4];\n"
                                 "  add.s64 %rd5, %SPL, %rd3;\n  ld.local.b32 %r7, [%rd5+-4];\n  "
                                 "cvta.to.local.u64 %rd6, %rd4;\n  ld.local.b32 %r8, [%rd6];\n"
                                 "  st.global.b32 [%rd1], %r6;\n  st.global.b32 [%rd1+4], %r7;\n  "
                                 "st.global.b32 [%rd1+8], %r8;",
                                 {10, 20, 30, 40, 2}, {0, 0, 0}, {30, 20, 30}));
  out->push_back(Memory<uint32_t, uint32_t>(
      "ld.local.per.thread", "",
      "  .local .align 4 .b8 mine[4];\n  st.local.b32 [mine], %r0;\n  bar.sync 0;\n  ld.local.b32 "
      "%r1, [mine];\n"
      "  mul.wide.u32 %rd3, %r0, 4;\n  add.s64 %rd4, %rd1, %rd3;\n  st.global.b32 [%rd4], %r1;",
      {0}, {9, 9, 9, 9}, {0, 1, 2, 3}, 4));
}

void AddVariables(Cases* out) {
  const std::string globals =
      ".visible .const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 255, 255, 255, 255};\n"
      ".global .align 4 .u32 numbers[2][3] = {{1, 2}, {4, 5, 6}};\n"
      ".global .align 8 .f64 real[2] = {0d3FF8000000000000, 2.5};\n.global .align 4 .f32 single = "
      "1.5;\n"
      ".global .align 8 .u64 pointers[2] = {generic(numbers)+8, numbers+12};\n"
      ".global .align 1 .b8 bytes[8] = {0xFF(numbers), 0xFF00(numbers), 0xFF0000(numbers), "
      "0xFF000000(numbers),\n"
      "  0xFF00000000(numbers), 0xFF0000000000(numbers), 0xFF000000000000(numbers), "
      "0xFF00000000000000(numbers)};\n";
  const std::vector<uint32_t> in{0};
  auto add = [&](const char* name, const std::string& body, std::vector<uint32_t> want) {
    out->push_back(Memory<uint32_t, uint32_t>(name, globals, body, in,
                                              std::vector<uint32_t>(want.size()), want));
  };
  add("ld.const.b32",
      "  ld.const.b32 %r1, [table+4];\n  ld.const.b32 %r2, [table+8];\n  ld.const.b32 %r3, "
      "[table+12];\n"
      "  st.global.b32 [%rd1], %r1;\n  st.global.b32 [%rd1+4], %r2;\n  st.global.b32 [%rd1+8], "
      "%r3;",
      {2, ~0u, 0});
  add("ld.const.generic",
      "  mov.u64 %rd3, table;\n  cvta.const.u64 %rd4, %rd3;\n  ld.b32 %r1, [%rd4+4];\n  "
      "ld.const.b32 %r2, [%rd3];\n"
      "  st.global.b32 [%rd1], %r1;\n  st.global.b32 [%rd1+4], %r2;",
      {2, 1});
  add("ld.global.initialised",
      "  ld.global.u32 %r1, [numbers+8];\n  ld.global.u32 %r2, [numbers+12];\n  mov.u64 %rd3, "
      "numbers;\n  ld.global.u32 %r3, [%rd3+20];\n"
      "  st.global.b32 [%rd1], %r1;\n  st.global.b32 [%rd1+4], %r2;\n  st.global.b32 [%rd1+8], "
      "%r3;",
      {0, 4, 6});
  add("ld.global.f64.initialised",
      "  ld.global.f64 %fd1, [real];\n  ld.global.f64 %fd2, [real+8];\n  add.f64 %fd3, %fd1, "
      "%fd2;\n  ld.global.f32 %f1, [single];\n  cvt.f64.f32 %fd4, %f1;\n"
      "  add.f64 %fd3, %fd3, %fd4;\n  cvt.rzi.u32.f64 %r1, %fd3;\n  cvt.rpi.u32.f64 %r2, %fd3;\n  "
      "st.global.v2.b32 [%rd1], {%r1, %r2};",
      {5, 6});
  add("ld.global.relocated",
      "  ld.global.u64 %rd3, [pointers];\n  ld.u32 %r1, [%rd3+4];\n  ld.global.u64 %rd4, "
      "[pointers+8];\n  ld.global.u32 %r2, [%rd4+4];\n"
      "  ld.global.b8 %rd5, [bytes];\n  mov.u64 %rd6, 0;\n  mov.u32 %r3, 0;\nBYTES:\n  cvt.u64.u32 "
      "%rd7, %r3;\n  mov.u64 %rd8, bytes;\n  add.s64 %rd8, %rd8, %rd7;\n"
      "  ld.global.u8 %rd9, [%rd8];\n  shl.b32 %r4, %r3, 3;\n  shl.b64 %rd9, %rd9, %r4;\n  or.b64 "
      "%rd6, %rd6, %rd9;\n  add.s32 %r3, %r3, 1;\n  setp.lt.u32 %p1, %r3, 8;\n  @%p1 bra BYTES;\n"
      "  mov.u64 %rd10, numbers;\n  setp.eq.s64 %p2, %rd6, %rd10;\n  selp.u32 %r5, 1, 0, %p2;\n"
      "  st.global.b32 [%rd1], %r1;\n  st.global.b32 [%rd1+4], %r2;\n  st.global.b32 [%rd1+8], "
      "%r5;",
      {4, 5, 1});
  add("isspacep",
      "  .shared .align 4 .b8 here[4];\n  .local .align 4 .b8 there[4];\n  mov.u64 %rd3, here;\n  "
      "cvta.shared.u64 %rd3, %rd3;\n  mov.u64 %rd4, there;\n  cvta.local.u64 %rd4, %rd4;\n  "
      "mov.u64 %rd5, numbers;\n  cvta.global.u64 %rd5, %rd5;\n"
      "  isspacep.shared %p1, %rd3;\n  isspacep.global %p2, %rd3;\n  isspacep.local %p3, %rd4;\n  "
      "isspacep.global %p4, %rd5;\n  isspacep.shared %p5, %rd5;\n"
      "  selp.u32 %r1, 1, 0, %p1;\n  selp.u32 %r2, 2, 0, %p2;\n  selp.u32 %r3, 4, 0, %p3;\n  "
      "selp.u32 %r4, 8, 0, %p4;\n  selp.u32 %r5, 16, 0, %p5;\n"
      "  or.b32 %r1, %r1, %r2;\n  or.b32 %r1, %r1, %r3;\n  or.b32 %r1, %r1, %r4;\n  or.b32 %r1, "
      "%r1, %r5;\n  st.global.b32 [%rd1], %r1;",
      {1 + 4 + 8});
}

void AddParameters(Cases* out) {
  Case c;
  c.name = "ld.param.struct";
  c.ptx = std::string(kHeader) +
          ".visible .entry k(.param .u64 p_d, .param .u8 p_a, .param .align 16 .b8 p_s[32], .param "
          ".f64 p_f)\n{\n"
          "  .reg .b32 %r<8>;\n  .reg .b64 %rd<4>;\n  .reg .f64 %fd<2>;\n  ld.param.u64 %rd1, "
          "[p_d];\n  cvta.to.global.u64 %rd1, %rd1;\n"
          "  ld.param.s8 %r1, [p_a];\n  ld.param.v2.u32 {%r2, %r3}, [p_s+8];\n  ld.param.u16 %r4, "
          "[p_s+2];\n"
          "  mov.b64 %rd2, p_s;\n  ld.param.b32 %r5, [%rd2+16];\n  ld.param.f64 %fd1, [p_f];\n  "
          "cvt.rzi.s32.f64 %r6, %fd1;\n"
          "  st.global.b32 [%rd1], %r1;\n  st.global.b32 [%rd1+4], %r2;\n  st.global.b32 [%rd1+8], "
          "%r3;\n  st.global.b32 [%rd1+12], %r4;\n"
          "  st.global.b32 [%rd1+16], %r5;\n  st.global.b32 [%rd1+20], %r6;\n  ret;\n}\n";
  c.arguments.push_back(Output<uint32_t>({0xfffffff9, 3, 4, 0x0001, 5, 0xffffffd6}));
  c.arguments.push_back(Scalar<int8_t>(-7));
  Argument record;
  record.bytes = BytesOf(std::vector<uint32_t>{0x00010002, 2, 3, 4, 5, 6, 7, 8});
  c.arguments.push_back(record);
  c.arguments.push_back(Scalar<double>(-42.9));
  out->push_back(c);
}

void AddCopies(Cases* out) {
  const std::string globals = ".shared .align 16 .b8 tile[64];\n";
  const std::vector<uint32_t> in{1, 2, 3, 4, 5, 6, 7, 8};
  const std::string end =
      "  cp.async.commit_group;\n  cp.async.wait_group 0;\n  ld.shared.v4.b32 {%r1, %r2, %r3, "
      "%r4}, [tile];\n  st.global.v4.b32 [%rd1], {%r1, %r2, %r3, %r4};";
  auto add = [&](const char* name, const std::string& body, std::vector<uint32_t> want) {
    out->push_back(Memory<uint32_t, uint32_t>(name, globals, "  mov.u32 %r9, tile;\n" + body + end,
                                              in, std::vector<uint32_t>(4), want));
  };
  add("cp.async.cg.shared.global", "  cp.async.cg.shared.global [%r9], [%rd2+16], 16;\n",
      {5, 6, 7, 8});
  add("cp.async.ca.shared.global",
      "  cp.async.ca.shared.global [%r9], [%rd2], 8;\n  cp.async.ca.shared.global [%r9+8], "
      "[%rd2+12], 4;\n  cp.async.ca.shared.global [%r9+12], [%rd2], 4;\n",
      {1, 2, 4, 1});
  add("cp.async.zfill",
      "  mov.u32 %r8, 4;\n  cp.async.cg.shared.global.L2::128B [%r9], [%rd2], 16, %r8;\n",
      {1, 0, 0, 0});
}

}  // namespace

void AddMemoryCases(Cases* out) {
  AddWidths(out);
  AddVectors(out);
  AddQualifiers(out);
  AddMoves(out);
  AddShared(out);
  AddLocal(out);
  AddVariables(out);
  AddParameters(out);
  AddCopies(out);
}

}  // namespace farcall::cpu_device::ptx_corpus
