// SPDX-License-Identifier: Apache-2.0
// The process behind a tls:// port: it accepts connections, shakes hands as the server whose key it
// alone holds, and passes each on with the keys of that connection. It sees no byte of a session.
#pragma once

#include <string>
#include <vector>

namespace farcall::server {

// `arguments`: files of the certificate, its key, the clients' authorities, and revoked ones;
// empty: none. The listening socket comes after the control socket.
//   Returns  the exit code
int TlsGatewayMain(const std::vector<std::string>& arguments);

}  // namespace farcall::server
