// SPDX-License-Identifier: Apache-2.0
// LLVM: target machine of this CPU, O1 pipeline with coroutine passes, object in memory.
#include "cpu-device/jit/compiler.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SmallVectorMemoryBuffer.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/Coroutines/CoroCleanup.h>
#include <llvm/Transforms/Coroutines/CoroEarly.h>
#include <llvm/Transforms/Coroutines/CoroSplit.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/InstSimplifyPass.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <cstdlib>
#include <mutex>

#include "cpu-device/jit/contraction.h"
#include "cpu-device/jit/emitter.h"
#include "cpu-device/jit/window_checks.h"

namespace farcall::cpu_device::jit {
namespace {

std::unique_ptr<llvm::TargetMachine> MakeTargetMachine(llvm::CodeGenOptLevel level,
                                                       std::string* error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
  std::string triple = llvm::sys::getDefaultTargetTriple();
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, *error);
  if (!target) return nullptr;
  std::string features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    if (!features.empty()) features += ',';
    features += (feature.second ? "+" : "-") + feature.first().str();
  }
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, llvm::sys::getHostCPUName(), features, options,
                                  llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
}

// What all kernels get first: registers become values, and what may be an fma does.
llvm::FunctionPassManager Prepare() {
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(ContractionPass());
  return passes;
}

// No loops are looked at and no addresses compared; values still are what they were proven to be.
llvm::ModulePassManager QuickPipeline() {
  llvm::FunctionPassManager tidy;
  tidy.addPass(llvm::SimplifyCFGPass());
  tidy.addPass(llvm::InstSimplifyPass());
  llvm::ModulePassManager passes;
  passes.addPass(llvm::CoroEarlyPass());
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(tidy)));
  llvm::CGSCCPassManager split;
  split.addPass(llvm::CoroSplitPass());
  passes.addPass(llvm::createModuleToPostOrderCGSCCPassAdaptor(std::move(split)));
  passes.addPass(llvm::CoroCleanupPass());
  passes.addPass(llvm::GlobalDCEPass());
  return passes;
}

void Optimise(llvm::Module& module, llvm::TargetMachine& machine, bool quick) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.registerVectorizerStartEPCallback(
      [](llvm::FunctionPassManager& manager, llvm::OptimizationLevel) {
        manager.addPass(WindowChecksPass());
      });
  llvm::ModulePassManager passes;
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(Prepare()));
  passes.addPass(quick ? QuickPipeline()
                       : builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1));
  passes.run(module, modules);
}

void Verify(const llvm::Module& module, const char* when, CompiledKernel* out) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!llvm::verifyModule(module, &stream)) return;
  out->status = ExecStatus::kUnsupported;
  out->message =
      std::string("code generation is wrong ") + when + ": " + stream.str().substr(0, 2000);
}

void Compile(const CompileRequest& request, CompiledKernel* out) {
  size_t instructions = 0;
  for (const ptx::Function* function : request.layout->functions)
    instructions += function->body.size();
  const bool quick = request.quick || instructions > kLargeKernel;

  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  std::string error;
  auto machine = MakeTargetMachine(
      quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default, &error);
  if (!machine) {
    out->status = ExecStatus::kUnsupported;
    out->message = "LLVM has no code generator for this CPU: " + error;
    return;
  }
  module.setTargetTriple(machine->getTargetTriple().str());
  module.setDataLayout(machine->createDataLayout());

  Emitter emitter(request, module);
  if (!emitter.EmitKernel()) {
    out->status = emitter.status();
    out->message = emitter.error();
    return;
  }
  out->coroutine = emitter.coroutine();
  const char* dump = getenv("FARCALL_PTXJIT_DUMP");
  if (dump && *dump == '1') module.print(llvm::errs(), nullptr);
  if (request.verify) Verify(module, "before optimisation", out);
  if (out->status != ExecStatus::kOk) return;
  Optimise(module, *machine, quick);
  if (dump && *dump == '2') module.print(llvm::errs(), nullptr);
  if (request.verify) Verify(module, "after optimisation", out);
  if (out->status != ExecStatus::kOk) return;

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager emit;
  if (machine->addPassesToEmitFile(emit, stream, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    out->status = ExecStatus::kUnsupported;
    out->message = "LLVM cannot write objects for this CPU";
    return;
  }
  emit.run(module);
  out->object.assign(object.data(), object.size());
}

}  // namespace
}  // namespace farcall::cpu_device::jit

extern "C" __attribute__((visibility("default"))) void farcall_ptxjit_compile(
    const farcall::cpu_device::jit::CompileRequest& request,
    farcall::cpu_device::jit::CompiledKernel* out) {
  farcall::cpu_device::jit::Compile(request, out);
}
