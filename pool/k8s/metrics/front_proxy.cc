// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/metrics/front_proxy.h"

#include <openssl/x509.h>

#include <nlohmann/json.hpp>

#include "pool/k8s/process/serving_certificate.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr char kPath[] =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
constexpr size_t kMaxNames = 64, kMaxName = 256;

std::string CommonName(const SSL* connection) {
  X509* shown = connection == nullptr ? nullptr : SSL_get_peer_certificate(connection);
  if (shown == nullptr) return "";
  char name[kMaxName] = {};
  const int size =
      X509_NAME_get_text_by_NID(X509_get_subject_name(shown), NID_commonName, name, sizeof(name));
  X509_free(shown);
  return size <= 0 ? "" : std::string(name, static_cast<size_t>(size));
}

}  // namespace

Status FrontProxy::Refresh() {
  ApiAnswer answer;
  FARCALL_TRY(api_->Get(kPath, &answer));
  const std::string ca = TextAt(answer.body, "data", "requestheader-client-ca-file");
  if (ca.empty())
    return {Code::kRefused,
            "the API server has no front proxy: it needs --requestheader-client-ca-file and "
            "--proxy-client-cert-file"};
  std::set<std::string> names;
  const Json told =
      Json::parse(TextAt(answer.body, "data", "requestheader-allowed-names"), nullptr, false);
  if (told.is_array())
    for (const Json& name : told)
      if (name.is_string() && names.size() < kMaxNames) names.insert(name.get<std::string>());
  {
    std::lock_guard lock(mutex_);
    names_ = std::move(names);
  }
  if (ca == written_) return {};
  FARCALL_TRY(WriteOwnFile(ca_file_, ca));
  written_ = ca;
  return {};
}

bool FrontProxy::Allows(const SSL* connection) {
  const std::string name = CommonName(connection);
  std::lock_guard lock(mutex_);
  return !name.empty() && !written_.empty() && (names_.empty() || names_.count(name) != 0);
}

}  // namespace farcall::k8s
