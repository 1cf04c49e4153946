// SPDX-License-Identifier: Apache-2.0
// GET /v1/audit: the store's rows as they are.
#include <charconv>

#include "pool/http/http_router.h"
#include "pool/rest/rest.h"

namespace farcall::pool {

void RestServer::AddAudit() {
  server_->Get("/v1/audit", [this](const httplib::Request& request, httplib::Response& response) {
    if (!MayEnter("GET /v1/audit", CallerOf(request), response)) return;
    auto number = [&](const char* name) {
      const std::string given = request.get_param_value(name);
      uint64_t value = 0;
      std::from_chars(given.data(), given.data() + given.size(), value);
      return value;
    };
    const uint64_t limit = std::min<uint64_t>(number("limit"), 1000);
    response.set_content(service_->ReadAudit(number("after"), static_cast<uint32_t>(limit)) + "\n",
                         "application/json");
  });
}

}  // namespace farcall::pool
