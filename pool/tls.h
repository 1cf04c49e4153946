// SPDX-License-Identifier: Apache-2.0
// TLS of the pool's REST and gRPC: what a controller shows, and whom its clients believe.
#pragma once

#include <memory>
#include <string>

#include "proto/status.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace farcall::pool {

// PEM files; both empty: plain TCP.
struct TlsFiles {
  std::string certificate;  // with those between it and the one that clients know
  std::string key;
  bool given() const { return !certificate.empty() || !key.empty(); }
};

// Whether addresses can be opened with them.   Errors  kInvalid (one line: which file, what with
// it)
Status CheckTls(const TlsFiles& files);

//   Errors  kInvalid
Result<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files);
// `ca_file`: whose certificates are believed; empty: those that the machine believes.
//   Errors  kInvalid
Result<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(bool is_tls,
                                                                    const std::string& ca_file);

}  // namespace farcall::pool
