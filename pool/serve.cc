// SPDX-License-Identifier: Apache-2.0
#include "pool/serve.h"

#include <google/protobuf/stubs/logging.h>
#include <signal.h>

#include <cstdio>

#include "listener/descriptors.h"
#include "pool/controller/webhook.h"
#include "pool/data_port/data_port.h"
#include "pool/grpc/grpc_service.h"
#include "pool/process/stop_signals.h"
#include "pool/rest/rest.h"
#include "pool/tls/tls.h"
#include "proto/log_line.h"
#include "settings/exit_code.h"
#include "transport/url.h"

namespace farcall::pool {

namespace {

int Fail(int code, const std::string& message) {
  std::fprintf(stderr, "farcall pool: %s\n", message.c_str());
  return code;
}

Status CheckAddress(const std::string& address, bool has_tls, HostPort* parsed) {
  Result<Url> url = ParseUrl("tcp://" + address);
  if (!url.ok()) return url.status();
  Result<HostPort> parts = ParseHostPort(*url);
  if (!parts.ok()) return parts.status();
  if (!has_tls && !IsLoopbackUrl("tcp://" + address))
    return {Code::kInvalid, "listen '" + address +
                                "': an address other than the loopback needs --tls-cert and "
                                "--tls-key, or --plaintext"};
  *parsed = *parts;
  return {};
}

// Where nobody has said where, it does without rather than not start.
Status OpenHealth(const PoolServeOptions& options, const HostPort& rest, const HostPort& health,
                  RestServer* server) {
  constexpr int kAboveRest = 2;
  if (!options.health.empty()) return server->OpenHealth(health.host, health.port);
  Status opened = server->OpenHealth(rest.host, rest.port == 0 ? 0 : rest.port + kAboveRest);
  if (!opened.ok())
    LogLine(LogSeverity::kWarn, "pool",
            opened.message() + "; /healthz is answered by REST alone (--health-listen)");
  return {};
}

// A user who may do everything, and a token of theirs that is told once.
Status MakeFirstOperator(Service& service,
                         const std::function<void(const std::string& token)>& tell) {
  constexpr char kName[] = "operator";
  const Caller nobody_yet{true, ""};
  pb::User user, made;
  user.set_name(kName);
  user.add_roles()->set_role("operator");
  Outcome done = service.AddUser(nobody_yet, user, &made);
  if (done.http == 409) {  // one who is an operator no more
    pb::RoleChange change;
    change.set_name(kName);
    change.set_role("operator");
    done = service.GrantRole(nobody_yet, change, &made);
  }
  pb::TokenRequest request;
  request.set_user(kName);
  request.set_name("first");
  pb::Token token;
  if (done.ok()) done = service.NewToken(nobody_yet, request, &token);
  if (!done.ok()) return {Code::kUnavailable, "the first operator: " + done.error.message()};
  tell(token.token());
  return {};
}

struct Addresses {
  HostPort data, rest, grpc, health;
};

//   Errors  kInvalid, one line
Status CheckOptions(const PoolServeOptions& options, Addresses* parsed, bool* wants_accounts) {
  *wants_accounts = options.accounts || options.oidc.given();
  for (const auto& [flag, is_given] : {std::pair("--token-verifier", !options.clients.empty()),
                                       {"--tls-client-ca", !options.tls.authorities.empty()}})
    if (is_given && options.token.empty() && !*wants_accounts)
      return {Code::kInvalid, std::string(flag) + " needs --token-file or --accounts: the " +
                                  "operator, who lets hosts in"};
  for (auto [address, to] : {std::pair(&options.listen, &parsed->data),
                             {&options.rest, &parsed->rest},
                             {&options.grpc, &parsed->grpc}}) {
    FARCALL_TRY(CheckAddress(*address, options.tls.given() || options.plaintext, to));
    // Whoever reaches it would be the operator.
    if (options.token.empty() && !IsLoopbackUrl("tcp://" + *address)) *wants_accounts = true;
  }
  if (!options.health.empty()) FARCALL_TRY(CheckAddress(options.health, true, &parsed->health));
  return CheckTls(options.tls);
}

}  // namespace

int ServePool(const PoolServeOptions& options,
              const std::function<bool(const std::string&, const std::string&)>& ready) {
  BlockStopSignals();
  // It would log a line for each message that cannot be read, before anybody has shown a token.
  google::protobuf::SetLogHandler(nullptr);
  RaiseDescriptorLimit();
  Addresses addresses;
  bool wants_accounts = false;
  if (Status checked = CheckOptions(options, &addresses, &wants_accounts); !checked.ok())
    return Fail(kExitUsage, checked.message());
  const auto& [data, rest, grpc, health] = addresses;

  Loaded loaded;
  Result<std::unique_ptr<Store>> store = Store::Open(options.store, &loaded);
  if (!store.ok()) return Fail(kExitFailure, store.status().message());
  Controller controller(std::move(*store), loaded, options.timing, options.limits,
                        options.sequencer);
  if (!options.record.empty())
    if (Status recorded = controller.Record(options.record); !recorded.ok())
      return Fail(kExitFailure, recorded.message());
  // A store that knows an operator asks for tokens, wherever it is opened.
  const bool has_operator = controller.accounts().has_operator();
  wants_accounts = wants_accounts || (options.token.empty() && has_operator);
  const Callers callers(options.token, options.clients, !options.tls.authorities.empty(),
                        &controller.accounts(), wants_accounts, options.tenant_projects);
  Service service(&controller, {loaded.pool, loaded.key, options.join_token,
                                callers.wants_token() || !options.join_token.empty(), "", "", "",
                                "", options.max_queue_priority});
  if (options.oidc.given()) service.SetProvider(options.oidc);
  service.SetReview(options.review);
  GrpcServer grpc_server(&service,
                         {options.grpc, callers, loaded.pool, PublicHalf(loaded.key), options.tls});
  RestServer rest_server(&service, callers, options.tls);
  DataPort data_port(&service, callers);
  const std::string scheme = options.tls.given() ? "pools://" : "pool://";
  Status opened = data_port.Open(options.listen, options.tls);
  if (opened.ok()) opened = grpc_server.Open();
  if (opened.ok()) controller.Start();
  if (opened.ok() && wants_accounts && options.token.empty() && !has_operator)
    opened = MakeFirstOperator(service, options.first_operator);
  if (opened.ok()) {
    service.SetAddresses(FormatHostPort(grpc.host, static_cast<uint16_t>(grpc_server.port())),
                         scheme + data_port.address());
    opened = rest_server.Open(rest.host, rest.port);
    if (opened.ok()) opened = data_port.Start();
    if (opened.ok()) opened = OpenHealth(options, rest, health, &rest_server);
    if (opened.ok())
      service.SetHealth(FormatHostPort(options.health.empty() ? rest.host : health.host,
                                       static_cast<uint16_t>(rest_server.health_port())));
  }
  if (!opened.ok()) return Fail(kExitCannotListen, opened.message());
  std::string url = options.tls.given() ? "https://" : "http://";
  url += FormatHostPort(rest.host, static_cast<uint16_t>(rest_server.port()));
  std::string line = "farcall: pool on " + scheme + data_port.address() + ", REST on " + url;
  service.SetRest(url);
  Webhook webhook(&controller);
  if (!options.preempt_webhook.empty())
    if (Status started = webhook.Start(options.preempt_webhook); !started.ok())
      return Fail(kExitUsage, started.message());
  if (ready(url, line)) {
    const sigset_t signals = StopSignals();
    int signal = 0;
    sigwait(&signals, &signal);
  }
  std::fflush(nullptr);
  controller.Stop();  // first: whoever waits in a server waits for it
  webhook.Stop();
  rest_server.Close();
  grpc_server.Close();
  data_port.Close();
  return 0;
}

}  // namespace farcall::pool
