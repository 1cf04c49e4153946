// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/process/probes.h"

#include "proto/printable.h"
#include "transport/url.h"

namespace farcall::k8s {

namespace {

pool::HttpFront::Bounds Few() {
  pool::HttpFront::Bounds bounds;
  bounds.waiting = bounds.ready = 64;
  bounds.workers = 1;
  return bounds;
}

}  // namespace

Probes::Probes(std::function<bool()> is_ready)
    : front_([this](pool::HttpConnection& connection) { return router_.Answer(connection); },
             Few()) {
  router_.Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", "text/plain");
  });
  router_.Get("/readyz",
              [ready = std::move(is_ready)](const httplib::Request&, httplib::Response& response) {
                response.status = ready() ? 200 : 503;
                response.set_content(response.status == 200 ? "ok\n" : "not yet\n", "text/plain");
              });
}

Probes::~Probes() {
  router_.Shut();
  front_.Close();
}

Status Probes::Open(const std::string& listen) {
  if (listen.empty()) return {};
  Result<Url> url = ParseUrl("tcp://" + listen);
  Result<HostPort> where = url.ok() ? ParseHostPort(*url) : Result<HostPort>(url.status());
  if (!where.ok())
    return {Code::kInvalid, "--health-listen " + Quoted(listen) + ": write host:port"};
  return front_.Open(where->host, where->port, {});
}

}  // namespace farcall::k8s
