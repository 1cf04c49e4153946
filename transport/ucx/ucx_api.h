// SPDX-License-Identifier: Apache-2.0
// UCX, loaded when it is first asked for. Everything of it goes through one table of functions, so
// that no library of ours is linked with it and tests can put their own functions in.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "proto/status.h"
#include "transport/ucx/ucx_abi.h"

namespace farcall {

struct UcxApi {
  ucx::StatusCode (*config_read)(const char* prefix, const char* file, void** config) = nullptr;
  ucx::StatusCode (*config_modify)(void* config, const char* name, const char* value) = nullptr;
  void (*config_release)(void* config) = nullptr;
  const char* (*version)() = nullptr;
  void (*release)(unsigned* major, unsigned* minor, unsigned* patch) = nullptr;
  ucx::StatusCode (*init)(unsigned major, unsigned minor, const ucx::ContextParams* params,
                          const void* config, ucx::Context* context) = nullptr;
  void (*cleanup)(ucx::Context context) = nullptr;
  ucx::StatusCode (*worker_create)(ucx::Context context, const ucx::WorkerParams* params,
                                   ucx::Worker* worker) = nullptr;
  void (*worker_destroy)(ucx::Worker worker) = nullptr;
  ucx::StatusCode (*worker_address)(ucx::Worker worker, ucx::Address** address,
                                    size_t* bytes) = nullptr;
  void (*release_address)(ucx::Worker worker, ucx::Address* address) = nullptr;
  unsigned (*progress)(ucx::Worker worker) = nullptr;
  ucx::StatusCode (*event_descriptor)(ucx::Worker worker, int* descriptor) = nullptr;
  ucx::StatusCode (*arm)(ucx::Worker worker) = nullptr;
  ucx::StatusCode (*set_handler)(ucx::Worker worker, const ucx::HandlerParams* params) = nullptr;
  ucx::StatusCode (*endpoint_create)(ucx::Worker worker, const ucx::EndpointParams* params,
                                     ucx::Endpoint* endpoint) = nullptr;
  ucx::Request (*endpoint_close)(ucx::Endpoint endpoint,
                                 const ucx::RequestParams* params) = nullptr;
  ucx::Request (*endpoint_flush)(ucx::Endpoint endpoint,
                                 const ucx::RequestParams* params) = nullptr;
  ucx::Request (*send)(ucx::Endpoint endpoint, unsigned id, const void* header, size_t header_bytes,
                       const void* data, size_t bytes, const ucx::RequestParams* params) = nullptr;
  ucx::Request (*land)(ucx::Worker worker, void* data, void* into, size_t bytes,
                       const ucx::RequestParams* params) = nullptr;
  ucx::StatusCode (*request_status)(ucx::Request request) = nullptr;
  void (*request_free)(ucx::Request request) = nullptr;
  const char* (*status_text)(ucx::StatusCode status) = nullptr;
};

// Loads libucp.so.0: FARCALL_UCX_PATH, a file or its folder, or where the loader finds it. Before
// that it turns off what UCX would do to the process: signal handlers, patched functions of libc
// and of the CUDA driver, text on stdout. A variable of UCX that is set already stays as it is.
//   Errors  kUnavailable, one line; the same one at every later call
//   Thread  any. It writes the environment once: a getenv at that moment in another thread is the
//           program's own risk, as with every setenv
Result<const UcxApi*> LoadUcx();

// The release of UCX, "1.13.1".
std::string UcxVersion(const UcxApi& api);
// 256 * major + minor: UCX speaks to no other release than its own.
uint16_t UcxRelease(const UcxApi& api);
// "Connection reset by remote peer", of a code.
std::string UcxError(const UcxApi& api, ucx::StatusCode status);

// While one is there its holder may call UCX: the end of the process, at which UCX's own
// destructors run, waits for it. False: that has begun, and UCX is to be left alone.
class UcxUse {
 public:
  UcxUse();
  ~UcxUse();
  UcxUse(const UcxUse&) = delete;
  UcxUse& operator=(const UcxUse&) = delete;
  explicit operator bool() const { return may_; }

 private:
  bool may_ = false;
};

// UCX's view of the machine: its devices, its memory. Channels are made of it.
class UcxContext {
 public:
  // `settings`: of UCX, without the prefix UCX_: {"TLS", "tcp"}. They outweigh the environment.
  //   Errors  kUnavailable
  static Result<std::unique_ptr<UcxContext>> Make(
      const UcxApi& api, const std::vector<std::pair<std::string, std::string>>& settings = {});
  ~UcxContext();
  UcxContext(const UcxContext&) = delete;
  UcxContext& operator=(const UcxContext&) = delete;

  // The one of this process; made when it is first asked for, never destroyed.
  //   Errors  kUnavailable: no UCX here, or a process that was forked after it was made
  //   Thread  any
  static Result<UcxContext*> OfProcess();

  const UcxApi& api() const { return api_; }
  ucx::Context handle() const { return handle_; }
  // Held while a worker is made or destroyed.
  std::mutex& workers() { return workers_; }

 private:
  UcxContext(const UcxApi& api, ucx::Context handle) : api_(api), handle_(handle) {}
  const UcxApi& api_;
  const ucx::Context handle_;
  std::mutex workers_;
};

}  // namespace farcall
