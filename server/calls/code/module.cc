// SPDX-License-Identifier: Apache-2.0
// Modules and libraries: loading images from the store, and what is in them.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "cpu-device/images/variables.h"
#include "generated/server/driver_api.h"
#include "generated/server/handwritten.h"
#include "proto/cuda/load_request.h"
#include "server/calls/code/function_info.h"
#include "server/calls/code/linked_image.h"
#include "server/device/current_context.h"
#include "server/state/objects/context_state.h"
#include "server/state/objects/jit_options.h"
#include "server/state/session.h"

namespace farcall::server {

namespace {

struct LoadRequest {
  uint64_t wire = 0;
  Hash256 hash{};
  uint64_t bytes = 0;
  bool want_logs = false;
  bool want_functions = false;
  JitOptions jit;
};

bool DecodeLoad(Reader& in, bool is_library, LoadRequest* request) {
  request->wire = in.Get<uint64_t>();
  std::span<const std::byte> hash = in.GetBytes();
  request->bytes = in.Get<uint64_t>();
  const auto wants = in.Get<uint8_t>();
  request->want_logs = (wants & kWantsLogs) != 0;
  request->want_functions = (wants & kWantsFunctions) != 0;
  if (hash.size() != request->hash.size() || !request->jit.Decode(in)) return false;
  std::memcpy(request->hash.data(), hash.data(), hash.size());
  // Library options speak of the client's memory: read and left.
  size_t library_options = is_library ? in.GetCount(12) : 0;
  for (size_t i = 0; i < library_options; ++i) {
    in.Get<uint32_t>();
    in.Get<uint64_t>();
  }
  return in.Done();
}

// A fatbin's entries are often compressed: what is in them cannot be told.
bool MayPrint(const std::vector<cuda_abi::Bytes>& containers) {
  static constexpr std::array<std::string_view, 2> kPrinters = {"vprintf", "__assertfail"};
  return std::any_of(containers.begin(), containers.end(), [](cuda_abi::Bytes image) {
    return cuda_abi::ClassifyImage(image) == cuda_abi::ImageForm::kContainer ||
           std::any_of(kPrinters.begin(), kPrinters.end(), [&](std::string_view name) {
             return memmem(image.data(), image.size(), name.data(), name.size()) != nullptr;
           });
  });
}

// A module's variables lie on its context's device; a library's on each device that uses it, which
// any may. false: the quota does not hold them, and call.result says so.
bool ChargeVariables(ServeCall& call, const std::vector<cuda_abi::Bytes>& containers, uint64_t wire,
                     bool is_library) {
  Session& session = call.session;
  const int first = is_library ? 0 : call.context->device;
  const int end = is_library ? session.options().devices : first + 1;
  const uint16_t context = is_library ? DeviceMemory::kNoContext : call.context->slot;
  const auto& capabilities = session.options().compute_capabilities;
  std::map<uint32_t, uint64_t> read;  // by capability: devices are often alike
  for (int device = first; device < end; ++device) {
    const auto at = static_cast<size_t>(device);
    const uint32_t capability = at < capabilities.size() ? capabilities[at] : 0;
    auto [found, is_new] = read.try_emplace(capability);
    if (is_new) {
      for (const cuda_abi::Bytes image : containers) {
        const uint64_t more =
            cpu_device::images::VariableBytes(image, capability, session.options().code_taste);
        // A peer names the sizes: the sum does not wrap around.
        found->second += std::min(more, std::numeric_limits<uint64_t>::max() - found->second);
      }
    }
    const uint64_t variables = found->second;
    if (variables == 0) continue;
    call.result = session.memory().ChargeObject(device, variables, context, wire, &call.detail);
    if (call.result != CUDA_SUCCESS) {
      session.memory().RefundObject(wire);
      return false;
    }
  }
  return true;
}

// The common part of both loads; `load` calls the driver, `put_functions` tells of what it loaded.
template <typename Load, typename PutFunctions>
Status LoadImage(ServeCall& call, HandleKind kind, Load load, PutFunctions put_functions) {
  LoadRequest request;
  if (!DecodeLoad(call.in, kind == HandleKind::kLibrary, &request)) return call.Malformed("body");
  call.CheckNew(kind, request.wire);
  if (!call.ready()) return call.RejectStatus();
  Image image = call.session.images().Get(request.hash);
  if (image == nullptr || image->size() != request.bytes + 1) {
    call.result = CUDA_ERROR_NOT_FOUND;
    call.detail = "the server has no such image of " + std::to_string(request.bytes) +
                  " bytes: send it again";
    request.jit.EncodeLogs(call.out);
    return {};
  }
  std::vector<cuda_abi::Bytes> containers;
  if (!ContainersOf(*image, &containers, &call.detail)) {
    call.result = CUDA_ERROR_INVALID_IMAGE;
    request.jit.EncodeLogs(call.out);
    return {};
  }
  if (MayPrint(containers)) call.session.output().NotePrintf();
  if (request.want_logs) request.jit.AddLogs();
  if (!ChargeVariables(call, containers, request.wire, kind == HandleKind::kLibrary)) {
    request.jit.EncodeLogs(call.out);
    return {};
  }
  const LinkedImage linked(containers);
  void* native = nullptr;
  call.result = load(linked.data(), request, &native);
  if (call.result == CUDA_SUCCESS)
    call.Insert(kind, request.wire, native);
  else
    call.session.memory().RefundObject(request.wire);
  request.jit.EncodeLogs(call.out);
  if (call.result == CUDA_SUCCESS && request.want_functions) put_functions(native);
  call.session.images().Forget(request.hash);
  return {};
}

CUdevice DeviceOf(const ServeCall& call) {
  return call.context == nullptr ? 0 : call.context->device;
}

// A kernel tells its parameters only while a context is current (driver 580.159), though it and its
// library belong to none: the call's, another of the session's, or the device's primary one.
//   Thread  issue thread
class ContextLoan {
 public:
  explicit ContextLoan(ServeCall& call) : api_(call.api), device_(DeviceOf(call)) {
    if (call.context != nullptr) return;  // it is current
    const auto live = call.session.contexts().Live();
    CUcontext native = live.empty() ? nullptr : live.begin()->second;
    is_new_ = native == nullptr && api_.cuDevicePrimaryCtxRetain(&native, device_) == CUDA_SUCCESS;
    if (native != nullptr) {
      CurrentContext::Set(api_, native);
      is_set_ = true;
    }
  }
  ~ContextLoan() {
    if (is_set_) CurrentContext::Set(api_, nullptr);
    if (is_new_) {
      api_.cuDevicePrimaryCtxRelease_v2(device_);
      CurrentContext::Forget();
    }
  }
  ContextLoan(const ContextLoan&) = delete;
  ContextLoan& operator=(const ContextLoan&) = delete;

 private:
  const DriverApi& api_;
  const CUdevice device_;
  bool is_set_ = false, is_new_ = false;
};

void InsertFunction(ServeCall& call, HandleKind kind, uint64_t wire, void* native, uint64_t parent,
                    uint64_t parameter_bytes) {
  auto* state = new FunctionState();
  state->parent = parent;
  state->parameter_bytes = parameter_bytes;
  call.Insert(kind, wire, native);
  call.session.table(kind).SetExtra(SplitHandle(wire).index, state);
}

// The functions of a module that goes.
void KillFunctions(Session& session, HandleKind kind, uint64_t parent) {
  std::vector<uint64_t> gone;
  session.table(kind).ForEachLive([&](uint32_t index, uint16_t generation, void*, void* extra) {
    auto* state = static_cast<FunctionState*>(extra);
    if (state != nullptr && state->parent == parent)
      gone.push_back(MakeHandle(kind, index, generation));
  });
  for (uint64_t wire : gone) {
    HandleParts parts = SplitHandle(wire);
    auto* state =
        static_cast<FunctionState*>(session.table(kind).Find(parts.index, parts.generation).extra);
    session.table(kind).Kill(parts.index, parts.generation);
    delete state;
  }
}

Status GetGlobal(ServeCall& call, HandleKind kind) {
  auto wire_parent = call.in.Get<uint64_t>();
  std::string name(call.in.GetString());
  if (!call.in.Done()) return call.Malformed("body");
  void* parent = call.Resolve<void*>(kind, wire_parent);
  if (!call.ready()) return call.RejectStatus();
  CUdeviceptr address = 0;
  size_t bytes = 0;
  if (kind == HandleKind::kModule) {
    call.result = call.api.cuModuleGetGlobal_v2(&address, &bytes, static_cast<CUmodule>(parent),
                                                name.c_str());
  } else {
    call.result =
        call.api.cuLibraryGetGlobal(&address, &bytes, static_cast<CUlibrary>(parent), name.c_str());
  }
  if (call.result != CUDA_SUCCESS) return {};
  call.session.memory().AddForeign(address, bytes, wire_parent);
  call.out.Put<uint64_t>(address);
  call.out.Put<uint64_t>(bytes);
  return {};
}

}  // namespace

Status Serve_cuModuleLoadDataEx(ServeCall& call) {
  return LoadImage(
      call, HandleKind::kModule,
      [&](const void* image, LoadRequest& request, void** native) {
        CUmodule module = nullptr;
        CUresult result =
            call.api.cuModuleLoadDataEx(&module, image, request.jit.count(),
                                        request.jit.options.data(), request.jit.values.data());
        *native = module;
        return result;
      },
      [&](void* module) { PutFewFunctions(call.api, static_cast<CUmodule>(module), call.out); });
}

Status Serve_cuLibraryLoadData(ServeCall& call) {
  return LoadImage(
      call, HandleKind::kLibrary,
      [&](const void* image, LoadRequest& request, void** native) {
        if (call.api.cuLibraryLoadData == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
        CUlibrary library = nullptr;
        CUresult result = call.api.cuLibraryLoadData(&library, image, request.jit.options.data(),
                                                     request.jit.values.data(), request.jit.count(),
                                                     nullptr, nullptr, 0);
        *native = library;
        return result;
      },
      [&](void* library) {
        if (call.context != nullptr)  // else it tells no parameters
          PutFewFunctions(call.api, static_cast<CUlibrary>(library), DeviceOf(call), call.out);
        else
          call.out.Put<uint64_t>(0);  // functions: they are asked for by name
      });
}

Status Serve_cuModuleUnload(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto module = call.Resolve<CUmodule>(HandleKind::kModule, wire);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  session.memory().RemoveForeign(wire);
  session.memory().ObjectLeaves(wire);
  KillFunctions(session, HandleKind::kFunction, wire);
  call.Erase(HandleKind::kModule, wire);
  // Unloading waits for the context's work: the helper does the waiting.
  auto unload = [&session, &api = call.api, module, native = call.context->native, wire,
                 header = call.header](CUresult) {
    session.OnHelper([&session, &api, module, native, wire, header] {
      CurrentContext::Set(api, native);
      const CUresult result = api.cuModuleUnload(module);
      session.memory().RefundObject(wire);
      session.Answer(header, result, {});
    });
  };
  CUresult idle = CUDA_SUCCESS;
  call.parked = true;
  if (!session.streams().Fence(*call.context, unload, &idle)) unload(idle);
  return {};
}

Status Serve_cuLibraryUnload(ServeCall& call) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto library = call.Resolve<CUlibrary>(HandleKind::kLibrary, wire);
  if (!call.ready()) return call.RejectStatus();
  Session& session = call.session;
  session.memory().RemoveForeign(wire);
  session.memory().ObjectLeaves(wire);
  session.mirrors().Abandon(wire);
  KillFunctions(session, HandleKind::kKernel, wire);
  call.Erase(HandleKind::kLibrary, wire);
  call.parked = true;
  session.OnHelper([&session, &api = call.api, library, wire, header = call.header] {
    const CUresult result = api.cuLibraryUnload(library);
    session.memory().RefundObject(wire);
    session.Answer(header, result, {});
  });
  return {};
}

Status Serve_cuModuleGetFunction(ServeCall& call) {
  auto wire_module = call.in.Get<uint64_t>();
  auto wire = call.in.Get<uint64_t>();
  std::string name(call.in.GetString());
  if (!call.in.Done()) return call.Malformed("body");
  auto module = call.Resolve<CUmodule>(HandleKind::kModule, wire_module);
  if (!call.ready()) return call.RejectStatus();
  call.CheckNew(HandleKind::kFunction, wire);
  if (!call.ready()) return call.RejectStatus();
  const DriverApi& api = call.api;
  CUfunction function = nullptr;
  call.result = api.cuFuncGetParamInfo == nullptr
                    ? CUDA_ERROR_NOT_SUPPORTED
                    : api.cuModuleGetFunction(&function, module, name.c_str());
  if (call.result != CUDA_SUCCESS) return {};
  InsertFunction(call, HandleKind::kFunction, wire, function, wire_module,
                 PutFunctionInfo(api, function, call.out));
  return {};
}

Status Serve_cuLibraryGetKernel(ServeCall& call) {
  auto wire_library = call.in.Get<uint64_t>();
  auto wire = call.in.Get<uint64_t>();
  std::string name(call.in.GetString());
  if (!call.in.Done()) return call.Malformed("body");
  auto library = call.Resolve<CUlibrary>(HandleKind::kLibrary, wire_library);
  if (!call.ready()) return call.RejectStatus();
  call.CheckNew(HandleKind::kKernel, wire);
  if (!call.ready()) return call.RejectStatus();
  const DriverApi& api = call.api;
  CUkernel kernel = nullptr;
  call.result = api.cuKernelGetParamInfo == nullptr
                    ? CUDA_ERROR_NOT_SUPPORTED
                    : api.cuLibraryGetKernel(&kernel, library, name.c_str());
  if (call.result != CUDA_SUCCESS) return {};
  const ContextLoan loan(call);
  InsertFunction(call, HandleKind::kKernel, wire, kernel, wire_library,
                 PutFunctionInfo(api, kernel, DeviceOf(call), call.out));
  return {};
}

Status Serve_cuModuleGetGlobal_v2(ServeCall& call) {
  return GetGlobal(call, HandleKind::kModule);
}

Status Serve_cuLibraryGetGlobal(ServeCall& call) {
  return GetGlobal(call, HandleKind::kLibrary);
}

namespace {

// The names of a module's functions or a library's kernels, in the driver's order.
template <typename Owner, typename Item>
Status EnumerateNames(ServeCall& call, HandleKind kind, CUresult (*count_of)(unsigned*, Owner),
                      CUresult (*list)(Item*, unsigned, Owner),
                      CUresult (*name_of)(const char**, Item)) {
  auto wire = call.in.Get<uint64_t>();
  if (!call.in.Done()) return call.Malformed("body");
  auto owner = call.Resolve<Owner>(kind, wire);
  if (!call.ready()) return call.RejectStatus();
  if (count_of == nullptr || list == nullptr || name_of == nullptr) {
    call.result = CUDA_ERROR_NOT_SUPPORTED;
    return {};
  }
  unsigned count = 0;
  call.result = count_of(&count, owner);
  std::vector<Item> items(call.result == CUDA_SUCCESS ? count : 0);
  if (!items.empty()) call.result = list(items.data(), count, owner);
  if (call.result != CUDA_SUCCESS) return {};
  call.out.Put<uint64_t>(items.size());
  for (Item item : items) {
    const char* name = nullptr;
    bool named = name_of(&name, item) == CUDA_SUCCESS && name != nullptr;
    call.out.PutString(named ? name : "");
  }
  return {};
}

}  // namespace

Status Serve_cuModuleEnumerateFunctions(ServeCall& call) {
  const DriverApi& api = call.api;
  return EnumerateNames(call, HandleKind::kModule, api.cuModuleGetFunctionCount,
                        api.cuModuleEnumerateFunctions, api.cuFuncGetName);
}

Status Serve_cuLibraryEnumerateKernels(ServeCall& call) {
  const DriverApi& api = call.api;
  return EnumerateNames(call, HandleKind::kLibrary, api.cuLibraryGetKernelCount,
                        api.cuLibraryEnumerateKernels, api.cuKernelGetName);
}

}  // namespace farcall::server
