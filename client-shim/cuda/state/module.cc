// SPDX-License-Identifier: Apache-2.0
// Loading images and finding what is in them.
#include "client-shim/cuda/state/module.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>

#include "client-shim/core/memory_map.h"
#include "client-shim/core/report/log.h"
#include "client-shim/core/report/stats.h"
#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/devices.h"
#include "client-shim/core/session/handles.h"
#include "client-shim/cuda/objects/jit_options.h"
#include "client-shim/cuda/objects/moved_bytes.h"
#include "client-shim/cuda/state/memory.h"
#include "proto/cuda/load_request.h"
#include "proto/handshake/session_features.h"

namespace farcall::client {

namespace {

constexpr size_t kMaxFileBytes = 4ull << 30;

const Device* TargetDevice() {
  Context* context = CurrentContext();
  return FindDevice(context == nullptr ? 0 : context->device);
}

uint32_t ComputeCapability(const Device* device) {
  return static_cast<uint32_t>(device->Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) *
                                   10 +
                               device->Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

Builder LoadBody(const Module* module, const Jit& jit, uint8_t wants) {
  Builder body;
  body.Put<uint64_t>(module->handle);
  body.PutBytes(module->image->hash().data(), module->image->hash().size());
  body.Put<uint64_t>(module->image->bytes());
  body.Put<uint8_t>(wants);
  PutNumbers(body, jit);
  if (module->is_library) body.Put<uint64_t>(0);  // its options speak of this process's memory
  return body;
}

// {attributes by id, offsets and sizes of the parameters}
bool ReadKernel(Reader& in, KernelInfo* kernel) {
  kernel->attributes.resize(in.GetCount(4));
  for (int32_t& attribute : kernel->attributes) attribute = in.Get<int32_t>();
  kernel->parameters.resize(in.GetCount(8));
  for (Parameter& parameter : kernel->parameters) {
    parameter.offset = in.Get<uint32_t>();
    parameter.bytes = in.Get<uint32_t>();
    uint64_t end = uint64_t{parameter.offset} + parameter.bytes;
    if (end > kMaxInlineBytes) in.Fail();
  }
  kernel->Measure();
  return in.ok();
}

// An older server ends its answer before them.
void RememberFunctions(Image* image, Reader& in) {
  if (in.Done()) return;
  std::vector<KernelInfo> kernels(in.GetCount(24));
  for (KernelInfo& kernel : kernels) {
    kernel.name = in.GetString();
    if (!ReadKernel(in, &kernel)) return;
  }
  if (!in.Done()) return;
  for (KernelInfo& kernel : kernels)
    if (image->Find(kernel.name) == nullptr) image->Remember(std::move(kernel));
}

// Once more where the server's store let the image go that it had been offered.
CUresult AskToLoad(Image* image, CallId call, std::span<const std::byte> body, Reply* reply) {
  CUresult status = RoundTrip(call, body, reply);
  if (status != CUDA_ERROR_NOT_FOUND) return status;
  image->Unsend();
  status = image->Offer();
  return status == CUDA_SUCCESS ? RoundTrip(call, body, reply) : status;
}

CUresult SendLoad(Module* module, const Jit& jit) {
  CallId call = module->is_library ? CallId::cuLibraryLoadData : CallId::cuModuleLoadDataEx;
  CUresult status = module->image->Offer();
  if (status != CUDA_SUCCESS) return status;
  const uint8_t log = jit.info != nullptr || jit.error != nullptr ? kWantsLogs : 0;
  // Loaded before, on such a device, by such a driver: nothing to wait for.
  if (module->image->known_to_load() && log == 0 && !MemoryRanOut())
    return Post(call, LoadBody(module, jit, 0).bytes());
  Builder body = LoadBody(module, jit, log | kWantsFunctions);
  Reply reply;
  status = AskWithRoom([&] { return AskToLoad(module->image.get(), call, body.bytes(), &reply); });
  Reader outputs = reply.outputs();
  std::string_view info = outputs.GetString(), error = outputs.GetString();
  bool has_logs = outputs.ok();
  GiveLogs(jit, has_logs ? info : "", has_logs ? error : "");
  if (status == CUDA_SUCCESS) {
    module->image->RememberLoad();
    if (has_logs) RememberFunctions(module->image.get(), outputs);
  } else {
    module->image->Unsend();
    NoteJitFailure(call, status, has_logs ? error : "");
  }
  return status;
}

CUresult Load(std::shared_ptr<Image> image, const LoadOptions& options, bool is_library,
              Module** out) {
  Jit jit = ReadOptions(options.count, options.options, options.values);
  if (!jit.known) return CUDA_ERROR_INVALID_VALUE;
  const Device* device = TargetDevice();
  const Welcome& welcome = CurrentSession()->welcome();
  image->OpenCache(welcome.device_kind + "|" + std::to_string(ComputeCapability(device)) + "|" +
                   std::to_string(welcome.driver_version) + "|" + device->snapshot->name + jit.key +
                   // A library takes no memory before it is used: that it loads says less.
                   (is_library ? "|library" : ""));
  auto* module = new Module;
  module->is_library = is_library;
  module->context = CurrentContext();
  module->image = std::move(image);
  HandleKind kind = is_library ? HandleKind::kLibrary : HandleKind::kModule;
  module->handle = Handles(kind).New(module);
  const auto start = std::chrono::steady_clock::now();
  CUresult status = module->handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY : SendLoad(module, jit);
  GiveWallTime(jit, std::chrono::steady_clock::now() - start);
  if (status != CUDA_SUCCESS) {
    Handles(kind).Free(module->handle);
    delete module;
    return status;
  }
  if (is_library && HasSeveralServers()) {
    const Builder body = LoadBody(module, jit, 0);
    module->load_body.assign(body.bytes().begin(), body.bytes().end());
    module->servers.store(1u << CurrentServer());
  }
  *out = module;
  return CUDA_SUCCESS;
}

// In a process with several servers: loads a library on the present call's server, as it was loaded
// on the first one.
CUresult BringLibrary(Module* library) {
  const uint32_t here = 1u << CurrentServer();
  if ((library->servers.load() & here) != 0) return CUDA_SUCCESS;
  std::lock_guard lock(library->mutex);
  if ((library->servers.load() & here) != 0) return CUDA_SUCCESS;
  CUresult status = library->image->Offer();
  if (status == CUDA_SUCCESS)
    status =
        AskToLoad(library->image.get(), CallId::cuLibraryLoadData, library->load_body, nullptr);
  if (status == CUDA_SUCCESS) library->servers.fetch_or(here);
  return status;
}

CUresult BringKernel(Function* kernel) {
  const uint32_t here = 1u << CurrentServer();
  if ((kernel->servers.load() & here) != 0) return CUDA_SUCCESS;
  CUresult status = BringLibrary(kernel->parent);
  if (status != CUDA_SUCCESS) return status;
  Builder body;
  body.Put<uint64_t>(kernel->parent->handle);
  body.Put<uint64_t>(kernel->handle);
  body.PutString(kernel->info->name);
  std::lock_guard lock(kernel->mutex);
  if ((kernel->servers.load() & here) != 0) return CUDA_SUCCESS;
  status = RoundTrip(CallId::cuLibraryGetKernel, body.bytes(), nullptr);
  if (status == CUDA_SUCCESS) kernel->servers.fetch_or(here);
  return status;
}

// routing.h's Spread.
bool BringByHandle(uint64_t handle, bool is_kernel) {
  CUresult status = CUDA_ERROR_INVALID_HANDLE;
  if (is_kernel) {
    auto* kernel = FindObject<Function>(HandleKind::kKernel, handle);
    if (kernel != nullptr) status = BringKernel(kernel);
  } else {
    auto* library = FindObject<Module>(HandleKind::kLibrary, handle);
    if (library != nullptr) status = BringLibrary(library);
  }
  if (status != CUDA_SUCCESS)
    Log(LogLevel::kError, "a library cannot be loaded on %s: code %d",
        CurrentSession()->endpoint().c_str(), static_cast<int>(status));
  return status == CUDA_SUCCESS;
}

[[maybe_unused]] const bool g_spreads = [] {
  g_spread.store(&BringByHandle);
  return true;
}();

// A framework's libraries bring dozens of images that a CPU device cannot run: the first is told
// with what to do, the others at debug.
CUresult Refuse(CUresult status, const std::string& error) {
  static std::atomic<bool> has_told{false};
  const bool is_of_cpu = status == CUDA_ERROR_NO_BINARY_FOR_GPU &&
                         CurrentSession()->welcome().device_kind.compare(0, 3, "cpu") == 0;
  if (!is_of_cpu) {
    Log(LogLevel::kError, "kernel image: %s", error.c_str());
  } else if (!has_told.exchange(true)) {
    Log(LogLevel::kError,
        "kernel image: the kernels of this program are machine code, which the CPU device cannot "
        "run: use a server with a GPU (--endpoint), or `--device dry` to count calls (%s; further "
        "images are told at debug)",
        error.c_str());
  } else {
    Log(LogLevel::kDebug, "kernel image: %s", error.c_str());
  }
  return status;
}

// What a program waits for as its kernels are sent and compiled.
class LoadStep {
 public:
  LoadStep(Image& image, const std::string& of) {
    if (!ShowsProgress()) return;
    const bool is_sent = image.bytes() > kMaxInlineBytes && !image.IsHere();
    std::string what = "loading kernels";
    if (!of.empty()) what.append(" of ").append(of, of.rfind('/') + 1);
    step_.emplace(std::move(what), is_sent ? image.bytes() : 0,
                  MovedBytes(&Link::Counters::chunk_bytes_out));
  }

 private:
  std::optional<SlowStep> step_;
};

ImageTarget Target() {
  using enum cuda_abi::CodeTaste;
  const Welcome& welcome = CurrentSession()->welcome();
  const std::string& kind = welcome.device_kind;
  return {ComputeCapability(TargetDevice()),
          kind == "cpu"        ? kPtxOnly
          : kind == "cpu-skip" ? kPtxFirst
                               : kMachineCodeFirst,
          HasFeature(welcome, SessionFeature::kImageUnits)};
}

// Asks the server; the answer is the function's layout and attributes.
CUresult FetchFunction(Module* module, const char* name, uint64_t handle, const KernelInfo** info) {
  CallId call = module->is_library ? CallId::cuLibraryGetKernel : CallId::cuModuleGetFunction;
  Builder body;
  body.Put<uint64_t>(module->handle);
  body.Put<uint64_t>(handle);
  body.PutString(name);
  *info = module->image->Find(name);
  if (*info != nullptr && !MemoryRanOut()) return Post(call, body.bytes());
  Reply reply;
  CUresult status = AskWithRoom([&] { return RoundTrip(call, body.bytes(), &reply); });
  if (status != CUDA_SUCCESS || *info != nullptr) return status;
  KernelInfo fresh;
  fresh.name = name;
  Reader outputs = reply.outputs();
  ReadKernel(outputs, &fresh);
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  *info = module->image->Remember(std::move(fresh));
  return CUDA_SUCCESS;
}

}  // namespace

Module* FindModule(CUmodule module) {
  return FindObject<Module>(HandleKind::kModule, reinterpret_cast<uint64_t>(module));
}

Module* FindLibrary(CUlibrary library) {
  return FindObject<Module>(HandleKind::kLibrary, reinterpret_cast<uint64_t>(library));
}

void KernelInfo::Measure() {
  uint64_t end = 0;
  for (const Parameter& parameter : parameters) {
    has_gaps |= parameter.offset != end;
    end = uint64_t{parameter.offset} + parameter.bytes;
    parameter_bytes = static_cast<uint32_t>(std::max<uint64_t>(parameter_bytes, end));
  }
  last_word = parameter_bytes == 0 ? 0 : (parameter_bytes - 1) / 8 * 8;
}

void Function::SetInfo(const KernelInfo* of) {
  info = of;
  max_threads = static_cast<uint32_t>(info->Attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK));
  if (info->Attribute(CU_FUNC_ATTRIBUTE_BINARY_VERSION) != 0)
    registers = static_cast<uint32_t>(info->Attribute(CU_FUNC_ATTRIBUTE_NUM_REGS));
  SetMaxDynamicShared(max_dynamic_shared.load());
  if (ShowsProgress() && CurrentSession()->welcome().device_kind.compare(0, 3, "cpu") == 0)
    is_new.store(true, std::memory_order_relaxed);
}

// Without asking for more, 48 KiB of static and dynamic memory together.
void Function::SetMaxDynamicShared(int bytes) {
  max_dynamic_shared.store(bytes);
  constexpr uint32_t kDefaultShared = 48u << 10;
  if (bytes < 0) bytes = info->Attribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  auto used = static_cast<uint32_t>(info->Attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  uint32_t plain = used < kDefaultShared ? kDefaultShared - used : 0;
  launch_shared_limit.store(std::max(plain, bytes > 0 ? static_cast<uint32_t>(bytes) : 0u));
}

CUresult LoadImage(const void* image, const LoadOptions& options, bool is_library,
                   Module** module) {
  if (image == nullptr ||
      (options.count != 0 && (options.options == nullptr || options.values == nullptr)))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult status = CUDA_SUCCESS;
  std::string error;
  auto found = Image::FromPointer(image, Target(), &status, &error);
  CountLibrary(image);
  if (found == nullptr) return Refuse(status, error);
  const LoadStep step(*found, ShowsProgress() ? LibraryOf(image) : "");
  return Load(std::move(found), options, is_library, module);
}

CUresult ReadImageFile(const char* path, std::vector<std::byte>* bytes) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FILE* file = std::fopen(path, "rbe");
  if (file == nullptr) return CUDA_ERROR_FILE_NOT_FOUND;
  std::byte buffer[65536];
  for (size_t got;
       (got = std::fread(buffer, 1, sizeof(buffer), file)) != 0 && bytes->size() < kMaxFileBytes;)
    bytes->insert(bytes->end(), buffer, buffer + got);
  std::fclose(file);
  return CUDA_SUCCESS;
}

CUresult LoadImageFile(const char* path, const LoadOptions& options, bool is_library,
                       Module** module) {
  std::vector<std::byte> bytes;
  CUresult read = ReadImageFile(path, &bytes);
  if (read != CUDA_SUCCESS) return read;
  CUresult status = CUDA_SUCCESS;
  std::string error;
  auto found = Image::FromBytes(std::move(bytes), Target(), &status, &error);
  if (found == nullptr) return Refuse(status, error);
  const LoadStep step(*found, path);
  return Load(std::move(found), options, is_library, module);
}

CUresult BringHere(Function* function) {
  if (SplitHandle(function->handle).kind == HandleKind::kKernel) return BringKernel(function);
  Handles(HandleKind::kFunction).Note(function->handle);
  const Context* context = CurrentContext();
  return context == nullptr || CurrentSession() == context->session ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_INVALID_HANDLE;
}

CUresult GetFunction(Module* module, const char* name, Function** function) {
  if (HasSeveralServers() && module->is_library) {
    const CUresult here = BringLibrary(module);
    if (here != CUDA_SUCCESS) return here;
  }
  std::lock_guard lock(module->mutex);
  auto known = module->functions.find(std::string_view(name));
  if (known != module->functions.end()) {
    *function = known->second;
    return CUDA_SUCCESS;
  }
  HandleKind kind = module->is_library ? HandleKind::kKernel : HandleKind::kFunction;
  auto* fresh = new Function;
  fresh->handle = Handles(kind).New(fresh);
  fresh->parent = module;
  const KernelInfo* info = nullptr;
  CUresult status = fresh->handle == 0 ? CUDA_ERROR_OUT_OF_MEMORY
                                       : FetchFunction(module, name, fresh->handle, &info);
  if (status != CUDA_SUCCESS) {
    Handles(kind).Free(fresh->handle);
    delete fresh;
    return status;
  }
  fresh->SetInfo(info);
  if (HasSeveralServers()) fresh->servers.store(1u << CurrentServer());
  module->functions[name] = fresh;
  *function = fresh;
  return CUDA_SUCCESS;
}

CUresult GetSymbol(Module* module, const char* name, Symbol* symbol) {
  std::string key(name);
  if (module->is_library) {  // each context has one of its own
    if (HasSeveralServers()) {
      const CUresult here = BringLibrary(module);
      if (here != CUDA_SUCCESS) return here;
    }
    if (const Context* context = CurrentContext(); context != nullptr)
      key.append(" ")
          .append(std::to_string(context->handle))
          .append(" ")
          .append(std::to_string(context->ends.load()));
  }
  std::lock_guard lock(module->mutex);
  auto known = module->symbols.find(key);
  if (known != module->symbols.end()) {
    *symbol = known->second;
    return CUDA_SUCCESS;
  }
  Builder body;
  body.Put<uint64_t>(module->handle);
  body.PutString(name);
  Reply reply;
  CallId call = module->is_library ? CallId::cuLibraryGetGlobal : CallId::cuModuleGetGlobal_v2;
  CUresult status = AskWithRoom([&] { return RoundTrip(call, body.bytes(), &reply); });
  if (status != CUDA_SUCCESS) return status;
  Reader outputs = reply.outputs();
  symbol->address = outputs.Get<uint64_t>();
  symbol->bytes = outputs.Get<uint64_t>();
  if (!outputs.Done()) return CUDA_ERROR_UNKNOWN;
  Allocation allocation;
  allocation.base = symbol->address;
  allocation.bytes = symbol->bytes;
  allocation.context = ContextFor(CurrentSession());
  allocation.server_device = allocation.context == nullptr ? 0 : allocation.context->server_device;
  allocation.id = NewBufferId();
  allocation.owner = module->handle;
  Memory().Insert(allocation);
  module->symbols[key] = *symbol;
  return CUDA_SUCCESS;
}

void DropModule(Module* module) {
  Memory().RemoveOwner(module->handle);
  std::lock_guard lock(module->mutex);
  HandleKind kind = module->is_library ? HandleKind::kKernel : HandleKind::kFunction;
  for (auto& [name, function] : module->functions) Handles(kind).Free(function->handle);
  Handles(module->is_library ? HandleKind::kLibrary : HandleKind::kModule).Free(module->handle);
}

}  // namespace farcall::client
