// SPDX-License-Identifier: Apache-2.0
// The certificate of what the API server calls, a webhook or an API of ours: made, told to the API
// server, and replaced in time.
#pragma once

#include <string>
#include <vector>

#include "pool/k8s/api/api_client.h"
#include "transport/tls/tls_session.h"

namespace farcall::k8s {

// A Secret holds what all replicas serve; the caBundle of a MutatingWebhookConfiguration, or of an
// APIService, says what the API server trusts. Both have to be there: so that we may change these
// two, and make none.
//   Thread  one at a time
class ServingCertificate final {
 public:
  struct Place {
    std::string space, secret;
    std::string trusted_by;  // path of the object with the caBundle
    std::vector<std::string> hosts;
    int days = 0;
    std::string folder;  // for the files; ours alone
  };
  ServingCertificate(ApiClient* api, Place place) : api_(api), place_(std::move(place)) {}

  // Takes the Secret's certificate, or makes a new one if a third of its life or less is left, or
  // if it is not good for the hosts. The new authority and the one before it are trusted before the
  // new certificate is served: an API server and a replica may each be late. The authority's key is
  // kept nowhere.
  //   Errors  kUnavailable, kRefused (the API server; also where another replica was first: again),
  //           kInvalid (a host that is no name)
  Status Refresh();
  // Once Refresh has succeeded.
  TlsFiles files() const {
    return {place_.folder + "/tls.crt", place_.folder + "/tls.key", "", ""};
  }

 private:
  Status ReadSecret(nlohmann::json* secret);
  Status Renew(nlohmann::json* secret);
  Status TellApiServer(const std::string& bundle);

  ApiClient* const api_;
  const Place place_;
  std::string served_;  // what the files hold
};

// Whether a certificate (PEM) is good for all the hosts and for more than a third of `days`.
bool IsGoodFor(const std::string& certificate, const std::vector<std::string>& hosts, int days);

// Writes a file that this user alone may read, whole or not at all.   Errors  kUnavailable
Status WriteOwnFile(const std::string& path, const std::string& text);

std::string Base64(const std::string& bytes);
// "": no base64, or nothing.
std::string FromBase64(const std::string& text);

}  // namespace farcall::k8s
