// SPDX-License-Identifier: Apache-2.0
// TLS of the pool's REST and gRPC: what a controller shows, and whom both sides believe.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "listener/tls/tls_files_watch.h"
#include "proto/status.h"
#include "transport/tls/tls_session.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace farcall::pool {

// Whether addresses can be opened with them.   Errors  kInvalid (one line: which file, what with
// it)
Status CheckTls(const TlsFiles& files);

//   Errors  kInvalid
Result<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files);
// `files`: of a client. Without authorities those that the machine believes.
//   Errors  kInvalid
Result<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(bool is_tls,
                                                                    const TlsFiles& files);

// Who a client of gRPC is by its certificate, which is judged by the files as they are now: gRPC
// itself knows no list of revoked ones.
//   Thread  any
class ClientCertificates {
 public:
  // Without authorities nobody is known by a certificate.
  explicit ClientCertificates(const TlsFiles& files);
  bool are_wanted() const { return !watch_.files().authorities.empty(); }
  // `chain`: PEM, the client's own first.   Errors  kRefused (it is not believed, or names nobody)
  Result<std::string> IdentityOf(const std::string& chain);

 private:
  std::mutex mutex_;
  TlsFilesWatch watch_;
  std::shared_ptr<TlsContext> context_;
};

}  // namespace farcall::pool
