// SPDX-License-Identifier: Apache-2.0
#include "pool/rest/rest.h"

#include <google/protobuf/util/json_util.h>

#include <charconv>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "pool/http/http_router.h"
#include "pool/rest/rest_message.h"
#include "proto/printable.h"
#include "transport/tls/identity.h"

namespace farcall::pool {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Json = nlohmann::json;

constexpr Ms kLongestTurn = 10'000;

std::string ToJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return text;
}

void Say(httplib::Response& response, int status, const Message& message) {
  response.status = status;
  response.set_content(ToJson(message) + "\n", "application/json");
}

void Say(httplib::Response& response, const Outcome& outcome) {
  Say(response, outcome.http, outcome.error);
}

// A row: the verb, the path with {id} or {project}, what comes in, what goes out.
struct Route {
  const char *method, *path;
  const Message *in, *out;  // prototypes
  const char* name_field;   // of `in`, what that is; nullptr: the path has none
  std::function<Outcome(Service&, const Caller&, const Message&, Message*)> run;
};

template <typename In, typename Out>
Route MakeRoute(const char* method, const char* path, const char* name_field,
                Outcome (Service::*call)(const Caller&, const In&, Out*)) {
  return {method,
          path,
          &In::default_instance(),
          &Out::default_instance(),
          name_field,
          [call](Service& service, const Caller& caller, const Message& in, Message* out) {
            return (service.*call)(caller, static_cast<const In&>(in), static_cast<Out*>(out));
          }};
}

Route HostRoute(const char* path, SetHost::Verb verb) {
  return {"POST",
          path,
          &pb::HostName::default_instance(),
          &pb::Host::default_instance(),
          "name",
          [verb](Service& service, const Caller& caller, const Message& in, Message* out) {
            return service.ChangeHost(caller, static_cast<const pb::HostName&>(in), verb,
                                      static_cast<pb::Host*>(out));
          }};
}

template <typename Out>
Route PlainRoute(const char* path, Outcome (Service::*call)(const Caller&, Out*)) {
  return {"GET",
          path,
          &pb::ListHostsRequest::default_instance(),
          &Out::default_instance(),
          nullptr,
          [call](Service& service, const Caller& caller, const Message&, Message* out) {
            return (service.*call)(caller, static_cast<Out*>(out));
          }};
}

const std::vector<Route>& Routes() {
  using Verb = SetHost::Verb;
  static const auto* routes = new std::vector<Route>{
      MakeRoute("POST", "/v1/claims", nullptr, &Service::Request),
      MakeRoute("GET", "/v1/claims", nullptr, &Service::List),
      MakeRoute("POST", "/v1/claims:plan", nullptr, &Service::Plan),
      MakeRoute("GET", "/v1/claims/{id}", "id", &Service::Get),
      MakeRoute("PATCH", "/v1/claims/{id}", "id", &Service::Update),
      MakeRoute("DELETE", "/v1/claims/{id}", "id", &Service::Release),
      MakeRoute("POST", "/v1/claims/{id}:renew", "id", &Service::Renew),
      MakeRoute("POST", "/v1/claims/{id}:explain", "id", &Service::Explain),
      MakeRoute("POST", "/v1/claims/{id}:connect", "id", &Service::Connect),
      MakeRoute("POST", "/v1/gangs", nullptr, &Service::RequestGang),
      MakeRoute("POST", "/v1/gangs:plan", nullptr, &Service::PlanGang),
      MakeRoute("GET", "/v1/gangs/{id}", "id", &Service::GetGang),
      MakeRoute("DELETE", "/v1/gangs/{id}", "id", &Service::ReleaseGang),
      MakeRoute("GET", "/v1/queue", nullptr, &Service::ListQueue),
      MakeRoute("GET", "/v1/projects", nullptr, &Service::ListProjects),
      MakeRoute("GET", "/v1/projects/{project}", "name", &Service::GetProject),
      MakeRoute("PUT", "/v1/projects/{project}", "name", &Service::ChangeProject),
      MakeRoute("DELETE", "/v1/projects/{project}", "name", &Service::DeleteProject),
      MakeRoute("GET", "/v1/groups", nullptr, &Service::ListGroups),
      MakeRoute("GET", "/v1/groups/{id}", "name", &Service::GetGroup),
      MakeRoute("PUT", "/v1/groups/{id}", "name", &Service::ChangeGroup),
      MakeRoute("DELETE", "/v1/groups/{id}", "name", &Service::DeleteGroup),
      MakeRoute("POST", "/v1/apply", nullptr, &Service::Apply),
      MakeRoute("PUT", "/v1/hosts/{id}/labels", "name", &Service::SetLabels),
      PlainRoute("/v1/hosts", &Service::ListHosts),
      PlainRoute("/v1/gpus", &Service::ListGpus),
      PlainRoute("/v1/sessions", &Service::GetStatus),
      PlainRoute("/v1/pool", &Service::GetInfo),
      PlainRoute("/v1/snapshot", &Service::GetSnapshot),
      MakeRoute("POST", "/v1/join-tokens", nullptr, &Service::NewJoinToken),
      MakeRoute("GET", "/v1/join-tokens", nullptr, &Service::ListJoinTokens),
      MakeRoute("DELETE", "/v1/join-tokens/{id}", "id", &Service::RevokeJoinToken),
      MakeRoute("POST", "/v1/reservations", nullptr, &Service::CreateReservation),
      MakeRoute("GET", "/v1/reservations", nullptr, &Service::ListReservations),
      MakeRoute("GET", "/v1/reservations/{id}", "name", &Service::GetReservation),
      MakeRoute("DELETE", "/v1/reservations/{id}", "name", &Service::DeleteReservation),
      MakeRoute("POST", "/v1/join", nullptr, &Service::Join),
      MakeRoute("POST", "/v1/users", nullptr, &Service::AddUser),
      MakeRoute("GET", "/v1/users", nullptr, &Service::ListUsers),
      MakeRoute("DELETE", "/v1/users/{id}", "name", &Service::RemoveUser),
      MakeRoute("POST", "/v1/users/{id}:grant", "name", &Service::GrantRole),
      MakeRoute("POST", "/v1/users/{id}:revoke", "name", &Service::RevokeRole),
      MakeRoute("POST", "/v1/login", nullptr, &Service::LogIn),
      MakeRoute("POST", "/v1/tokens", nullptr, &Service::NewToken),
      MakeRoute("GET", "/v1/tokens", nullptr, &Service::ListTokens),
      MakeRoute("DELETE", "/v1/tokens/{id}", "id", &Service::RevokeToken),
      PlainRoute("/v1/whoami", &Service::WhoAmI),
      HostRoute("/v1/hosts/{id}:drain", Verb::kDrain),
      HostRoute("/v1/hosts/{id}:cordon", Verb::kCordon),
      HostRoute("/v1/hosts/{id}:uncordon", Verb::kUncordon),
  };
  return *routes;
}

std::string Pattern(std::string path) {
  for (auto [name, pattern] :
       {std::pair<std::string_view, const char*>("{id}", R"(([A-Za-z0-9._-]{1,128}))"),
        {"{project}", R"(([A-Za-z0-9._/-]{1,128}))"}}) {
    size_t at = path.find(name);
    if (at != std::string::npos) path.replace(at, name.size(), pattern);
  }
  return path;
}

void Serve(const Route& route, Service& service, const Caller& caller,
           const httplib::Request& request, httplib::Response& response) {
  std::unique_ptr<Message> in(route.in->New()), out(route.out->New());
  Outcome outcome = ReadMessage(request, route.name_field, in.get());
  if (outcome.ok()) outcome = route.run(service, caller, *in, out.get());
  service.Audit(caller, RuleOf(std::string(route.method) + " " + route.path), request.remote_addr,
                in.get(), out.get(), outcome.http);
  if (!outcome.ok()) return Say(response, outcome);
  if (const FieldDescriptor* revision = out->GetDescriptor()->FindFieldByName("revision"))
    response.set_header(
        "ETag", "\"" + std::to_string(out->GetReflection()->GetUInt64(*out, revision)) + "\"");
  const bool makes = route.out == &pb::Claim::default_instance()
                         ? route.in == &pb::ClaimRequest::default_instance()
                         : route.in == &pb::GangRequest::default_instance() &&
                               route.out == &pb::Gang::default_instance();
  Say(response, std::strcmp(route.method, "POST") == 0 && makes ? 201 : 200, *out);
}

std::string TypeName(const FieldDescriptor* field) {
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "boolean";
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_UINT32:
      return "integer";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return "object";
    default:
      return "string";  // 64-bit numbers too: JSON has none
  }
}

void Describe(const Descriptor* message, Json* schemas) {
  if (schemas->contains(message->name())) return;
  Json& schema = (*schemas)[message->name()];
  schema = {{"type", "object"}, {"properties", Json::object()}};
  Json properties = Json::object();
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor* field = message->field(i);
    Json type = {{"type", TypeName(field)}};
    const bool is_long = field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
                         field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64;
    if (is_long) type["format"] = "int64";
    if (field->is_map()) {
      const FieldDescriptor* value = field->message_type()->map_value();
      type = {{"type", "object"}, {"additionalProperties", {{"type", TypeName(value)}}}};
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      type = {{"$ref", "#/components/schemas/" + field->message_type()->name()}};
      Describe(field->message_type(), schemas);
    }
    if (field->is_repeated() && !field->is_map()) type = {{"type", "array"}, {"items", type}};
    properties[field->name()] = type;
  }
  (*schemas)[message->name()]["properties"] = properties;
}

// What stands between braces in a path.
std::string Parameter(const std::string& path) {
  const size_t begin = path.find('{') + 1;
  return path.substr(begin, path.find('}') - begin);
}

HttpFront::Bounds HealthBounds() {
  HttpFront::Bounds bounds;
  bounds.waiting = 256;
  bounds.ready = 256;
  bounds.workers = 1;
  return bounds;
}

}  // namespace

std::string OpenApi() {
  Json schemas = Json::object(), paths = Json::object();
  auto content = [](const Message* message) {
    return Json{
        {"application/json",
         {{"schema", {{"$ref", "#/components/schemas/" + message->GetDescriptor()->name()}}}}}};
  };
  for (const Route& route : Routes()) {
    Describe(route.in->GetDescriptor(), &schemas);
    Describe(route.out->GetDescriptor(), &schemas);
    std::string method = route.method;
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    Json& operation = paths[route.path][method];
    operation["operationId"] = RuleOf(std::string(route.method) + " " + route.path).verb;
    operation["responses"]["200"] = {{"description", "done"}, {"content", content(route.out)}};
    operation["responses"]["default"] = {{"description", "an error"},
                                         {"content", content(&pb::Error::default_instance())}};
    if (route.name_field != nullptr)
      operation["parameters"] = {{{"name", Parameter(route.path)},
                                  {"in", "path"},
                                  {"required", true},
                                  {"schema", {{"type", "string"}}}}};
    if (method == "post" || method == "patch" || method == "put")
      operation["requestBody"] = {{"content", content(route.in)}};
  }
  Describe(pb::Error::descriptor(), &schemas);
  Describe(pb::EventList::descriptor(), &schemas);
  paths["/v1/events"]["get"]["responses"]["200"] = {
      {"description", "events; with watch=1 as server-sent events"},
      {"content", content(&pb::EventList::default_instance())}};
  Json all = {{"openapi", "3.0.3"},
              {"info", {{"title", "Farcall pool"}, {"version", "1"}}},
              {"paths", paths},
              {"components", {{"schemas", schemas}}}};
  return all.dump(2);
}

RestServer::RestServer(Service* service, const Callers& callers, const TlsFiles& tls)
    : service_(service),
      callers_(callers),
      tls_(tls),
      server_(std::make_unique<HttpRouter>()),
      health_(std::make_unique<HttpRouter>()),
      front_([this](HttpConnection& connection) { return Answer(connection); }, {}),
      health_front_([this](HttpConnection& connection) { return health_->Answer(connection); },
                    HealthBounds()) {
  AddHandlers();
  AddRoutes();
  AddEvents();
  AddProbes();
  AddAudit();
  AddHealth(server_.get());
}

RestServer::~RestServer() {
  Close();
}

std::optional<Caller> RestServer::Recognise(const httplib::Request& request) const {
  const X509* certificate =
      request.ssl == nullptr ? nullptr : SSL_get0_peer_certificate(request.ssl);
  return callers_.Recognise(request.get_header_value("Authorization"),
                            certificate == nullptr ? "" : CertificateIdentity(certificate));
}

// What needs no token is asked by nobody in particular, who has no claims.
Caller RestServer::CallerOf(const httplib::Request& request) const {
  return Recognise(request).value_or(Caller{});
}

bool RestServer::MayEnter(const char* route, const Caller& caller, httplib::Response& response,
                          const std::string& source) {
  std::string why;
  if (May(caller, RuleOf(route), &why)) return true;
  service_->Audit(caller, RuleOf(route), source, nullptr, nullptr, 403);
  Say(response, Failed(403, "forbidden", why, "Authorization", "ask an operator of the pool"));
  return false;
}

void RestServer::AddRoutes() {
  for (const Route& route : Routes()) {
    auto handler = [this, &route](const httplib::Request& request, httplib::Response& response) {
      std::string path = route.path;
      bool is_list =
          std::strcmp(route.method, "GET") == 0 && (path == "/v1/claims" || path == "/v1/hosts");
      if (is_list && request.get_param_value("watch") == "1")
        return ServeWatch(path == "/v1/hosts", request, response);
      const Caller caller = CallerOf(request);
      if (!MayEnter((std::string(route.method) + " " + path).c_str(), caller, response,
                    request.remote_addr))
        return;
      Serve(route, *service_, caller, request, response);
    };
    std::string pattern = Pattern(route.path), method = route.method;
    if (method == "GET") server_->Get(pattern.c_str(), handler);
    if (method == "DELETE") server_->Delete(pattern.c_str(), handler);
    if (method == "POST") server_->Post(pattern.c_str(), handler);
    if (method == "PATCH") server_->Patch(pattern.c_str(), handler);
    if (method == "PUT") server_->Put(pattern.c_str(), handler);
  }
}

// While it watches: whether its token is still good, and its role enough.
bool RestServer::StillMay(const Caller& caller, const char* route) const {
  const std::optional<Caller> now = callers_.Again(caller);
  std::string why;
  return now && May(*now, RuleOf(route), &why);
}

bool RestServer::TakeWatcher(const Caller& caller, httplib::Response& response) {
  if (watchers_.Take(caller)) return true;
  Say(response, Failed(429, "too_many", "24 watchers are served at once, 8 of one token", "watch"));
  return false;
}

// Numbers are ids: who is cut off says the last, and hears what came since.
void RestServer::ServeWatch(bool hosts, const httplib::Request& request,
                            httplib::Response& response) {
  pb::WatchRequest watch;
  std::string given = request.has_header("Last-Event-ID")
                          ? request.get_header_value("Last-Event-ID")
                          : request.get_param_value("after");
  uint64_t after = 0;
  std::from_chars(given.data(), given.data() + given.size(), after);
  watch.set_after(after);
  std::string name = request.get_param_value("name");
  if (!IsUtf8(name))
    return Say(response, Failed(400, "invalid", "query 'name' is no UTF-8", "name"));
  watch.set_name(name);
  Caller caller = CallerOf(request);
  const char* route = hosts ? "GET /v1/hosts?watch=1" : "GET /v1/claims?watch=1";
  if (!MayEnter(route, caller, response) || !TakeWatcher(caller, response)) return;
  response.set_chunked_content_provider(
      "text/event-stream",
      [this, hosts, watch, caller, route](size_t, httplib::DataSink& sink) {
        auto tell = [&](const pb::Change* change) {
          if (!StillMay(caller, route)) return false;
          std::string text = ": still here\n\n";
          if (change != nullptr) {
            text = "event: " + change->kind() + "\n";
            if (change->number() != 0) text += "id: " + std::to_string(change->number()) + "\n";
            text += "data: " +
                    (change->has_claim()  ? ToJson(change->claim())
                     : change->has_host() ? ToJson(change->host())
                                          : std::string("{}")) +
                    "\n\n";
          }
          return sink.write(text.data(), text.size());
        };
        service_->Watch(caller, hosts ? Service::Watched::kHosts : Service::Watched::kClaims, watch,
                        tell);
        return false;
      },
      [this, caller](bool) { watchers_.Give(caller); });
}

void RestServer::AddEvents() {
  server_->Get("/v1/events", [this](const httplib::Request& request, httplib::Response& response) {
    uint64_t after = 0;
    std::string given = request.has_header("Last-Event-ID")
                            ? request.get_header_value("Last-Event-ID")
                            : request.get_param_value("after");
    std::from_chars(given.data(), given.data() + given.size(), after);
    Caller caller = CallerOf(request);
    if (!MayEnter("GET /v1/events", caller, response)) return;
    std::optional<std::string> by = caller.by();
    if (request.get_param_value("watch") != "1") {
      pb::EventList list;
      for (pb::Event& event : service_->controller().EventsAfter(&after, 0, by))
        *list.add_events() = std::move(event);
      return Say(response, 200, list);
    }
    if (!TakeWatcher(caller, response)) return;
    auto seen = std::make_shared<uint64_t>(after);
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, seen, by, caller](size_t, httplib::DataSink& sink) {
          constexpr Ms kSilence = 2000;  // then a comment shows whether anybody still listens
          std::string text;
          for (const pb::Event& event :
               service_->controller().EventsAfter(seen.get(), kSilence, by)) {
            std::string json = ToJson(event);
            text += "id: " + std::to_string(event.number()) + "\ndata: " + json + "\n\n";
          }
          if (!StillMay(caller, "GET /v1/events")) return false;
          if (text.empty()) text = ": still here\n\n";
          return sink.write(text.data(), text.size());
        },
        [this, caller](bool) { watchers_.Give(caller); });
  });
}

void RestServer::AddProbes() {
  auto text = [this](const char* route, const char* type, auto make) {
    return [this, route, type, make](const httplib::Request& request, httplib::Response& response) {
      if (!MayEnter(route, CallerOf(request), response)) return;
      response.set_content(make(), type);
    };
  };
  server_->Get("/metrics", text("GET /metrics", "text/plain; version=0.0.4",
                                [this] { return service_->Metrics(); }));
  server_->Get("/openapi.json",
               text("GET /openapi.json", "application/json", [] { return OpenApi() + "\n"; }));
}

// Neither waits for anybody.
void RestServer::AddHealth(HttpRouter* router) {
  router->Get("/healthz", [](const httplib::Request&, httplib::Response& response) {
    response.set_content("ok\n", "text/plain");
  });
  router->Get("/readyz", [this](const httplib::Request&, httplib::Response& response) {
    Controller& controller = service_->controller();
    Ms since = controller.SinceLastTurn();
    std::string fault = controller.store_fault(), text = "ready\n";
    if (since > kLongestTurn) {
      response.status = 503;
      text = "the controller has done nothing for " + std::to_string(since / 1000) + " s\n";
    } else if (!fault.empty()) {  // hosts and readers are answered all the same
      text = "ready, but nothing can be changed: " + fault + "\n";
    }
    response.set_content(text, "text/plain");
  });
}

Status RestServer::OpenHealth(const std::string& host, int port) {
  AddHealth(health_.get());
  Status opened = health_front_.Open(host, port, {});
  return opened.ok() ? opened : Status(opened.code(), "health: " + opened.message());
}

void RestServer::AddHandlers() {
  server_->set_pre_routing_handler(
      [this](const httplib::Request& request, httplib::Response& response) {
        static const std::set<std::string> open = {"/healthz", "/readyz", "/v1/pool", "/v1/join",
                                                   "/v1/login"};
        if (open.count(request.path) != 0 || Recognise(request))
          return httplib::Server::HandlerResponse::Unhandled;
        Say(response, Failed(401, "unauthenticated", "the token is wrong", "Authorization",
                             "send 'Authorization: Bearer TOKEN'"));
        return httplib::Server::HandlerResponse::Handled;
      });
  server_->set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    Say(response, Failed(response.status, response.status == 404 ? "not_found" : "invalid",
                         Printable(request.method, 16) + " " + Printable(request.path, 128) +
                             ": cannot be answered (" + std::to_string(response.status) + ")",
                         "", "/openapi.json lists what can"));
  });
  // Without one, the library puts the words of the exception into a header.
  server_->set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
        Say(response, Failed(500, "internal", "this request cannot be answered"));
      });
}

bool RestServer::Answer(HttpConnection& connection) {
  return server_->Answer(connection);
}

Status RestServer::Open(const std::string& host, int port) {
  Status opened = front_.Open(host, port, tls_);
  return opened.ok() ? opened : Status(opened.code(), "REST: " + opened.message());
}

void RestServer::Close() {
  server_->Shut();
  front_.Close();
  health_front_.Close();
}

}  // namespace farcall::pool
