// SPDX-License-Identifier: Apache-2.0
// LLVM: target machine of this CPU, O1 pipeline with coroutine passes, object in memory.
#include "cpu-device/exec/compiler.h"

#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/LoopInfo.h>
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
#include <llvm/Transforms/Utils/LoopSimplify.h>
#include <llvm/Transforms/Utils/LowerSwitch.h>

#include <cstdlib>
#include <mutex>

#include "cpu-device/jit/address/contraction.h"
#include "cpu-device/jit/address/first_values.h"
#include "cpu-device/jit/address/hidden_wraps.h"
#include "cpu-device/jit/emit/emitter.h"
#include "cpu-device/jit/exchange/merge_faults.h"
#include "cpu-device/jit/exchange/window_checks.h"
#include "cpu-device/jit/regions/regions.h"

namespace farcall::cpu_device::jit {
namespace {

constexpr unsigned kLargeLoop = 500;  // blocks

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
    features += feature.second ? '+' : '-';
    features += feature.first().str();
  }
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, llvm::sys::getHostCPUName(), features, options,
                                  llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
}

// What all kernels get first: registers become values, and what may be an fma does.
llvm::FunctionPassManager Prepare() {
  llvm::FunctionPassManager passes;
  passes.addPass(FirstValuesPass());
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
  // Where a thread goes on: unoptimised, the code generator asks for one place after the other, of
  // which there may be thousands.
  passes.addPass(llvm::createModuleToFunctionPassAdaptor(llvm::LowerSwitchPass()));
  return passes;
}

// Before regions are formed: few branches, and loops that are entered at one place.
llvm::FunctionPassManager PrepareRegions() {
  llvm::FunctionPassManager passes = Prepare();
  passes.addPass(llvm::SimplifyCFGPass());
  passes.addPass(llvm::InstSimplifyPass());
  passes.addPass(llvm::LoopSimplifyPass());
  return passes;
}

// What is done to a loop of thousands of blocks takes longer than the code will run: LICM asks of
// each load and each way through the loop whether it comes by, induction variables of each way what
// is known there.
bool IsWorthIt(llvm::StringRef, const llvm::Any& unit) {
  const auto* loop = llvm::any_cast<const llvm::Loop*>(&unit);
  return !loop || (*loop)->getNumBlocks() < kLargeLoop;
}

void Run(llvm::Module& module, llvm::TargetMachine& machine,
         llvm::function_ref<llvm::ModulePassManager(llvm::PassBuilder&)> make) {
  llvm::PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback(IsWorthIt);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, llvm::PipelineTuningOptions(), std::nullopt, &callbacks);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.registerVectorizerStartEPCallback(
      [](llvm::FunctionPassManager& manager, llvm::OptimizationLevel) {
        manager.addPass(HiddenWrapsPass());
        manager.addPass(WindowChecksPass());
      });
  make(builder).run(module, modules);
}

void Optimise(llvm::Module& module, llvm::TargetMachine& machine, bool quick) {
  Run(module, machine, [&](llvm::PassBuilder& builder) {
    llvm::ModulePassManager passes;
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(Prepare()));
    if (!quick) passes.addPass(llvm::createModuleToFunctionPassAdaptor(MergeFaultsPass()));
    passes.addPass(quick ? QuickPipeline()
                         : builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O1));
    return passes;
  });
}

void Verify(const llvm::Module& module, const char* when, CompiledKernel* out) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!llvm::verifyModule(module, &stream)) return;
  out->status = ExecStatus::kUnsupported;
  out->message =
      std::string("code generation is wrong ") + when + ": " + stream.str().substr(0, 2000);
}

std::unique_ptr<llvm::Module> NewModule(llvm::LLVMContext& context,
                                        const llvm::TargetMachine& machine) {
  auto module = std::make_unique<llvm::Module>("kernel", context);
  module->setTargetTriple(machine.getTargetTriple().str());
  module->setDataLayout(machine.createDataLayout());
  return module;
}

uint32_t MostThreads(const ptx::Function& entry) {
  uint64_t most = kMaxThreadsPerBlock;
  for (const uint32_t* declared : {entry.maxntid, entry.reqntid}) {
    if (declared[0] == 0) continue;
    most = std::min(most,
                    uint64_t{declared[0]} * std::max(declared[1], 1u) * std::max(declared[2], 1u));
  }
  return static_cast<uint32_t>(most);
}

// Null where threads wait in ways that regions do not have, or the kernel is wrong altogether.
std::unique_ptr<llvm::Module> EmitByRegions(const CompileRequest& request,
                                            const WarpExchange& exchange,
                                            llvm::LLVMContext& context,
                                            llvm::TargetMachine& machine, CompiledKernel* out) {
  std::unique_ptr<llvm::Module> module = NewModule(context, machine);
  Emitter emitter(request, exchange, *module, /*by_regions=*/true);
  if (!emitter.EmitKernel()) return nullptr;
  out->form = emitter.form();
  if (out->form != CodeForm::kRegions) return module;
  if (request.verify) Verify(*module, "before regions", out);
  if (out->status != ExecStatus::kOk) return module;
  Run(*module, machine, [](llvm::PassBuilder&) {
    llvm::ModulePassManager passes;
    passes.addPass(llvm::createModuleToFunctionPassAdaptor(PrepareRegions()));
    return passes;
  });
  const bool formed =
      FormRegions(*emitter.kernel(), emitter.unordered(), MostThreads(*request.entry));
  return formed ? std::move(module) : nullptr;
}

std::unique_ptr<llvm::Module> EmitByThread(const CompileRequest& request,
                                           const WarpExchange& exchange, llvm::LLVMContext& context,
                                           llvm::TargetMachine& machine, CompiledKernel* out) {
  std::unique_ptr<llvm::Module> module = NewModule(context, machine);
  Emitter emitter(request, exchange, *module, /*by_regions=*/false);
  if (!emitter.EmitKernel()) {
    out->status = emitter.status();
    out->message = emitter.error();
  }
  out->form = emitter.form();
  return module;
}

// Of a load that may give what another lane has just stored, which nothing orders.
std::string NoticeOf(const CompileRequest& request, const ptx::Instruction& load) {
  std::string where = "line " + std::to_string(load.line) + " of its PTX";
  const ptx::Function& entry = *request.entry;
  if (load.loc < entry.locations.size()) {
    const ptx::SourceLocation& source = entry.locations[load.loc];
    auto file = request.module->files.find(source.file);
    if (file != request.module->files.end())
      where = std::string(file->second) + ":" + std::to_string(source.line) + ", " + where;
  }
  return "kernel " + std::string(entry.name) + " (" + where +
         "): a lane may read what another lane of its warp has just stored, without a barrier: "
         "threads run one after the other here; __syncwarp() orders them, "
         "FARCALL_CPU_WARPS=lockstep "
         "does for all kernels";
}

void Compile(const CompileRequest& request, CompiledKernel* out) {
  size_t instructions = 0;
  for (const ptx::Function* function : request.layout->functions)
    instructions += function->body.size();
  const bool quick = request.quick || instructions > kLargeKernel;

  llvm::LLVMContext context;
  std::string error;
  auto machine = MakeTargetMachine(
      quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default, &error);
  if (!machine) {
    out->status = ExecStatus::kUnsupported;
    out->message = "LLVM has no code generator for this CPU: " + error;
    return;
  }
  const WarpExchange exchange =
      request.lockstep ? WarpExchange::Everywhere(*request.entry) : WarpExchange(*request.entry);
  if (exchange.doubt()) out->notice = NoticeOf(request, *exchange.doubt());
  std::unique_ptr<llvm::Module> made;
  if (!quick) made = EmitByRegions(request, exchange, context, *machine, out);
  if (!made) made = EmitByThread(request, exchange, context, *machine, out);
  if (out->status != ExecStatus::kOk) return;
  llvm::Module& module = *made;
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
