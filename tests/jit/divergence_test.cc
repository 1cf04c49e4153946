// SPDX-License-Identifier: Apache-2.0
// Which values differ from thread to thread where ways come together again.
#include "cpu-device/jit/regions/divergence.h"

#include <gtest/gtest.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include <string>

#include "cpu-device/jit/regions/analyses.h"

namespace farcall::cpu_device::jit {
namespace {

class DivergenceTest : public ::testing::Test {
 protected:
  // `body`: from the entry on, where %t is the thread's number and %u all threads' own.
  bool Varies(const std::string& body, const std::string& name) {
    const std::string text =
        "declare i32 @fc.thread.linear() readnone\n"
        "define i32 @kernel(i32 %u) {\nentry:\n  %t = call i32 @fc.thread.linear()\n" +
        body + "}\n";
    llvm::SMDiagnostic error;
    module_ = llvm::parseAssemblyString(text, error, context_);
    EXPECT_TRUE(module_) << error.getMessage().str() << " at line " << error.getLineNo();
    if (!module_) return false;
    llvm::Function& kernel = *module_->getFunction("kernel");
    const Analyses known(kernel);
    for (const llvm::BasicBlock& block : kernel) {
      for (const llvm::Instruction& instruction : block)
        if (instruction.getName() == name) return known.divergence.Varies(&instruction);
    }
    ADD_FAILURE() << "no value " << name;
    return false;
  }
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::Module> module_;
};

// As checked accesses are: each way goes apart and together again by itself.
std::string WaysWithWaysOfTheirOwn(const std::string& condition) {
  return "  %c1 = icmp " + condition + R"(
  %c2 = icmp ult i32 %t, 20
  %c3 = icmp ult i32 %t, 30
  %c4 = icmp ult i32 %t, 40
  %c5 = icmp ult i32 %t, 50
  br i1 %c1, label %a, label %n
a:
  br i1 %c2, label %a.access, label %a.check
l11:
  br i1 %c5, label %l13, label %l14
l13:
  br label %l14
l14:
  br label %j
j:
  %p = phi i32 [ 3, %a.access ], [ 5, %l14 ]
  ret i32 %p
a.check:
  br label %a.access
a.access:
  br label %j
n:
  br i1 %c3, label %l11, label %d
d:
  br i1 %c4, label %d.access, label %d.check
d.check:
  br label %d.access
d.access:
  br label %l14
)";
}

TEST_F(DivergenceTest, ConstantsByWhichWayVary) {
  EXPECT_TRUE(Varies(WaysWithWaysOfTheirOwn("ult i32 %t, 10"), "p"));
}

TEST_F(DivergenceTest, ConstantsByTheWayOfAllDoNot) {
  EXPECT_FALSE(Varies(WaysWithWaysOfTheirOwn("ult i32 %u, 10"), "p"));
}

std::string Loop(const std::string& limit) {
  return R"(
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %next, %again ]
  %odd = and i32 %i, %t
  %c = icmp eq i32 %odd, 0
  br i1 %c, label %some, label %again
some:
  br label %again
again:
  %next = add i32 %i, 1
  %m = icmp ult i32 %next, )" +
         limit + R"(
  br i1 %m, label %loop, label %out
out:
  %r = add i32 %next, 1
  ret i32 %r
)";
}

TEST_F(DivergenceTest, ACountOfTurnsVariesWhereThreadsLeaveApart) {
  EXPECT_TRUE(Varies(Loop("%t"), "r"));
}

TEST_F(DivergenceTest, ACountOfCommonTurnsDoesNot) {
  EXPECT_FALSE(Varies(Loop("%u"), "r"));
}

}  // namespace
}  // namespace farcall::cpu_device::jit
