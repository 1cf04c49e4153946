// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/webhook/webhook.h"

#include <atomic>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "pool/http/http_front.h"
#include "pool/http/http_router.h"
#include "pool/k8s/pods/pod.h"
#include "pool/k8s/process/process.h"
#include "pool/k8s/process/serving_certificate.h"
#include "pool/process/stop_signals.h"
#include "proto/printable.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::k8s {

namespace {

constexpr Process kProcess{"webhook"};
using Json = nlohmann::json;

constexpr size_t kMaxReviewBytes = 8 << 20;  // a request to the API server has 3 MiB at most
constexpr size_t kMaxWaitingUnits = 16'384;  // 64 MiB
constexpr size_t kMaxUid = 128;
void Serve(const AliasOptions& options, const httplib::Request& request,
           httplib::Response& response) {
  Result<Json> answer = Review(Json::parse(request.body, nullptr, false), options);
  response.status = answer.ok() ? 200 : 400;
  const Json body = answer.ok() ? *answer : Json{{"message", answer.status().message()}};
  response.set_content(body.dump(-1, ' ', false, Json::error_handler_t::replace),
                       "application/json");
}

// `gates`: as AliasOptions have it, now.
void AddHandlers(uint64_t gpushare_unit, const std::atomic<bool>* gates, pool::HttpRouter* router) {
  for (const auto& [path, takes_native] : {std::pair("/pods", false), {"/pods/remote", true}})
    router->Post(path, [=, takes_native = takes_native](const httplib::Request& request,
                                                        httplib::Response& response) {
      Serve({takes_native, gpushare_unit, *gates}, request, response);
    });
  router->Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", "text/plain");
  });
}

// Asks for the version until it is known; an upgrade to one that knows gates is seen then.
class GateWatch final {
 public:
  GateWatch(bool is_wanted, ApiClient* api) : is_wanted_(is_wanted), api_(api) {}
  const std::atomic<bool>* gates() const { return &gates_; }
  Status Refresh() {
    if (!is_wanted_ || gates_) return {};
    ApiAnswer answer;
    FARCALL_TRY(api_->Get("/version", &answer));
    Result<bool> knows = KnowsGates(answer.body);
    if (!knows.ok()) return knows.status();
    if (!*knows && !std::exchange(is_told_, true))
      kProcess.Warn("--gates: the API server is of version " + Text(answer.body, "major") + "." +
                    Text(answer.body, "minor") +
                    ", and scheduling gates need 1.27: pods are not gated");
    gates_ = *knows;
    return {};
  }

 private:
  const bool is_wanted_;
  ApiClient* const api_;
  std::atomic<bool> gates_{false};
  bool is_told_ = false;
};

}  // namespace

Result<bool> KnowsGates(const Json& version) {
  constexpr int kMajor = 1, kMinor = 27;
  int told[2] = {-1, -1};
  for (int part = 0; part < 2; ++part) {
    const std::string text = Text(version, part == 0 ? "major" : "minor");  // "27", "27+"
    if (std::from_chars(text.data(), text.data() + text.size(), told[part]).ec != std::errc())
      return Status(Code::kMalformed, "API server: /version tells no major and minor version");
  }
  return told[0] > kMajor || (told[0] == kMajor && told[1] >= kMinor);
}

Result<Json> Review(const Json& review, const AliasOptions& options) {
  const std::string uid = TextAt(review, "request", "uid");
  if (uid.empty() || uid.size() > kMaxUid || review.value("kind", Json()) != "AdmissionReview")
    return Status(Code::kMalformed, "want an AdmissionReview with request.uid");
  const Json& request = review.at("request");
  Json response = {{"uid", uid}, {"allowed", true}};
  const Json kind = request.value("kind", Json::object());
  auto pod = request.find("object");
  if (kind.is_object() && kind.value("kind", Json()) == "Pod" &&
      request.value("operation", Json()) == "CREATE" && pod != request.end()) {
    Result<Translation> translated = TranslatePod(*pod, options);
    if (!translated.ok()) {
      response["allowed"] = false;
      response["status"] = {
          {"code", 403},  // kubectl shows no message of what is called invalid
          {"reason", "Forbidden"},
          {"message", "farcall: " + Printable(translated.status().message(), kMaxMessageBytes)}};
    } else {
      for (const std::string& warning : translated->warnings)
        response["warnings"].push_back(Printable(warning, kMaxMessageBytes));
      if (!translated->patch.empty()) {
        response["patchType"] = "JSONPatch";
        response["patch"] =
            Base64(translated->patch.dump(-1, ' ', false, Json::error_handler_t::replace));
      }
    }
  }
  return Json{{"apiVersion", "admission.k8s.io/v1"},
              {"kind", "AdmissionReview"},
              {"response", std::move(response)}};
}

int RunWebhook(const WebhookOptions& options, const std::string& folder) {
  pool::BlockStopSignals();
  Result<HostPort> where = ListenAddress(options.listen);
  if (!where.ok()) return kProcess.Fail(kExitUsage, where.status().message());
  for (const auto& [flag, name] : {std::pair("--namespace ", &options.space),
                                   {"--secret ", &options.secret},
                                   {"--configuration ", &options.configuration}})
    if (!IsName(*name))
      return kProcess.Fail(kExitUsage, flag + Quoted(*name) + ": write an object's name");
  Result<std::unique_ptr<ApiClient>> api = ApiClient::Make(options.api);
  if (!api.ok()) return kProcess.Fail(kExitUsage, api.status().message());

  ServingCertificate certificate(
      api->get(), {options.space, options.secret,
                   "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/" +
                       options.configuration,
                   options.hosts, options.certificate_days, folder});
  GateWatch gates(options.gates, api->get());
  Upkeep upkeep(kProcess, [&] {
    Status told = gates.Refresh();
    FARCALL_TRY(certificate.Refresh());
    return told;
  });
  if (std::optional<int> ended = upkeep.Begin()) return *ended;
  pool::HttpRouter router;
  AddHandlers(options.gpushare_unit, gates.gates(), &router);
  pool::HttpFront::Bounds bounds;
  bounds.waiting = bounds.ready = kMaxWaitingUnits;
  bounds.workers = 4;
  bounds.request.body_bytes = kMaxReviewBytes;
  pool::HttpFront front(
      [&router](pool::HttpConnection& connection) { return router.Answer(connection); }, bounds);
  if (Status opened = front.Open(where->host, where->port, certificate.files()); !opened.ok())
    return kProcess.Fail(kExitCannotListen, opened.message());
  std::printf("farcall: webhook %s on %s\n", options.configuration.c_str(),
              FormatHostPort(where->host, static_cast<uint16_t>(front.port())).c_str());
  std::fflush(stdout);
  upkeep.Run();
  router.Shut();
  front.Close();
  return kExitOk;
}

}  // namespace farcall::k8s
