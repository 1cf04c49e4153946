// SPDX-License-Identifier: Apache-2.0
// Branches, loops, tables, calls of every kind, printf.
#include <string>

#include "tests/ptx/corpus/elementwise.h"

namespace farcall::cpu_device::ptx_corpus {
namespace {

using Cases = std::vector<Case>;
using Word = uint32_t;

// k(d, a): one word in, one out per thread. `functions` stand before the entry.
Case Control(const std::string& name, const std::string& functions, const std::string& body,
             const std::vector<Word>& in, const std::function<Word(Word)>& expected) {
  Case c;
  c.name = name;
  c.ptx =
      ".version 8.6\n.target sm_90\n.address_size 64\n" + functions +
      ".visible .entry k(.param .u64 p_d, .param .u64 p_a)\n{\n  .reg .pred %p<8>;\n  .reg .b32 "
      "%r<16>, %a, %d;\n  .reg .b64 %rd<16>;\n"
      "  ld.param.u64 %rd1, [p_d];\n  ld.param.u64 %rd2, [p_a];\n  mov.u32 %r0, %tid.x;\n  "
      "mul.wide.u32 %rd3, %r0, 4;\n"
      "  add.s64 %rd1, %rd1, %rd3;\n  add.s64 %rd2, %rd2, %rd3;\n  ld.global.u32 %a, [%rd2];\n  " +
      body + "\n  st.global.u32 [%rd1], %d;\n  ret;\n}\n";
  c.block.x = static_cast<Word>(in.size());
  std::vector<Word> want;
  for (Word a : in) want.push_back(expected(a));
  c.arguments.push_back(Output(want));
  c.arguments.push_back(Input(in));
  return c;
}

std::vector<Word> Steps(Word n) {
  std::vector<Word> v;
  for (Word i = 0; i < n; ++i) v.push_back(i);
  return v;
}

void AddBranches(Cases* out) {
  const auto in = Steps(40);
  out->push_back(Control("bra.uni", "", "bra.uni OVER;\n  mov.u32 %d, 1;\nOVER:\n  mov.u32 %d, 2;",
                         in, [](Word) { return 2u; }));
  out->push_back(Control("bra.divergent.loop", "",
                         "mov.u32 %d, 0;\n  mov.u32 %r1, %a;\nLOOP:\n  setp.le.u32 %p1, %r1, 1;\n  "
                         "@%p1 bra END;\n  and.b32 %r2, %r1, 1;\n  setp.eq.u32 %p2, %r2, 0;\n"
                         "  @%p2 bra EVEN;\n  mad.lo.u32 %r1, %r1, 3, 1;\n  bra STEP;\nEVEN:\n  "
                         "shr.u32 %r1, %r1, 1;\nSTEP:\n  add.u32 %d, %d, 1;\n  bra LOOP;\nEND:",
                         in, [](Word a) {
                           Word n = 0;
                           for (; a > 1; ++n) a = a & 1 ? 3 * a + 1 : a / 2;
                           return n;
                         }));
  out->push_back(Control("bra.predicated", "",
                         "setp.lt.u32 %p1, %a, 10;\n  mov.u32 %d, 7;\n  @%p1 mov.u32 %d, 1;\n  "
                         "@!%p1 add.u32 %d, %d, %a;",
                         in, [](Word a) { return a < 10 ? 1 : 7 + a; }));
  out->push_back(Control("brx.idx", "",
                         "and.b32 %r1, %a, 3;\n  TABLE: .branchtargets L0, L1, L2, L0;\n  brx.idx "
                         "%r1, TABLE;\nL0:\n  mov.u32 %d, 100;\n  bra END;\nL1:\n  mov.u32 %d, "
                         "101;\n  bra END;\nL2:\n  mov.u32 %d, 102;\nEND:",
                         in, [](Word a) { return a % 4 == 3 ? 100 : 100 + a % 4; }));
  // The same label in two scopes, and a register that hides an outer one.
  out->push_back(Control("bra.scopes", "",
                         "mov.u32 %d, 0;\n  {\n    .reg .pred q;\n    .reg .b32 n;\n    mov.u32 n, "
                         "3;\n  AGAIN:\n    add.u32 %d, %d, %a;\n    sub.u32 n, n, 1;\n    "
                         "setp.ne.u32 q, n, 0;\n    @q bra AGAIN;\n  }\n"
                         "  {\n    .reg .pred q;\n    .reg .b32 n, %r1;\n    mov.u32 n, 2;\n    "
                         "mov.u32 %r1, 0;\n  AGAIN:\n    add.u32 %d, %d, 1;\n    sub.u32 n, n, "
                         "1;\n    setp.ne.u32 q, n, 0;\n    @q bra AGAIN;\n  }",
                         in, [](Word a) { return 3 * a + 2; }));
  out->push_back(Control(
      "exit", "",
      "st.global.u32 [%rd1], 5;\n  setp.lt.u32 %p1, %a, 20;\n  @%p1 exit;\n  mov.u32 %d, 6;", in,
      [](Word a) { return a < 20 ? 5u : 6u; }));
  out->push_back(Control("nanosleep.u32", "", "nanosleep.u32 20;\n  mov.u32 %d, %a;", in,
                         [](Word a) { return a; }));
}

const char kFunctions[] = R"(
.func (.param .b32 result) square(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  mul.lo.s32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
.func (.param .b32 result) triple(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [value];
  mul.lo.s32 %r2, %r1, 3;
  st.param.b32 [result], %r2;
  ret;
}
.func (.reg .b32 sum) add_registers(.reg .b32 x, .reg .b32 y)
{
  add.s32 sum, x, y;
  ret;
}
.func store_at(.param .b64 where, .param .b32 what)
{
  .reg .b32 %r<2>;
  .reg .b64 %rd<2>;
  ld.param.b64 %rd1, [where];
  ld.param.b32 %r1, [what];
  st.u32 [%rd1], %r1;
  ret;
}
.func (.param .align 8 .b8 result[16]) swap_pair(.param .align 8 .b8 pair[16])
{
  .reg .b64 %rd<3>;
  ld.param.b64 %rd1, [pair];
  ld.param.b64 %rd2, [pair+8];
  st.param.b64 [result], %rd2;
  st.param.b64 [result+8], %rd1;
  ret;
}
.func (.param .b32 result) fibonacci(.param .b32 n)
{
  .reg .pred %p;
  .reg .b32 %r<8>;
  ld.param.b32 %r1, [n];
  setp.gt.u32 %p, %r1, 1;
  @%p bra RECURSE;
  st.param.b32 [result], %r1;
  ret;
RECURSE:
  sub.s32 %r2, %r1, 1;
  {
    .param .b32 argument;
    st.param.b32 [argument], %r2;
    .param .b32 value;
    call.uni (value), fibonacci, (argument);
    ld.param.b32 %r3, [value];
  }
  sub.s32 %r4, %r1, 2;
  {
    .param .b32 argument;
    st.param.b32 [argument], %r4;
    .param .b32 value;
    call.uni (value), fibonacci, (argument);
    ld.param.b32 %r5, [value];
  }
  add.s32 %r6, %r3, %r5;
  st.param.b32 [result], %r6;
  ret;
}
.global .align 8 .u64 operations[2] = {square, triple};
)";

std::string CallOf(const std::string& callee, const std::string& argument,
                   const std::string& result, const std::string& tail = "") {
  return "{\n    .param .b32 param0;\n    st.param.b32 [param0], " + argument +
         ";\n    .param .b32 retval0;\n    call.uni (retval0), " + callee + ", (param0)" + tail +
         ";\n    ld.param.b32 " + result + ", [retval0];\n  }";
}

void AddCalls(Cases* out) {
  const auto in = Steps(12);
  auto add = [&](const char* name, const std::string& body, std::function<Word(Word)> f) {
    out->push_back(Control(name, kFunctions, body, in, f));
  };
  add("call.uni", CallOf("square", "%a", "%d"), [](Word a) { return a * a; });
  add("call.registers", "call.uni (%d), add_registers, (%a, 5);", [](Word a) { return a + 5; });
  add("call.void",
      "{\n    .param .b64 param0;\n    st.param.b64 [param0], %rd1;\n    .param .b32 param1;\n    "
      "st.param.b32 [param1], 77;\n    call.uni store_at, (param0, param1);\n  }\n  ld.global.u32 "
      "%d, [%rd1];\n  add.u32 %d, %d, %a;",
      [](Word a) { return 77 + a; });
  add("call.struct",
      "cvt.u64.u32 %rd4, %a;\n  {\n    .param .align 8 .b8 param0[16];\n    st.param.b64 [param0], "
      "%rd4;\n    st.param.b64 [param0+8], 9;\n    .param .align 8 .b8 retval0[16];\n    call.uni "
      "(retval0), swap_pair, (param0);\n"
      "    ld.param.b64 %rd5, [retval0];\n    ld.param.b64 %rd6, [retval0+8];\n  }\n  shl.b64 "
      "%rd5, %rd5, 8;\n  or.b64 %rd5, %rd5, %rd6;\n  cvt.u32.u64 %d, %rd5;",
      [](Word a) { return 9 * 256 + a; });
  add("call.recursive", CallOf("fibonacci", "%a", "%d"), [](Word a) {
    Word x = 0, y = 1;
    for (; a > 0; --a) {
      Word z = x + y;
      x = y;
      y = z;
    }
    return x;
  });
  // Through a pointer picked at run time, by prototype.
  add("call.indirect",
      "setp.lt.u32 %p1, %a, 5;\n  mov.u64 %rd4, square;\n  mov.u64 %rd5, triple;\n  selp.b64 %rd6, "
      "%rd4, %rd5, %p1;\n  prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);\n  " +
          CallOf("%rd6", "%a", "%d", ", prototype_0"),
      [](Word a) { return a < 5 ? a * a : 3 * a; });
  add("call.table",
      "and.b32 %r1, %a, 1;\n  mul.wide.u32 %rd4, %r1, 8;\n  mov.u64 %rd5, operations;\n  add.s64 "
      "%rd5, %rd5, %rd4;\n  ld.global.u64 %rd6, [%rd5];\n  prototype_1 : .callprototype (.param "
      ".b32 _) _ (.param .b32 _);\n  " +
          CallOf("%rd6", "%a", "%d", ", prototype_1"),
      [](Word a) { return a & 1 ? 3 * a : a * a; });
  // Only some threads call.
  add("call.divergent",
      "mov.u32 %d, 1;\n  setp.lt.u32 %p1, %a, 6;\n  @%p1 bra SKIP;\n  " +
          CallOf("triple", "%a", "%d") + "\nSKIP:",
      [](Word a) { return a < 6 ? 1 : 3 * a; });
}

void AddPrintf(Cases* out) {
  Case c = Control(
      "call.vprintf",
      ".extern .func (.param .b32 func_retval0) vprintf (.param .b64 vprintf_param_0, .param .b64 "
      "vprintf_param_1);\n"
      // "%d %s %.2f %llx %c%%\n" and "text"
      ".global .align 1 .b8 format[22] = {37, 100, 32, 37, 115, 32, 37, 46, 50, 102, 32, 37, 108, "
      "108, 120, 32, 37, 99, 37, 37, 10, 0};\n"
      ".global .align 1 .b8 text[5] = {116, 101, 120, 116, 0};\n",
      ".local .align 8 .b8 depot[40];\n  .reg .b64 %SP, %SPL;\n  mov.b64 %SPL, depot;\n  "
      "cvta.local.u64 %SP, %SPL;\n  mov.u32 %r1, -5;\n  st.local.u32 [%SPL], %r1;\n"
      "  mov.u64 %rd4, text;\n  cvta.global.u64 %rd5, %rd4;\n  st.local.u64 [%SPL+8], %rd5;\n  "
      "mov.b64 %rd6, 0d400A000000000000;\n  st.local.b64 [%SPL+16], %rd6;\n"
      "  mov.u64 %rd7, 0x123456789AB;\n  st.local.u64 [%SPL+24], %rd7;\n  mov.u32 %r2, 65;\n  "
      "st.local.u32 [%SPL+32], %r2;\n  mov.u64 %rd8, format;\n  cvta.global.u64 %rd9, %rd8;\n"
      "  {\n    .param .b64 param0;\n    st.param.b64 [param0], %rd9;\n    .param .b64 param1;\n   "
      " st.param.b64 [param1], %SP;\n    .param .b32 retval0;\n    call.uni (retval0), vprintf, "
      "(param0, param1);\n"
      "    ld.param.b32 %r3, [retval0];\n  }\n  setp.gt.s32 %p1, %r3, 0;\n  selp.u32 %d, 1, 0, "
      "%p1;",
      {0}, [](Word) { return 1u; });
  c.expected_output = "-5 text 3.25 123456789ab A%\n";
  out->push_back(c);
}

}  // namespace

void AddControlCases(Cases* out) {
  AddBranches(out);
  AddCalls(out);
  AddPrintf(out);
  out->push_back(Unary<uint32_t, uint32_t>(
      "bra.uni (over)", "mov.u32 %d, %a;\n  bra.uni OVER;\n  add.u32 %d, %d, 1;\nOVER:",
      {0, 1, 7, 0xffffffff}, [](uint32_t a) { return a; }));
}

}  // namespace farcall::cpu_device::ptx_corpus
