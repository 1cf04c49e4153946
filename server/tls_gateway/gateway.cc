// SPDX-License-Identifier: Apache-2.0
#include "server/tls_gateway/gateway.h"

#include <fcntl.h>

#include <filesystem>

#include "listener/tls/tls_acceptor.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/worker/sandbox/helper_sandbox.h"
#include "server/worker/worker.h"
#include "transport/tls/identity.h"

namespace farcall::server {

namespace {

constexpr int kListener = kControlDescriptor + 1;

void Pass(std::unique_ptr<Channel> channel, const TlsKeys& keys, const std::string& identity) {
  const std::vector<std::byte> encoded = EncodeTlsKeys(keys);
  control::TlsConnected message;
  message.keys = std::string_view(reinterpret_cast<const char*>(encoded.data()), encoded.size());
  static_assert(kMaxIdentityBytes <= 240, "an identity would be cut");
  message.identity = identity;
  (void)control::SendToSupervisor(kControlDescriptor, message, {channel->Descriptor()});
  channel->Abandon();  // without a word: the supervisor may have it now
}

void Warn(const std::string& why) {
  (void)control::SendToSupervisor(kControlDescriptor, control::TlsWarning{.why = why});
}

// The folders that hold the files: a file that is renamed into the place of another is seen.
std::vector<std::string> FoldersOf(const TlsFiles& files) {
  std::vector<std::string> folders;
  for (const std::string* file :
       {&files.certificate, &files.key, &files.authorities, &files.revoked}) {
    if (file->empty()) continue;
    std::error_code error;
    // What a link points at, as secrets are mounted in containers, and where the link is.
    const std::filesystem::path target = std::filesystem::canonical(*file, error);
    folders.push_back(std::filesystem::absolute(*file).parent_path());
    if (!error) folders.push_back(target.parent_path());
  }
  return folders;
}

}  // namespace

int TlsGatewayMain(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4 || fcntl(kControlDescriptor, F_GETFD) < 0 ||
      fcntl(kListener, F_GETFD) < 0)
    return 2;  // not started by a supervisor
  TlsFiles files{arguments[0], arguments[1], arguments[2], arguments[3]};
  fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC);
  fcntl(kListener, F_SETFD, FD_CLOEXEC);
  Status ready =
      ConfineHelper({.readable = FoldersOf(files), .writable = "", .uses_network = false});
  TlsAcceptor acceptor(files, &Pass, &Warn);
  if (ready.ok()) {
    // The supervisor says nothing there: what can be read is its end.
    ready = acceptor.Open(kListener, kControlDescriptor);
  }
  if (!ready.ok()) {
    Warn(ready.message());
    return 1;
  }
  (void)control::SendToSupervisor(kControlDescriptor, control::TlsReady());
  acceptor.Run();
  return 0;
}

}  // namespace farcall::server
