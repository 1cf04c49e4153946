// SPDX-License-Identifier: Apache-2.0
// What a kubelet asks of a container of ours: /healthz and /readyz, without TLS.
#pragma once

#include <functional>
#include <string>

#include "pool/http/http_front.h"
#include "pool/http/http_router.h"

namespace farcall::k8s {

// /healthz while the process answers, /readyz once `is_ready` says so.
class Probes final {
 public:
  explicit Probes(std::function<bool()> is_ready);
  ~Probes();

  // `listen`: host:port; "": nowhere.   Errors  kInvalid (the address), kUnavailable
  Status Open(const std::string& listen);

 private:
  pool::HttpRouter router_;
  pool::HttpFront front_;
};

}  // namespace farcall::k8s
