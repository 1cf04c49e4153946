// SPDX-License-Identifier: Apache-2.0
// The HTTP library as what it is good at: it parses whole requests, finds their handlers and writes
// their answers. Its own sockets and threads are not used (http_front.h says why).
#pragma once

#include <httplib.h>

#include "pool/http/http_connection.h"

namespace farcall::pool {

class HttpRouter final : public httplib::Server {
 public:
  HttpRouter();
  // Answers the connection's request; false: it is to be closed.   Thread  any
  bool Answer(HttpConnection& connection);
  // Answers that never end do so now.
  void Shut() { svr_sock_ = INVALID_SOCKET; }
};

}  // namespace farcall::pool
