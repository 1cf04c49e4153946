// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucx_api.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "proto/printable.h"

namespace farcall {
namespace {

constexpr char kLibrary[] = "libucp.so.0";
constexpr char kPathVariable[] = "FARCALL_UCX_PATH";

// What the library does at its loading and at its start follows these. It runs in other people's
// programs, beside a driver whose functions it would patch.
constexpr std::pair<const char*, const char*> kManners[] = {
    {"UCX_HANDLE_ERRORS", "none"},      {"UCX_MEM_MMAP_HOOK_MODE", "none"},
    {"UCX_MEM_CUDA_HOOK_MODE", "none"}, {"UCX_WARN_UNUSED_ENV_VARS", "n"},
    {"UCX_LOG_LEVEL", "fatal"},         {"UCX_LOG_FILE", "stderr"},
    {"UCX_MODULES", "^cuda"},
};

// Of this process's context, unless UCX_TLS says otherwise. Shared memory cannot tell of a peer's
// death, and a worker may not make any; a CUDA transport would call the very library that waits for
// the connection.
constexpr char kTransports[] = "^sm,cuda";

// Until the library has read them. Programs that this one starts see none of them.
class Manners {
 public:
  Manners() {
    for (const auto& [name, value] : kManners)
      if (getenv(name) == nullptr && setenv(name, value, 0) == 0) set_.push_back(name);
  }
  ~Manners() {
    for (const char* name : set_) unsetenv(name);
  }

 private:
  std::vector<const char*> set_;
};

std::string LibraryPath() {
  const char* given = getenv(kPathVariable);
  if (given == nullptr || *given == '\0') return kLibrary;
  struct stat status {};
  const bool is_folder = stat(given, &status) == 0 && S_ISDIR(status.st_mode);
  return is_folder ? std::string(given) + "/" + kLibrary : given;
}

template <typename F>
bool Find(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  return *function != nullptr;
}

// The first name that is missing; null: none is.
const char* FindAll(void* library, UcxApi* api) {
  const auto find = [library](const char* name, auto* function) {
    return Find(library, name, function) ? nullptr : name;
  };
  const char* missing[] = {
      find("ucp_config_read", &api->config_read),
      find("ucp_config_modify", &api->config_modify),
      find("ucp_config_release", &api->config_release),
      find("ucp_get_version_string", &api->version),
      find("ucp_get_version", &api->release),
      find("ucp_init_version", &api->init),
      find("ucp_cleanup", &api->cleanup),
      find("ucp_worker_create", &api->worker_create),
      find("ucp_worker_destroy", &api->worker_destroy),
      find("ucp_worker_get_address", &api->worker_address),
      find("ucp_worker_release_address", &api->release_address),
      find("ucp_worker_progress", &api->progress),
      find("ucp_worker_get_efd", &api->event_descriptor),
      find("ucp_worker_arm", &api->arm),
      find("ucp_worker_set_am_recv_handler", &api->set_handler),
      find("ucp_ep_create", &api->endpoint_create),
      find("ucp_ep_close_nbx", &api->endpoint_close),
      find("ucp_ep_flush_nbx", &api->endpoint_flush),
      find("ucp_am_send_nbx", &api->send),
      find("ucp_am_recv_data_nbx", &api->land),
      find("ucp_request_check_status", &api->request_status),
      find("ucp_request_free", &api->request_free),
      find("ucs_status_string", &api->status_text),
  };
  for (const char* name : missing)
    if (name != nullptr) return name;
  return nullptr;
}

Status LoadInto(UcxApi* api) {
  const std::string path = LibraryPath();
  const Manners manners;
  // For good: it has threads, and functions that run at the process's end.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    const char* why = dlerror();
    return {Code::kUnavailable, "UCX cannot be loaded: " + Printable(why == nullptr ? path : why) +
                                    "; install libucx0, or set " + kPathVariable};
  }
  if (const char* name = FindAll(library, api)) {
    return {Code::kUnavailable,
            "UCX: " + Quoted(path) + " lacks " + name + "; UCX 1.13 or newer is needed"};
  }
  return {};
}

// The loading and the first context's making, under the same manners. A process has one of each.
struct OfThisProcess {
  std::mutex mutex;
  bool is_loaded = false;
  UcxApi api;
  Status loading;
  std::unique_ptr<UcxContext> context;
  Status making;
  pid_t owner = 0;  // who made the context; 0: nobody has
};
OfThisProcess& Own() {
  static auto* own = new OfThisProcess;
  return *own;
}

struct Gate {
  std::shared_mutex mutex;
  bool is_shut = false;
};
Gate& TheGate() {
  static auto* gate = new Gate;
  return *gate;
}
void ShutGate() {
  std::lock_guard lock(TheGate().mutex);
  TheGate().is_shut = true;
}

Status LoadOnce(OfThisProcess& own) {
  if (!own.is_loaded) {
    own.is_loaded = true;
    own.loading = LoadInto(&own.api);
    std::atexit(&ShutGate);  // before the library's destructors, which come last
  }
  return own.loading;
}

}  // namespace

Result<const UcxApi*> LoadUcx() {
  OfThisProcess& own = Own();
  std::lock_guard lock(own.mutex);
  FARCALL_TRY(LoadOnce(own));
  return &std::as_const(own.api);
}

UcxUse::UcxUse() {
  TheGate().mutex.lock_shared();
  may_ = !TheGate().is_shut;
}
UcxUse::~UcxUse() {
  TheGate().mutex.unlock_shared();
}

std::string UcxVersion(const UcxApi& api) {
  const char* text = api.version();
  return text == nullptr ? "?" : Printable(text);
}

uint16_t UcxRelease(const UcxApi& api) {
  unsigned major = 0, minor = 0, patch = 0;
  api.release(&major, &minor, &patch);
  return static_cast<uint16_t>(256 * major + minor);
}

std::string UcxError(const UcxApi& api, ucx::StatusCode status) {
  const char* text = api.status_text(status);
  return text == nullptr ? "error " + std::to_string(status) : Printable(text);
}

Result<std::unique_ptr<UcxContext>> UcxContext::Make(
    const UcxApi& api, const std::vector<std::pair<std::string, std::string>>& settings) {
  const Manners manners;
  void* config = nullptr;
  ucx::StatusCode status = api.config_read(nullptr, nullptr, &config);
  if (status != ucx::kOk)
    return Status(Code::kUnavailable, "UCX: its settings: " + UcxError(api, status));
  for (const auto& [name, value] : settings) {
    if (status = api.config_modify(config, name.c_str(), value.c_str()); status != ucx::kOk) {
      api.config_release(config);
      std::string said = "UCX: UCX_";
      said.append(name).append("=").append(value).append(": ").append(UcxError(api, status));
      return Status(Code::kUnavailable, std::move(said));
    }
  }
  ucx::ContextParams params;
  params.mask =
      ucx::ContextParams::kFeatures | ucx::ContextParams::kShared | ucx::ContextParams::kName;
  params.features = ucx::kFeatureActiveMessages | ucx::kFeatureWakeup;
  params.is_shared = 1;
  params.name = "farcall";
  ucx::Context handle = nullptr;
  status = api.init(ucx::kApiMajor, ucx::kApiMinor, &params, config, &handle);
  api.config_release(config);
  if (status != ucx::kOk) {
    return Status(Code::kUnavailable,
                  "UCX " + UcxVersion(api) + " does not start: " + UcxError(api, status));
  }
  return std::unique_ptr<UcxContext>(new UcxContext(api, handle));
}

UcxContext::~UcxContext() {
  api_.cleanup(handle_);
}

Result<UcxContext*> UcxContext::OfProcess() {
  OfThisProcess& own = Own();
  std::lock_guard lock(own.mutex);
  FARCALL_TRY(LoadOnce(own));
  if (own.owner == 0) {
    own.owner = getpid();
    Result<std::unique_ptr<UcxContext>> made =
        getenv("UCX_TLS") != nullptr ? Make(own.api) : Make(own.api, {{"TLS", kTransports}});
    own.making = made.status();
    if (made.ok()) own.context = std::move(*made);
  }
  FARCALL_TRY(own.making);
  if (own.owner != getpid())
    return Status(Code::kUnavailable, "UCX works in no child of the process that has started it");
  return own.context.get();
}

}  // namespace farcall
