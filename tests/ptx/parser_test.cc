// SPDX-License-Identifier: Apache-2.0
// The parser's reading of well-formed PTX, and its manners with everything else.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "cpu-device/ptx/module.h"
#include "tests/ptx/corpus/corpus.h"

namespace farcall::cpu_device::ptx {
namespace {

using Kind = Operand::Kind;

const char kHeader[] = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n";

// Uses every statement the grammar has.
const char kSample[] = R"(// comment with { and "
.version 9.0
.target sm_75
.address_size 64
.file 1 "/src/a.cu", 1, 2
.extern .func (.param .b32 func_retval0) vprintf (.param .b64 p0, .param .b64 p1);
.extern .shared .align 16 .b8 dynamic[];
.visible .global .align 4 .u32 counter = 7;
.global .align 8 .u64 table[2] = {generic(counter)+4, helper};
.global .align 1 .b8 text[] = {104, 105, 0};
.const .align 4 .f32 weights[2] = {0f3F800000, 0fBF800000};
.global .attribute(.managed) .align 4 .u32 shared_with_host;
.global .samplerref sampler = { addr_mode_0 = clamp_to_edge, filter_mode = nearest };
.weak .func (.param .b32 func_retval0) helper(.param .b32 helper_param_0);
/* block { comment */
.func (.param .b32 func_retval0) helper(.param .b32 helper_param_0)
{
  .reg .b32 %r<3>;
  ld.param.b32 %r1, [helper_param_0];
  add.s32 %r2, %r1, 1;
  st.param.b32 [func_retval0], %r2;
  ret;
}
.visible .entry kernel(.param .u64 .ptr .global .align 16 kernel_param_0, .param .align 8 .b8 kernel_param_1[24],
  .param .u8 kernel_param_2)
.maxntid 256, 2
.minnctapersm 3
.pragma "nounroll";
{
  .local .align 8 .b8 __local_depot0[16];
  .reg .pred %p<4>;
  .reg .b32 %r<20>, plain;
  .reg .b64 %rd<9>;
  .reg .v4 .f32 quad;
  .loc 1 10 3
  .loc 1 11 4, function_name $L__info_string0, inlined_at 1 9 2
  .pragma "used_bytes_mask 15";
  ld.param.u64 %rd1, [kernel_param_0];
  @!%p1 ld.global.nc.L1::no_allocate.v4.f32 quad, [%rd1+-16];
  setp.lt.and.s32 %p2|%p3, %r1, -5, !%p1;
  shfl.sync.bfly.b32 %r2|%p1, %r3, 16, 31, 0xFFFFFFFF;
  mov.u32 %r4, %tid.x;
  mov.b32 %r5, %envreg3;
  mov.f32 quad.y, 0f40000000;
  mov.b64 {%r6, _}, %rd2;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {quad.x, quad.y, quad.z, quad.w}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {quad.x, quad.y, quad.z, quad.w};
  tex.2d.v4.f32.s32 {quad.x, quad.y, quad.z, quad.w}, [%rd3, {%r1, %r2}];
  cvt.rn.satfinite.e4m3x2.f32 %r7, 1.5, 0d3FF0000000000000;
$L_table: .branchtargets $L1, $L2;
  brx.idx %r1, $L_table;
$L1:
  {
    .param .b32 param0;
    st.param.b32 [param0], %r1;
    .param .b32 retval0;
    prototype_0 : .callprototype (.param .b32 _) _ (.param .b32 _);
    call (retval0), %rd1, (param0), prototype_0;
    call.uni (retval0), helper, (param0);
    bra $L1;
  $L1:
  }
$L2:
  ret;
}
)";

struct Parsed {
  Module module;
  ParseResult result;
};

Parsed ParseWhole(std::string_view text) {
  Parsed p;
  p.result = Parse(text, &p.module);
  if (p.result.ok()) p.result = p.module.EnsureAll();
  return p;
}

std::string ErrorOf(const std::string& body) {
  std::string text = std::string(kHeader) +
                     ".visible .entry k(.param .u64 a)\n{\n.reg .b32 %r<4>;\n.reg .pred %p;\n" +
                     body + "\n}\n";
  return ParseWhole(text).result.message;
}

TEST(Parser, ReadsModuleDirectivesAndVariables) {
  Parsed p = ParseWhole(kSample);
  ASSERT_EQ(p.result.message, "");
  const Module& m = p.module;
  EXPECT_EQ(m.version_major, 9u);
  EXPECT_EQ(m.version_minor, 0u);
  EXPECT_EQ(m.target, 75u);
  EXPECT_EQ(m.files.at(1), "/src/a.cu");
  const Variable* counter = m.FindGlobal("counter");
  ASSERT_NE(counter, nullptr);
  EXPECT_EQ(counter->linkage, Linkage::kVisible);
  EXPECT_EQ(counter->init, (std::vector<uint8_t>{7, 0, 0, 0}));
  const Variable* table = m.FindGlobal("table");
  ASSERT_NE(table, nullptr);
  ASSERT_EQ(table->relocations.size(), 2u);
  EXPECT_EQ(table->relocations[0].variable, counter);
  EXPECT_TRUE(table->relocations[0].generic);
  EXPECT_EQ(table->relocations[0].addend, 4);
  EXPECT_EQ(table->relocations[1].function, m.FindFunction("helper"));
  EXPECT_EQ(table->relocations[1].offset, 8u);
  EXPECT_EQ(m.FindGlobal("text")->size_bytes, 3u);
  EXPECT_EQ(m.FindGlobal("weights")->space, Space::kConst);
  EXPECT_TRUE(m.FindGlobal("shared_with_host")->managed);
  EXPECT_EQ(m.FindGlobal("dynamic")->linkage, Linkage::kExtern);
  EXPECT_EQ(m.FindGlobal("dynamic")->size_bytes, 0u);
}

TEST(Parser, ReadsFunctionsAndParameters) {
  Parsed p = ParseWhole(kSample);
  ASSERT_EQ(p.result.message, "");
  const Function* kernel = p.module.FindFunction("kernel");
  ASSERT_NE(kernel, nullptr);
  EXPECT_TRUE(kernel->is_entry);
  EXPECT_EQ(kernel->maxntid[0], 256u);
  EXPECT_EQ(kernel->maxntid[1], 2u);
  EXPECT_EQ(kernel->maxntid[2], 1u);
  EXPECT_EQ(kernel->minnctapersm, 3u);
  ASSERT_EQ(kernel->params.size(), 3u);
  EXPECT_TRUE(kernel->params[0]->is_pointer);
  EXPECT_EQ(kernel->params[0]->pointer_align, 16u);
  EXPECT_EQ(kernel->params[0]->align, 8u);
  EXPECT_EQ(kernel->params[1]->param_offset, 8u);
  EXPECT_EQ(kernel->params[1]->size_bytes, 24u);
  EXPECT_EQ(kernel->params[2]->param_offset, 32u);
  EXPECT_EQ(kernel->param_bytes, 33u);
  const Function* helper = p.module.FindFunction("helper");
  EXPECT_TRUE(helper->has_body);
  EXPECT_FALSE(p.module.FindFunction("vprintf")->has_body);
}

TEST(Parser, ReadsInstructions) {
  Parsed p = ParseWhole(kSample);
  ASSERT_EQ(p.result.message, "");
  const std::vector<Instruction>& body = p.module.FindFunction("kernel")->body;
  ASSERT_EQ(body.size(), 17u);
  const Instruction& load = body[1];
  EXPECT_TRUE(load.Is(Opcode::kLd));
  EXPECT_TRUE(load.guard_negated);
  EXPECT_NE(load.guard, kNoRegister);
  EXPECT_TRUE(load.mods.nc);
  EXPECT_TRUE(load.Has("L1::no_allocate"));
  EXPECT_FALSE(load.Has("L1"));
  EXPECT_EQ(load.mods.vector, 4);
  EXPECT_EQ(load.mods.space, Space::kGlobal);
  EXPECT_EQ(load.type(), Type::kF32);
  EXPECT_TRUE(load.operands[0].Is(Kind::kVector));
  EXPECT_EQ(load.operands[0].elements.size(), 4u);
  EXPECT_EQ(load.operands[1].value, -16);
  EXPECT_EQ(load.loc, 1u);
  const Instruction& setp = body[2];
  EXPECT_EQ(setp.mods.compare, Compare::kLt);
  EXPECT_EQ(setp.mods.bool_op, BoolOp::kAnd);
  EXPECT_TRUE(setp.second_dst.Is(Kind::kRegister));
  EXPECT_EQ(setp.operands[2].value, -5);
  EXPECT_TRUE(setp.operands[3].negated);
  EXPECT_EQ(body[4].operands[1].special, SpecialRegister::kTidX);
  EXPECT_EQ(body[5].operands[1].special, SpecialRegister::kEnvreg);
  EXPECT_EQ(body[5].operands[1].value, 3);
  EXPECT_EQ(body[6].operands[0].reg, load.operands[0].elements[1].reg);
  EXPECT_TRUE(body[7].operands[0].elements[1].Is(Kind::kSink));
  const Instruction& mma = body[8];
  EXPECT_EQ(mma.mods.m, 16);
  EXPECT_EQ(mma.mods.k, 16);
  EXPECT_EQ(mma.mods.type_count, 4);
  EXPECT_EQ(mma.mods.layout_b, Layout::kCol);
  EXPECT_EQ(body[9].operands[1].elements.size(), 1u);
  EXPECT_EQ(body[9].mods.geometry, Geometry::k2d);
  EXPECT_EQ(body[10].operands[1].float_type, Type::kF64);
}

TEST(Parser, ResolvesLabelsByScope) {
  Parsed p = ParseWhole(kSample);
  ASSERT_EQ(p.result.message, "");
  const Function* kernel = p.module.FindFunction("kernel");
  const Instruction& table = kernel->body[11];
  EXPECT_TRUE(table.operands[1].Is(Kind::kTable));
  ASSERT_EQ(kernel->branch_targets.size(), 1u);
  EXPECT_EQ(kernel->branch_targets[0].targets, (std::vector<uint32_t>{12, 16}));
  // The inner $L1 hides the outer one.
  const Instruction& inner = kernel->body[15];
  ASSERT_TRUE(inner.Is(Opcode::kBra)) << inner.mnemonic;
  EXPECT_EQ(inner.operands[0].value, 16);
}

TEST(Parser, ReadsCalls) {
  Parsed p = ParseWhole(kSample);
  ASSERT_EQ(p.result.message, "");
  const Function* kernel = p.module.FindFunction("kernel");
  const Instruction &indirect = kernel->body[13], &store = kernel->body[12];
  EXPECT_TRUE(store.Is(Opcode::kSt));
  ASSERT_TRUE(indirect.Is(Opcode::kCall));
  ASSERT_EQ(indirect.operands.size(), 4u);
  EXPECT_TRUE(indirect.operands[1].Is(Kind::kRegister));
  EXPECT_TRUE(indirect.operands[3].Is(Kind::kPrototype));
  ASSERT_EQ(kernel->prototypes.size(), 1u);
  EXPECT_EQ(kernel->prototypes[0]->params.size(), 1u);
}

TEST(Parser, ParsesBodiesOnDemandAndAgain) {
  Module module;
  ASSERT_TRUE(Parse(kSample, &module).ok());
  Function* kernel = module.FindFunction("kernel");
  EXPECT_TRUE(kernel->body.empty());
  ASSERT_TRUE(module.EnsureBody(*kernel).ok());
  const size_t size = kernel->body.size(), registers = kernel->registers.size();
  module.DropBody(*kernel);
  EXPECT_TRUE(kernel->body.empty());
  ASSERT_TRUE(module.EnsureBody(*kernel).ok());
  EXPECT_EQ(kernel->body.size(), size);
  EXPECT_EQ(kernel->registers.size(), registers);
}

TEST(Parser, SurvivesBeingMoved) {
  Module first;
  ASSERT_TRUE(Parse(kSample, &first).ok());
  Module second = std::move(first);
  ASSERT_TRUE(second.EnsureAll().ok());
  EXPECT_EQ(second.FindFunction("kernel")->body[0].mnemonic, "ld.param.u64");
}

TEST(Parser, NamesLineAndReason) {
  EXPECT_EQ(ErrorOf("frobnicate.u32 %r1, %r2;"), "line 8: unknown instruction 'frobnicate.u32'");
  EXPECT_EQ(ErrorOf("add.s32 %r1, %r9, %r2;"), "line 8: no such name '%r9'");
  EXPECT_EQ(ErrorOf("bra NOWHERE;"), "line 8: no label 'NOWHERE'");
  EXPECT_EQ(ErrorOf("add.s32 %r1, %r2, %r3"), "line 9: expected ';', got end of text");
  EXPECT_EQ(ErrorOf("@%r1 bra L;\nL:"), "line 8: guard '%r1' is no predicate");
  EXPECT_EQ(ErrorOf(".reg .b32 %r<4>;"), "line 8: range '%r' is declared twice");
  EXPECT_EQ(ErrorOf("L: L: ret;"), "line 8: label 'L' is defined twice");
  EXPECT_EQ(ErrorOf("mov.u32 %r1, 0x1FFFFFFFFFFFFFFFF;"), "line 8: integer does not fit 64 bits");
  EXPECT_EQ(ErrorOf("mov.f32 %r1, 0f3F80;"), "line 8: hexadecimal float needs 8 digits");
  EXPECT_EQ(ErrorOf("mov.u32 %r1, 4/(2-2);"), "line 8: division by zero in a constant expression");
  EXPECT_EQ(ErrorOf(".reg .b32 %big<4000000000>;"),
            "line 8: 4000000000 registers asked, at most 4194304");
  EXPECT_EQ(ErrorOf("call missing, (%r1);"), "line 8: no such name 'missing'");
  EXPECT_EQ(ErrorOf(".shared .align 3 .b8 x[4];"),
            "line 8: alignment 3 is no power of two up to 1048576");
}

TEST(Parser, RejectsMalformedModules) {
  EXPECT_EQ(ParseWhole("").result.message, "line 1: expected .version, got end of text");
  EXPECT_EQ(ParseWhole(".version 9.0\n").result.message, "line 2: module without .target");
  EXPECT_EQ(ParseWhole(".version 9.0\n.target sm_90\n.nonsense\n").result.message,
            "line 3: unknown directive '.nonsense'");
  const std::string h = kHeader;
  EXPECT_EQ(ParseWhole(h + ".global .u32 a; .global .u32 a;").result.message,
            "line 4: variable 'a' is defined twice");
  EXPECT_EQ(ParseWhole(h + ".global .u64 a = b;").result.message,
            "line 4: no such name 'b' in an initialiser");
  EXPECT_EQ(ParseWhole(h + ".global .u32 a[2] = {1, 2, 3};").result.message,
            "line 4: initialiser of 'a' exceeds its 8 bytes");
  EXPECT_EQ(ParseWhole(h + ".global .b8 a[4294967296][4294967296];").result.message,
            "line 4: variable 'a' is larger than 1 TiB");
  EXPECT_EQ(ParseWhole(h + ".entry k() {").result.message, "line 4: '{' without '}'");
  EXPECT_EQ(ParseWhole(h + ".entry k() { ret; } .entry k() { ret; }").result.message,
            "line 4: function 'k' is defined twice");
  EXPECT_EQ(ParseWhole(h + ".entry k(.param .b8 p[2000000]) { ret; }").result.message,
            "line 4: parameters exceed 1048576 bytes");
}

TEST(Parser, BoundsDeepNesting) {
  std::string parens(100000, '('), braces(100000, '{'), bangs(100000, '-');
  EXPECT_NE(ErrorOf("mov.u32 %r1, " + parens), "");
  EXPECT_NE(ErrorOf("mov.u32 %r1, " + bangs), "");
  EXPECT_NE(ErrorOf(braces), "");
  EXPECT_NE(ErrorOf("mov.b64 " + braces), "");
  EXPECT_NE(ParseWhole(std::string(kHeader) + ".global .u32 a[1] = " + braces).result.message, "");
}

TEST(Parser, AliasesInACircleEnd) {
  Parsed p =
      ParseWhole(std::string(kHeader) + ".alias a, b;\n.alias b, a;\n.entry k() { call a; ret; }");
  EXPECT_EQ(p.result.message, "line 6: no such name 'a'");
}

TEST(Parser, StopsAtATrailingNul) {
  std::string text = std::string(kHeader) + ".entry k() { ret; }";
  text += '\0';
  text += "garbage";
  EXPECT_EQ(ParseWhole(text).result.message, "");
}

// Each prefix parses or fails with a line; none crashes. Text is copied so that reading past the
// end shows under ASan.
TEST(Parser, EveryTruncationIsAnsweredInOrder) {
  const std::string text = kSample;
  size_t accepted = 0;
  for (size_t n = 0; n < text.size(); ++n) {
    std::string prefix = text.substr(0, n);
    prefix.shrink_to_fit();
    Parsed p = ParseWhole(prefix);
    if (p.result.ok())
      ++accepted;
    else
      EXPECT_EQ(p.result.message.rfind("line ", 0), 0u) << p.result.message;
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, text.size() / 2);
}

TEST(Parser, MutationsAreAnsweredInOrder) {
  std::mt19937 random(20260101);
  const std::string original = kSample, alphabet = "{}()[];:,.<>=+-*/%|!@\"$_0123456789afxd \n\t\\";
  size_t refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = original;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          text.insert(at, 1, alphabet[random() % alphabet.size()]);
          break;
        case 2:
          text.erase(at, 1 + random() % 20);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
      }
    }
    Parsed p = ParseWhole(text);
    refused += !p.result.ok();
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Parser, ReadsTheWholeCorpus) {
  for (const ptx_corpus::Case& c : ptx_corpus::AllCases()) {
    Parsed p = ParseWhole(c.ptx);
    EXPECT_EQ(p.result.message, "") << c.name;
  }
}

TEST(Names, RoundTrip) {
  EXPECT_EQ(Name(Opcode::kLdmatrix), "ldmatrix");
  EXPECT_EQ(Name(Type::kBf16x2), "bf16x2");
  EXPECT_EQ(BitsOf(Type::kBf16x2), 32u);
  EXPECT_TRUE(IsPacked(Type::kF16x2));
  EXPECT_TRUE(IsPacked(Type::kE4m3x2));
  EXPECT_FALSE(IsPacked(Type::kF32));
  EXPECT_FALSE(IsPacked(Type::kTexref));
  EXPECT_TRUE(IsInteger(Type::kB8));
  EXPECT_FALSE(IsInteger(Type::kPred));
  EXPECT_TRUE(IsFloat(Type::kTf32));
}

}  // namespace
}  // namespace farcall::cpu_device::ptx
