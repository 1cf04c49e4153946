// SPDX-License-Identifier: Apache-2.0
// tls:// in this process, for the suite over every transport: an authority of its own, and a
// listener whose handshakes are made by a thread.
#pragma once

#include <memory>

#include "transport/tls/tls_session.h"

namespace farcall::test {

// Once; after it Dial and Listen know tls://.
void AddTlsForTests();

// Files of an authority, and of certificates that it issued, in a folder of this process.
struct TestAuthority {
  explicit TestAuthority(const std::string& name = "a test's authority");
  ~TestAuthority();
  // Writes NAME.pem and NAME.key; the host that it names.
  TlsFiles Issue(const std::string& name, const std::string& host, const std::string& uri = "",
                 int days = 1);
  std::string folder, certificate_pem, key_pem;
};

// Two ends of a connection that have shaken hands: client and server.
struct TlsEnds {
  std::unique_ptr<Channel> client, server;
  TlsKeys client_keys;
  std::string client_identity;
  Status client_status, server_status;  // of the handshake
};
TlsEnds ShakeHands(const TlsFiles& client, const TlsFiles& server,
                   const std::string& host = "127.0.0.1");

}  // namespace farcall::test
