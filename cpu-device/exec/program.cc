// SPDX-License-Identifier: Apache-2.0
// A loaded module: globals placed and initialised, kernels compiled at first need.
#include "cpu-device/exec/program.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "cpu-device/exec/child_grids.h"
#include "cpu-device/exec/compiler.h"
#include "cpu-device/exec/executor.h"
#include "cpu-device/exec/function_ids.h"
#include "cpu-device/exec/layout.h"
#include "cpu-device/exec/object_cache.h"
#include "cpu-device/exec/object_loader.h"
#include "cpu-device/ptx/module.h"

namespace farcall::cpu_device {
namespace {

constexpr uint32_t kMaxSharedBytes = 227 << 10;
constexpr uint64_t kMaxLocalBytes = 512 << 10;

// libfarcall_ptxjit.so lies beside the library this code is in.
std::string CompilerPath() {
  if (const char* path = getenv("FARCALL_PTXJIT")) return path;
  Dl_info info = {};
  std::string path = "libfarcall_ptxjit.so";
  if (dladdr(reinterpret_cast<void*>(&CompilerPath), &info) && info.dli_fname) {
    std::string own = info.dli_fname;
    size_t slash = own.rfind('/');
    if (slash != std::string::npos) path = own.substr(0, slash + 1) + path;
  }
  return path;
}

jit::CompileFunction FindCompiler(std::string* error) {
  static std::mutex* mutex = new std::mutex;
  static jit::CompileFunction compiler = nullptr;
  std::lock_guard lock(*mutex);
  if (compiler) return compiler;
  std::string path = CompilerPath();
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
#ifdef FARCALL_PTXJIT_BUILD_PATH
  if (!library) library = dlopen(FARCALL_PTXJIT_BUILD_PATH, RTLD_NOW | RTLD_LOCAL);
#endif
  if (!library) {
    const char* reason = dlerror();
    *error = "cannot load the PTX compiler " + path + ": " + (reason ? reason : "unknown");
    return nullptr;
  }
  compiler = reinterpret_cast<jit::CompileFunction>(dlsym(library, jit::kCompileSymbol));
  if (!compiler) *error = path + " is not this version's PTX compiler";
  return compiler;
}

class ProgramImpl;

// Which code kernels run as: quick code first and optimised code for those that run long, or one of
// the two alone (FARCALL_CPU_CODE=quick, =full: for tests).
enum class CodeChoice { kByNeed, kQuick, kFull };

CodeChoice ChosenCode() {
  const char* text = getenv("FARCALL_CPU_CODE");
  const std::string_view choice = text == nullptr ? "" : text;
  if (choice == "quick") return CodeChoice::kQuick;
  return choice == "full" ? CodeChoice::kFull : CodeChoice::kByNeed;
}

// What optimising takes, of a statement. A kernel that has run as long in quick code is optimised:
// both together are never more than twice what would have been best.
constexpr std::chrono::nanoseconds kOptimisingTime = std::chrono::microseconds(250);
constexpr std::chrono::nanoseconds kLeastRunTime = std::chrono::milliseconds(2);

struct Code {
  std::unique_ptr<LoadedObject> object;
  CodeForm form = CodeForm::kLoop;
  void EnterInto(BlockShape* shape) const {
    const bool coroutine = form == CodeForm::kCoroutine;
    shape->form = form;
    shape->loop = coroutine ? nullptr : reinterpret_cast<LoopEntry>(object->entry());
    shape->coroutine = coroutine ? reinterpret_cast<CoroutineEntry>(object->entry()) : nullptr;
  }
};

class KernelImpl final : public Kernel {
 public:
  KernelImpl(ProgramImpl& program, ptx::Function& function)
      : program_(program), function_(function) {}
  ExecResult Open();  // parses the body, fills info
  const KernelInfo& info() const override { return info_; }
  ExecResult Prepare() override;
  ExecResult Run(const LaunchConfig& config, const void* params,
                 const std::function<void()>& on_wait) override;

 private:
  void FillInfo();
  ExecResult Compile();
  bool FindCached(bool quick);
  ExecResult CompileCode(bool quick);
  ExecResult Adopt(const CachedKernel& compiled, bool quick);
  const Code* Optimise();
  ExecResult RunBlocks(BlockShape shape, LaunchContext* launch);
  CacheKey KeyOf(bool quick) const;
  ExecResult CheckLaunch(const LaunchConfig& config) const;
  Dim3 ClusterOf(const LaunchConfig& config) const;

  ProgramImpl& program_;
  ptx::Function& function_;
  KernelLayout layout_;
  KernelInfo info_;
  ExecResult open_result_;
  std::mutex mutex_;
  std::atomic<bool> ready_{false};
  bool tried_ = false;
  std::atomic<bool> warned_{false};
  ExecResult result_;
  // Grids may run quick code while the other is made, so it stays.
  std::unique_ptr<Code> quick_, full_;
  std::atomic<const Code*> optimised_{nullptr};  // full_ once it may be run
  std::atomic<bool> tried_full_{false};
  std::atomic<int64_t> ran_ns_{0};  // in quick code
  std::chrono::nanoseconds worth_{0};
};

class ProgramImpl final : public Program, public KernelsByAddress {
 public:
  explicit ProgramImpl(GlobalMemory& memory) : memory_(memory) {}
  ~ProgramImpl() override {
    for (const GlobalInfo& global : globals_) memory_.Free(global.address);
  }
  ExecResult Load(std::string_view text);
  const std::vector<std::string>& KernelNames() const override { return kernel_names_; }
  const std::vector<GlobalInfo>& Globals() const override { return globals_; }
  Kernel* FindKernel(std::string_view name) override;
  Kernel* KernelAt(uint64_t address) override;

  ptx::Module& module() { return module_; }
  std::mutex& parse_mutex() { return parse_mutex_; }
  const uint64_t* global_addresses() const { return addresses_.data(); }
  const CacheKey& text_hash() const { return text_hash_; }
  uint32_t const_bytes() const { return const_bytes_; }

 private:
  ExecResult PlaceGlobals();
  ExecResult Initialise(const ptx::Variable& variable);

  GlobalMemory& memory_;
  ptx::Module module_;
  CacheKey text_hash_ = {};
  std::mutex parse_mutex_;  // bodies are parsed and code is generated by one thread at a time
  std::mutex kernels_mutex_;
  std::vector<std::string> kernel_names_;
  std::vector<GlobalInfo> globals_;
  std::vector<uint64_t> addresses_;  // by Variable::index
  uint32_t const_bytes_ = 0;
  std::map<std::string, std::unique_ptr<KernelImpl>, std::less<>> kernels_;
};

ExecResult ProgramImpl::Load(std::string_view text) {
  ptx::ParseResult parsed = ptx::Parse(text, &module_);
  if (!parsed.ok()) return {ExecStatus::kInvalidPtx, parsed.message};
  text_hash_ = HashText(*module_.text);
  for (const auto& function : module_.functions) {
    if (function->is_entry && function->has_body) kernel_names_.emplace_back(function->name);
  }
  return PlaceGlobals();
}

ExecResult ProgramImpl::PlaceGlobals() {
  addresses_.assign(module_.globals.size(), 0);
  for (const auto& variable : module_.globals) {
    if (variable->space != ptx::Space::kGlobal && variable->space != ptx::Space::kConst) continue;
    if (variable->linkage == ptx::Linkage::kExtern) continue;
    uint64_t bytes = std::max<uint64_t>(variable->size_bytes, 1);
    uint64_t address = memory_.Allocate(bytes, std::max<uint32_t>(variable->align, 16));
    if (address == 0) {
      return {ExecStatus::kOutOfMemory, "variable " + std::string(variable->name) +
                                            ": no device memory for " + std::to_string(bytes) +
                                            " bytes"};
    }
    addresses_[variable->index] = address;
    globals_.push_back(
        {std::string(variable->name), address, variable->size_bytes, variable->managed});
    if (variable->space == ptx::Space::kConst) const_bytes_ += static_cast<uint32_t>(bytes);
  }
  for (const auto& variable : module_.globals) {
    if (!addresses_[variable->index]) continue;
    ExecResult result = Initialise(*variable);
    if (!result.ok()) return result;
  }
  return {};
}

ExecResult ProgramImpl::Initialise(const ptx::Variable& variable) {
  auto* at = reinterpret_cast<uint8_t*>(addresses_[variable.index]);
  memset(at, 0, variable.size_bytes);
  if (variable.init.size() > variable.size_bytes) {
    return {ExecStatus::kInvalidPtx,
            "variable " + std::string(variable.name) + ": initialiser is too long"};
  }
  if (!variable.init.empty()) memcpy(at, variable.init.data(), variable.init.size());
  for (const ptx::Relocation& relocation : variable.relocations) {
    uint64_t value = 0;
    if (relocation.function) value = FunctionId(relocation.function->index);
    if (relocation.variable) value = addresses_[relocation.variable->index];
    if (!value) {
      return {ExecStatus::kUnsupported,
              "variable " + std::string(variable.name) + ": address of " +
                  std::string(relocation.symbol) +
                  " in its initialiser is not supported by the CPU device"};
    }
    value += static_cast<uint64_t>(relocation.addend);
    if (relocation.mask != ~0ull) {
      value = (value & relocation.mask) >> __builtin_ctzll(relocation.mask);
    }
    if (relocation.size_bytes > 8 ||
        relocation.offset + relocation.size_bytes > variable.size_bytes) {
      return {ExecStatus::kInvalidPtx,
              "variable " + std::string(variable.name) + ": initialiser is too long"};
    }
    memcpy(at + relocation.offset, &value, relocation.size_bytes);
  }
  return {};
}

Kernel* ProgramImpl::FindKernel(std::string_view name) {
  std::lock_guard lock(kernels_mutex_);
  auto it = kernels_.find(name);
  if (it != kernels_.end()) return it->second.get();
  ptx::Function* function = module_.FindFunction(name);
  if (!function || !function->is_entry || !function->has_body) return nullptr;
  auto kernel = std::make_unique<KernelImpl>(*this, *function);
  kernel->Open();
  Kernel* found = kernel.get();
  kernels_.emplace(std::string(name), std::move(kernel));
  return found;
}

Kernel* ProgramImpl::KernelAt(uint64_t address) {
  const uint64_t index = (address - FunctionId(0)) / kFunctionIdStep;
  if (index >= module_.functions.size() || FunctionId(static_cast<uint32_t>(index)) != address) {
    return nullptr;
  }
  return FindKernel(module_.functions[index]->name);
}

ExecResult KernelImpl::Open() {
  std::lock_guard lock(program_.parse_mutex());
  std::string error = ComputeLayout(program_.module(), function_, &layout_);
  if (!error.empty()) open_result_ = {ExecStatus::kInvalidPtx, error};
  FillInfo();
  return open_result_;
}

void KernelImpl::FillInfo() {
  info_.name = std::string(function_.name);
  for (const auto& param : function_.params) {
    info_.params.push_back({param->param_offset, static_cast<uint32_t>(param->size_bytes)});
  }
  info_.param_bytes = function_.param_bytes;
  info_.static_shared_bytes = layout_.static_shared_bytes;
  info_.local_bytes = layout_.local_bytes;
  info_.const_bytes = program_.const_bytes();
  auto product = [](const uint32_t* dims) {
    return uint64_t{dims[0]} * std::max(dims[1], 1u) * std::max(dims[2], 1u);
  };
  uint64_t most = kMaxThreadsPerBlock;
  if (function_.maxntid[0]) most = std::min(most, product(function_.maxntid));
  if (function_.reqntid[0]) {
    most = std::min(most, product(function_.reqntid));
    for (int i = 0; i < 3; ++i) info_.required_block[i] = std::max(function_.reqntid[i], 1u);
  }
  info_.max_threads_per_block = static_cast<uint32_t>(most);
  // No register allocation happens: virtual registers over a typical reuse, within what the limits
  // allow.
  uint32_t limit = function_.maxnreg ? function_.maxnreg : 255;
  limit = std::min<uint32_t>(limit, 65536 / std::max<uint32_t>(info_.max_threads_per_block, 256));
  info_.registers = std::clamp<uint32_t>(layout_.register_count / 3, 16, std::max(limit, 16u));
  info_.ptx_version = function_.target;
  if (function_.reqnctapercluster[0]) {
    for (int i = 0; i < 3; ++i) {
      info_.required_cluster[i] = std::max(function_.reqnctapercluster[i], 1u);
    }
  }
  info_.needs_cluster = function_.explicit_cluster;
  info_.uses_grid_sync = layout_.uses_grid_workspace;
}

ExecResult KernelImpl::Prepare() {
  if (ready_.load(std::memory_order_acquire)) return {};
  std::lock_guard lock(mutex_);
  if (!tried_) {
    tried_ = true;
    result_ = open_result_.ok() ? Compile() : open_result_;
    if (result_.ok()) ready_.store(true, std::memory_order_release);
  }
  return result_;
}

static CacheFolder CacheOf(const ExecutorOptions& options) {
  return {options.cache_dir, options.cache_shared};
}

CacheKey KernelImpl::KeyOf(bool quick) const {
  const char* warps = Options().lockstep ? " lockstep" : "";
  return KernelKey(program_.text_hash(), info_.name + (quick ? " quick" : "") + warps);
}

bool KernelImpl::FindCached(bool quick) {
  CachedKernel cached;
  return ReadCachedKernel(CacheOf(Options()), KeyOf(quick), &cached) && Adopt(cached, quick).ok();
}

ExecResult KernelImpl::Compile() {
  const CodeChoice choice = ChosenCode();
  size_t statements = 0;
  for (const ptx::Function* function : layout_.functions) statements += function->body.size();
  worth_ = std::max(kLeastRunTime, kOptimisingTime * static_cast<int64_t>(statements));
  tried_full_ = choice == CodeChoice::kQuick || statements > jit::kLargeKernel;
  if (choice != CodeChoice::kQuick && FindCached(false)) return {};
  if (choice == CodeChoice::kFull) return CompileCode(false);
  return FindCached(true) ? ExecResult{} : CompileCode(true);
}

ExecResult KernelImpl::CompileCode(bool quick) {
  std::string error;
  jit::CompileFunction compile = FindCompiler(&error);
  if (!compile) return {ExecStatus::kUnsupported, error};
  jit::CompileRequest request;
  request.module = &program_.module();
  request.entry = &function_;
  request.layout = &layout_;
  request.verify = Options().verify_ir;
  request.quick = quick;
  request.lockstep = Options().lockstep;
  jit::CompiledKernel compiled;
  compile(request, &compiled);
  if (compiled.status != ExecStatus::kOk) return {compiled.status, compiled.message};
  CachedKernel cached;
  cached.form = compiled.form;
  cached.object = std::move(compiled.object);
  cached.notice = std::move(compiled.notice);
  ExecResult adopted = Adopt(cached, quick);
  if (adopted.ok()) WriteCachedKernel(CacheOf(Options()), KeyOf(quick), cached);
  return adopted;
}

ExecResult KernelImpl::Adopt(const CachedKernel& compiled, bool quick) {
  std::string error;
  auto code = std::make_unique<Code>();
  code->object = LoadedObject::Load(compiled.object, &error);
  if (!code->object) return {ExecStatus::kUnsupported, "kernel " + info_.name + ": " + error};
  code->form = compiled.form;
  if (!compiled.notice.empty() && Options().warn && !warned_.exchange(true)) {
    Options().warn(compiled.notice);
  }
  (quick ? quick_ : full_) = std::move(code);
  if (!quick) optimised_.store(full_.get(), std::memory_order_release);
  return {};
}

// Null if there is none, or another thread is at it: then quick code it stays.
const Code* KernelImpl::Optimise() {
  if (!tried_full_.exchange(true)) CompileCode(false);
  return optimised_.load(std::memory_order_acquire);
}

// In quick code until it has run long enough.
ExecResult KernelImpl::RunBlocks(BlockShape shape, LaunchContext* launch) {
  const Code* code = optimised_.load(std::memory_order_acquire);
  const std::chrono::nanoseconds left = worth_ - std::chrono::nanoseconds(ran_ns_.load());
  if (!code && left.count() <= 0) code = Optimise();
  const bool stays = code || tried_full_;
  (code ? code : quick_.get())->EnterInto(&shape);
  if (stays) return RunGrid(shape, launch, {});

  BlockShape better = shape;
  const auto start = std::chrono::steady_clock::now();
  ExecResult result = RunGrid(shape, launch, {left, [&]() -> const BlockShape* {
                                                const Code* made = Optimise();
                                                if (made) made->EnterInto(&better);
                                                return made ? &better : nullptr;
                                              }});
  ran_ns_ += (std::chrono::steady_clock::now() - start).count();
  return result;
}

ExecResult KernelImpl::CheckLaunch(const LaunchConfig& config) const {
  uint64_t threads = uint64_t{config.block.x} * config.block.y * config.block.z;
  auto refuse = [&](std::string text) {
    return ExecResult{ExecStatus::kUnsupported, "kernel " + info_.name + ": " + text};
  };
  if (threads == 0 || threads > info_.max_threads_per_block) {
    return refuse("block of " + std::to_string(threads) + " threads, it takes 1 to " +
                  std::to_string(info_.max_threads_per_block));
  }
  if (uint64_t{config.grid.x} * config.grid.y * config.grid.z == 0) return refuse("empty grid");
  const uint32_t reserved = layout_.uses_reserved_shared ? kReservedSharedBytes + 128 : 0;
  if (uint64_t{layout_.dynamic_shared_offset} + config.dynamic_shared_bytes >
      kMaxSharedBytes + reserved) {
    return refuse("shared memory: " + std::to_string(config.dynamic_shared_bytes) + " dynamic + " +
                  std::to_string(layout_.static_shared_bytes) + " static bytes, a block has " +
                  std::to_string(kMaxSharedBytes));
  }
  const Dim3 cluster = ClusterOf(config);
  const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
  if (blocks == 0 || blocks > kMaxClusterBlocks || config.grid.x % cluster.x != 0 ||
      config.grid.y % cluster.y != 0 || config.grid.z % cluster.z != 0) {
    return refuse("cluster of " + std::to_string(blocks) + " blocks: 1 to " +
                  std::to_string(kMaxClusterBlocks) + " are possible, and must divide the grid");
  }
  return {};
}

// As launched, else as compiled.
Dim3 KernelImpl::ClusterOf(const LaunchConfig& config) const {
  const Dim3& given = config.cluster;
  const uint32_t* required = info_.required_cluster;
  if (required[0] == 0 || given.x != 1 || given.y != 1 || given.z != 1) return given;
  return {required[0], required[1], required[2]};
}

ExecResult KernelImpl::Run(const LaunchConfig& config, const void* params,
                           const std::function<void()>& on_wait) {
  static std::atomic<uint64_t> next_grid{1};
  ExecResult result = Prepare();
  if (!result.ok()) return result;
  result = CheckLaunch(config);
  if (!result.ok()) return result;

  // Aligned for tensor maps, which need most of all that can be a parameter.
  constexpr uintptr_t kParamAlign = 64;
  std::vector<uint8_t> block(info_.param_bytes + 2 * kParamAlign);
  auto* aligned = reinterpret_cast<uint8_t*>(
      (reinterpret_cast<uintptr_t>(block.data()) + kParamAlign - 1) & ~(kParamAlign - 1));
  if (info_.param_bytes) memcpy(aligned, params, info_.param_bytes);

  const ExecutorOptions& options = Options();
  uint64_t workspace[kGridWorkspaceBytes / 8] =
      {};  // a grid barrier's counters, alone in this launch
  LaunchContext launch;
  launch.params = aligned;
  launch.param_bytes = info_.param_bytes;
  launch.globals = program_.global_addresses();
  // Alignment is checked on the offset, hence the multiple of 64.
  if (const AddressWindow reserved = ReservedWindow();
      reserved.size != 0 && reserved.begin % 64 == 0) {
    launch.window_begin = reserved.begin;
    launch.window_size = reserved.size;
  } else if (options.device_window_begin % 64 == 0) {
    launch.window_begin = options.device_window_begin;
    launch.window_size = options.device_window_end - options.device_window_begin;
  }
  launch.grid_id = next_grid++;
  launch.grid_workspace = config.cooperative ? reinterpret_cast<uint64_t>(workspace) : 0;
  const uint32_t grid[3] = {config.grid.x, config.grid.y, config.grid.z};
  const uint32_t threads[3] = {config.block.x, config.block.y, config.block.z};
  std::copy(grid, grid + 3, launch.grid);
  std::copy(threads, threads + 3, launch.block);
  launch.dynamic_shared = config.dynamic_shared_bytes;
  launch.total_shared = layout_.dynamic_shared_offset + config.dynamic_shared_bytes;
  const Dim3 cluster = ClusterOf(config);
  const uint32_t shape_of_cluster[3] = {cluster.x, cluster.y, cluster.z};
  std::copy(shape_of_cluster, shape_of_cluster + 3, launch.cluster);
  launch.explicit_cluster =
      info_.required_cluster[0] != 0 || cluster.x * cluster.y * cluster.z != 1;
  launch.kernel_name = info_.name.c_str();
  ChildGrids children(program_);
  launch.children = &children;
  if (on_wait) launch.on_wait = &on_wait;

  BlockShape shape;
  shape.threads = threads[0] * threads[1] * threads[2];
  shape.shared_bytes = launch.total_shared;
  uint64_t stack =
      layout_.needs_local_stack ? std::max<uint64_t>(options.stack_bytes, 16 << 10) : 0;
  shape.shared_align = layout_.shared_align;
  // Of a power of two, like every alignment.
  const uint64_t mask = std::max<uint64_t>(layout_.local_align, 64) - 1;
  shape.local_bytes = (std::min(layout_.local_bytes + stack, kMaxLocalBytes) + mask) & ~mask;
  result = RunBlocks(shape, &launch);
  return result.ok() ? children.RunAll() : result;
}

}  // namespace

ExecResult Program::Load(std::string_view ptx, GlobalMemory& memory,
                         std::unique_ptr<Program>* out) {
  auto program = std::make_unique<ProgramImpl>(memory);
  ExecResult result = program->Load(ptx);
  if (result.ok()) *out = std::move(program);
  return result;
}

}  // namespace farcall::cpu_device
