// SPDX-License-Identifier: Apache-2.0
// Whom an API of ours answers: the API server, which has checked the user and may prove itself by
// the certificate of its front proxy.
#pragma once

#include <openssl/ssl.h>

#include <mutex>
#include <set>
#include <string>

#include "pool/k8s/api/api_client.h"

namespace farcall::k8s {

//   Thread  Refresh: one at a time; Allows: any
class FrontProxy final {
 public:
  // `ca_file`: where the authority is written, for the TLS port.
  FrontProxy(ApiClient* api, std::string ca_file) : api_(api), ca_file_(std::move(ca_file)) {}

  // What ConfigMap kube-system/extension-apiserver-authentication says now.
  //   Errors  of ApiClient::Get; kRefused (the API server has no front proxy)
  Status Refresh();
  // Whether a connection whose certificate the port believes is the API server's.
  bool Allows(const SSL* connection);

 private:
  ApiClient* const api_;
  const std::string ca_file_;
  std::string written_;
  std::mutex mutex_;
  std::set<std::string> names_;  // none: any that the authority signed
};

}  // namespace farcall::k8s
