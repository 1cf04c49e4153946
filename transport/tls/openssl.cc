// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/openssl.h"

#include <arpa/inet.h>
#include <openssl/ssl.h>

namespace farcall {

void StartOpenSsl() {
  static const bool is_started =
      OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
  (void)is_started;
}

bool IsAddress(const std::string& host) {
  unsigned char bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, host.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

}  // namespace farcall
