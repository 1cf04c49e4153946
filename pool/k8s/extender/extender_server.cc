// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/extender/extender_server.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "pool/http/http_front.h"
#include "pool/http/http_router.h"
#include "pool/k8s/extender/extender.h"
#include "pool/k8s/process/probes.h"
#include "pool/k8s/process/process.h"
#include "pool/process/stop_signals.h"
#include "proto/printable.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"extender"};
using Json = nlohmann::json;

constexpr size_t kMaxArgsBytes = 64 << 20;   // thousands of nodes, whole
constexpr size_t kMaxWaitingUnits = 65'536;  // 256 MiB

void AddVerb(pool::HttpRouter* router, const char* path, Extender* extender,
             Json (Extender::*verb)(const Json&)) {
  router->Post(path,
               [extender, verb](const httplib::Request& request, httplib::Response& response) {
                 const Json args = Json::parse(request.body, nullptr, false);
                 if (!args.is_object()) {
                   response.status = 400;
                   response.set_content(R"({"Error": "farcall: the arguments are no JSON object"})",
                                        "application/json");
                   return;
                 }
                 response.set_content(
                     (extender->*verb)(args).dump(-1, ' ', false, Json::error_handler_t::replace),
                     "application/json");
               });
}

Status CheckReach(const ExtenderOptions& options, const HostPort& where) {
  const bool is_local =
      where.host == "localhost" || where.host == "::1" || where.host.rfind("127.", 0) == 0;
  if (is_local || (options.tls.given() && !options.tls.authorities.empty())) return {};
  return {Code::kInvalid, "--listen " + Quoted(options.listen) +
                              ": whoever reaches it can have pods bound; name a certificate "
                              "(--tls-cert, --tls-key) and whose certificates are believed "
                              "(--client-ca), or an address of the loopback"};
}

}  // namespace

int RunExtender(const ExtenderOptions& options) {
  pool::BlockStopSignals();
  Result<HostPort> where = ListenAddress(options.listen);
  if (!where.ok()) return kProcess.Fail(kExitUsage, where.status().message());
  if (Status safe = CheckReach(options, *where); !safe.ok())
    return kProcess.Fail(kExitUsage, safe.message());
  if (Status usable = pool::CheckAddress(options.pool); !usable.ok())
    return kProcess.Fail(kExitUsage, usable.message());
  Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(options.api);
  if (!api.ok()) return kProcess.Fail(kExitUsage, api.status().message());
  Probes probes([] { return true; });
  if (Status opened = probes.Open(options.health_listen); !opened.ok())
    return kProcess.Fail(opened.code() == Code::kInvalid ? kExitUsage : kExitCannotListen,
                         opened.message());
  Extender extender(options.pool, options.project_root, api->get());
  pool::HttpRouter router;
  AddVerb(&router, "/filter", &extender, &Extender::Filter);
  AddVerb(&router, "/prioritize", &extender, &Extender::Prioritize);
  AddVerb(&router, "/bind", &extender, &Extender::Bind);
  pool::HttpFront::Bounds bounds;
  bounds.waiting = bounds.ready = kMaxWaitingUnits;
  bounds.workers = 16;
  bounds.request.body_bytes = kMaxArgsBytes;
  pool::HttpFront front(
      [&router](pool::HttpConnection& connection) { return router.Answer(connection); }, bounds);
  if (Status opened = front.Open(where->host, where->port, options.tls); !opened.ok())
    return kProcess.Fail(kExitCannotListen, opened.message());
  std::printf("farcall: scheduler extender on %s\n",
              FormatHostPort(where->host, static_cast<uint16_t>(front.port())).c_str());
  std::fflush(stdout);
  extender.Start();
  (void)WaitForStop(-1);
  extender.Stop();
  router.Shut();
  front.Close();
  return kExitOk;
}

}  // namespace farcall::k8s
