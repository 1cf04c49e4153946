// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/metrics/metrics_server.h"

#include <atomic>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "pool/http/http_front.h"
#include "pool/http/http_router.h"
#include "pool/k8s/metrics/external_metrics.h"
#include "pool/k8s/metrics/front_proxy.h"
#include "pool/k8s/process/probes.h"
#include "pool/k8s/process/process.h"
#include "pool/k8s/process/serving_certificate.h"
#include "pool/process/stop_signals.h"
#include "proto/printable.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"metrics"};
using Json = nlohmann::json;

void Answer(int status, const Json& body, httplib::Response* response) {
  response->status = status;
  response->set_content(body.dump(-1, ' ', false, Json::error_handler_t::replace),
                        "application/json");
}

void Refuse(int status, const std::string& message, httplib::Response* response) {
  Answer(status,
         {{"kind", "Status"},
          {"apiVersion", "v1"},
          {"metadata", Json::object()},
          {"status", "Failure"},
          {"message", "farcall: " + Printable(message, kMaxMessageBytes)},
          {"reason", status == 404   ? "NotFound"
                     : status == 403 ? "Forbidden"
                                     : "BadRequest"},
          {"code", status}},
         response);
}

void AnswerMetric(UsageView* view, const httplib::Request& request, httplib::Response* response) {
  const std::string space = request.matches[1], metric = request.matches[2];
  if (!IsMetric(metric)) return Refuse(404, "there is no metric " + Quoted(metric), response);
  Result<std::vector<ClaimUse>> uses = view->Read();
  if (!uses.ok()) return Refuse(503, uses.status().message(), response);
  Result<Json> values =
      MetricValues(metric, space, request.get_param_value("labelSelector"), *uses, time(nullptr));
  if (!values.ok()) return Refuse(400, values.status().message(), response);
  Answer(200, *values, response);
}

// The API server has asked who the user is and what they may; nobody else is answered.
void AddHandlers(FrontProxy* proxy, UsageView* view, pool::HttpRouter* router) {
  router->set_pre_routing_handler([proxy](const httplib::Request& request,
                                          httplib::Response& response) {
    if (proxy->Allows(request.ssl)) return httplib::Server::HandlerResponse::Unhandled;
    Refuse(403, "the API server alone is answered, by its front proxy's certificate", &response);
    return httplib::Server::HandlerResponse::Handled;
  });
  const std::string group = std::string("/apis/") + kMetricsGroup;
  const std::string version = std::string("/apis/") + kMetricsGroupVersion;
  const Json preferred = {{"groupVersion", kMetricsGroupVersion}, {"version", "v1beta1"}};
  router->Get(group, [preferred](const httplib::Request&, httplib::Response& response) {
    Answer(200,
           {{"kind", "APIGroup"},
            {"apiVersion", "v1"},
            {"name", kMetricsGroup},
            {"versions", {preferred}},
            {"preferredVersion", preferred}},
           &response);
  });
  router->Get(version, [](const httplib::Request&, httplib::Response& response) {
    Answer(200, MetricList(), &response);
  });
  router->Get(version + R"(/namespaces/([a-z0-9.-]{1,253})/([a-z0-9_]{1,128}))",
              [view](const httplib::Request& request, httplib::Response& response) {
                AnswerMetric(view, request, &response);
              });
}

Status CheckNames(const MetricsOptions& options) {
  for (const auto& [flag, name] : {std::pair("--namespace ", &options.space),
                                   {"--secret ", &options.secret},
                                   {"--api-service ", &options.service}})
    if (!IsName(*name)) return {Code::kInvalid, flag + Quoted(*name) + ": write an object's name"};
  return pool::CheckAddress(options.pool);
}

}  // namespace

int RunMetrics(const MetricsOptions& options, const std::string& folder) {
  pool::BlockStopSignals();
  Result<HostPort> where = ListenAddress(options.listen);
  if (!where.ok()) return kProcess.Fail(kExitUsage, where.status().message());
  if (Status right = CheckNames(options); !right.ok())
    return kProcess.Fail(kExitUsage, right.message());
  Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(options.api);
  if (!api.ok()) return kProcess.Fail(kExitUsage, api.status().message());
  Result<std::unique_ptr<UsageView>> view = UsageView::Make(options.api, options.pool);
  if (!view.ok()) return kProcess.Fail(kExitUsage, view.status().message());

  std::atomic<bool> is_open{false};
  Probes probes([&] { return is_open && (*view)->is_synced(); });
  if (Status opened = probes.Open(options.health_listen); !opened.ok())
    return kProcess.Fail(opened.code() == Code::kInvalid ? kExitUsage : kExitCannotListen,
                         opened.message());
  ServingCertificate certificate(
      api->get(), {options.space, options.secret,
                   "/apis/apiregistration.k8s.io/v1/apiservices/" + options.service, options.hosts,
                   options.certificate_days, folder});
  const std::string proxy_ca = folder + "/front-proxy.crt";
  FrontProxy proxy(api->get(), proxy_ca);
  Upkeep upkeep(kProcess, [&] {
    const Status done = proxy.Refresh();
    return done.ok() ? certificate.Refresh() : done;
  });
  if (std::optional<int> ended = upkeep.Begin()) return *ended;
  (*view)->Start();
  pool::HttpRouter router;
  AddHandlers(&proxy, view->get(), &router);
  pool::HttpFront::Bounds bounds;
  bounds.waiting = bounds.ready = 1024;
  bounds.workers = 4;
  pool::HttpFront front(
      [&router](pool::HttpConnection& connection) { return router.Answer(connection); }, bounds);
  TlsFiles files = certificate.files();
  files.authorities = proxy_ca;
  if (Status opened = front.Open(where->host, where->port, files); !opened.ok())
    return kProcess.Fail(kExitCannotListen, opened.message());
  is_open = true;
  std::printf("farcall: metrics for %s on %s\n", options.service.c_str(),
              FormatHostPort(where->host, static_cast<uint16_t>(front.port())).c_str());
  std::fflush(stdout);
  upkeep.Run();
  router.Shut();
  front.Close();
  (*view)->Stop();
  return kExitOk;
}

}  // namespace farcall::k8s
