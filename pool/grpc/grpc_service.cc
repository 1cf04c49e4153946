// SPDX-License-Identifier: Apache-2.0
#include "pool/grpc/grpc_service.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <map>
#include <mutex>

#include "generated/proto/pool.grpc.pb.h"
#include "pool/grpc/grpc_call.h"
#include "pool/grpc/reaction.h"
#include "proto/handshake/handshake.h"
#include "proto/hex.h"

namespace farcall::pool {

namespace {

constexpr int kMaxMessageBytes = 4 << 20;
constexpr int kMaxThreads = 64;

std::string Authorization(const std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  auto found = metadata.find("authorization");
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.size());
}

const grpc::Status kUnknownHost(grpc::StatusCode::UNAUTHENTICATED,
                                "this host has not joined the pool: give it what `farcall pool "
                                "join-token new` makes, by --pool-token-file");

}  // namespace

grpc::Status ToGrpc(const Outcome& outcome) {
  switch (outcome.http) {
    case 200:
      return grpc::Status::OK;
    case 400:
      return {grpc::StatusCode::INVALID_ARGUMENT, outcome.error.message()};
    case 401:
      return {grpc::StatusCode::UNAUTHENTICATED, outcome.error.message()};
    case 403:
      return {grpc::StatusCode::PERMISSION_DENIED, outcome.error.message()};
    case 404:
      return {grpc::StatusCode::NOT_FOUND, outcome.error.message()};
    case 409:
      return {grpc::StatusCode::FAILED_PRECONDITION, outcome.error.message()};
    case 429:
      return {grpc::StatusCode::RESOURCE_EXHAUSTED, outcome.error.message()};
    case 503:
      return {grpc::StatusCode::UNAVAILABLE, outcome.error.message()};
    default:
      return {grpc::StatusCode::INTERNAL, outcome.error.message()};
  }
}

grpc::Status AuditAndAnswer(Service* service, const Caller& caller,
                            const grpc::ServerContext& context, std::string_view call,
                            const google::protobuf::Message& request,
                            const google::protobuf::Message* answer, const Outcome& outcome) {
  service->Audit(caller, RuleOf(call), context.peer(), &request, answer, outcome.http);
  return ToGrpc(outcome);
}

grpc::Status Enter(GrpcServer::Judge& judge, const grpc::ServerContext& context,
                   std::string_view call, Caller* caller) {
  Result<std::string> identity = std::string();
  if (judge.certificates.are_wanted()) {
    std::string chain;
    // A server's chain has the others alone.
    for (const char* name :
         {GRPC_X509_PEM_CERT_PROPERTY_NAME, GRPC_X509_PEM_CERT_CHAIN_PROPERTY_NAME})
      for (const grpc::string_ref& text : context.auth_context()->FindPropertyValues(name))
        chain.append(text.data(), text.size());
    identity = judge.certificates.IdentityOf(chain);
  }
  std::optional<Caller> known;
  if (identity.ok())
    known = judge.callers.Recognise(Authorization(context.client_metadata()), *identity);
  if (!known)
    return {grpc::StatusCode::UNAUTHENTICATED,
            "the token is wrong, or the certificate: send 'authorization: Bearer TOKEN'"};
  std::string why;
  if (!May(*known, RuleOf(call), &why)) return {grpc::StatusCode::PERMISSION_DENIED, why};
  *caller = std::move(*known);
  return grpc::Status::OK;
}

namespace {

grpc::Status WatchFor(farcall::pool::Service::Watched what, farcall::pool::Service* service,
                      GrpcServer::Judge& judge, grpc::ServerContext* context,
                      const v1::WatchRequest& request, grpc::ServerWriter<v1::Change>* writer) {
  const std::string_view call =
      what == farcall::pool::Service::Watched::kHosts ? "Hosts.Watch" : "Claims.Watch";
  Caller caller;
  if (grpc::Status may = Enter(judge, *context, call, &caller); !may.ok()) return may;
  static Places watchers(24, 8);  // a thread each
  TakenPlace place(watchers, caller);
  if (!place)
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "24 watchers are served at once, 8 of one token"};
  service->Watch(caller, what, request, [&](const v1::Change* change) {
    const std::optional<Caller> now = judge.callers.Again(caller);
    std::string why;
    return now && May(*now, RuleOf(call), &why) && !context->IsCancelled() &&
           (change == nullptr || writer->Write(*change));
  });
  return grpc::Status::OK;
}

}  // namespace

class GrpcServer::ClaimsService final : public v1::Claims::Service {
 public:
  ClaimsService(farcall::pool::Service* service, Judge& judge) : service_(service), judge_(judge) {}

  FARCALL_POOL_CALL(Claims, Request, v1::ClaimRequest, v1::Claim)
  FARCALL_POOL_CALL(Claims, Get, v1::ClaimName, v1::Claim)
  FARCALL_POOL_CALL(Claims, List, v1::ListClaimsRequest, v1::ClaimList)
  FARCALL_POOL_CALL(Claims, Update, v1::ClaimChange, v1::Claim)
  FARCALL_POOL_CALL(Claims, Release, v1::ClaimName, v1::Claim)
  FARCALL_POOL_CALL(Claims, Renew, v1::ClaimName, v1::Claim)
  FARCALL_POOL_CALL(Claims, Explain, v1::ClaimName, v1::Explanation)
  FARCALL_POOL_CALL(Claims, Connect, v1::ClaimName, v1::Connection)
  FARCALL_POOL_CALL(Claims, Plan, v1::ClaimRequest, v1::Explanation)
  FARCALL_POOL_CALL(Claims, ListQueue, v1::QueueRequest, v1::Queue)
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::Change>* writer) override {
    return WatchFor(farcall::pool::Service::Watched::kClaims, service_, judge_, context, *request,
                    writer);
  }

 private:
  farcall::pool::Service* const service_;
  Judge& judge_;
};

class GrpcServer::HostsService final : public v1::Hosts::Service {
 public:
  HostsService(farcall::pool::Service* service, Judge& judge) : service_(service), judge_(judge) {}
  grpc::Status List(grpc::ServerContext* context, const v1::ListHostsRequest*,
                    v1::HostList* answer) override {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, "Hosts.List", &caller); !may.ok()) return may;
    return ToGrpc(service_->ListHosts(caller, answer));
  }
  grpc::Status Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                     grpc::ServerWriter<v1::Change>* writer) override {
    return WatchFor(farcall::pool::Service::Watched::kHosts, service_, judge_, context, *request,
                    writer);
  }
  grpc::Status Status(grpc::ServerContext* context, const v1::PoolStatusRequest*,
                      v1::PoolStatus* answer) override {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, "Hosts.Status", &caller); !may.ok()) return may;
    return ToGrpc(service_->GetStatus(caller, answer));
  }
  FARCALL_POOL_CALL(Hosts, SetLabels, v1::HostLabels, v1::Host)
  FARCALL_POOL_CALL(Hosts, NewJoinToken, v1::JoinTokenRequest, v1::JoinToken)
  FARCALL_POOL_CALL(Hosts, ListJoinTokens, v1::ListJoinTokensRequest, v1::JoinTokenList)
  FARCALL_POOL_CALL(Hosts, RevokeJoinToken, v1::JoinTokenName, v1::JoinToken)
  grpc::Status Join(grpc::ServerContext*, const v1::JoinRequest* request,
                    v1::Joined* answer) override {
    return ToGrpc(service_->Join({}, *request, answer));
  }
  grpc::Status Drain(grpc::ServerContext* c, const v1::HostName* n, v1::Host* h) override {
    return Set(c, n, "Hosts.Drain", SetHost::Verb::kDrain, h);
  }
  grpc::Status Cordon(grpc::ServerContext* c, const v1::HostName* n, v1::Host* h) override {
    return Set(c, n, "Hosts.Cordon", SetHost::Verb::kCordon, h);
  }
  grpc::Status Uncordon(grpc::ServerContext* c, const v1::HostName* n, v1::Host* h) override {
    return Set(c, n, "Hosts.Uncordon", SetHost::Verb::kUncordon, h);
  }

 private:
  grpc::Status Set(grpc::ServerContext* context, const v1::HostName* name, const char* call,
                   SetHost::Verb verb, v1::Host* host) {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, call, &caller); !may.ok()) return may;
    return AuditAndAnswer(service_, caller, *context, call, *name, host,
                          service_->ChangeHost(caller, *name, verb, host));
  }
  farcall::pool::Service* const service_;
  Judge& judge_;
};

class GrpcServer::ProjectsService final : public v1::Projects::Service {
 public:
  ProjectsService(farcall::pool::Service* service, Judge& judge)
      : service_(service), judge_(judge) {}
  grpc::Status List(grpc::ServerContext* context, const v1::ListProjectsRequest* request,
                    v1::ProjectList* answer) override {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, "Projects.List", &caller); !may.ok()) return may;
    return ToGrpc(service_->ListProjects(caller, *request, answer));
  }
  grpc::Status Get(grpc::ServerContext* context, const v1::ProjectName* name,
                   v1::Project* answer) override {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, "Projects.Get", &caller); !may.ok()) return may;
    return ToGrpc(service_->GetProject(caller, *name, answer));
  }
  FARCALL_POOL_CALL(Projects, Apply, v1::Config, v1::ConfigDiff)
  grpc::Status Set(grpc::ServerContext* context, const v1::Project* given,
                   v1::Project* answer) override {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, "Projects.Set", &caller); !may.ok()) return may;
    return AuditAndAnswer(service_, caller, *context, "Projects.Set", *given, answer,
                          service_->ChangeProject(caller, *given, answer));
  }
  grpc::Status Delete(grpc::ServerContext* context, const v1::ProjectName* name,
                      v1::Project* answer) override {
    Caller caller;
    if (grpc::Status may = Enter(judge_, *context, "Projects.Delete", &caller); !may.ok())
      return may;
    return AuditAndAnswer(service_, caller, *context, "Projects.Delete", *name, answer,
                          service_->DeleteProject(caller, *name, answer));
  }

 private:
  farcall::pool::Service* const service_;
  Judge& judge_;
};

// A host's stream. It lives until gRPC is done with it; the controller's answers hold it meanwhile.
class GrpcServer::AgentStream final
    : public grpc::ServerBidiReactor<v1::HostReport, v1::HostAnswer>,
      public std::enable_shared_from_this<GrpcServer::AgentStream> {
 public:
  AgentStream(LinkService* link, std::string authorization);
  void Begin() {
    {
      std::lock_guard lock(mutex_);
      self_ = shared_from_this();
    }
    if (IsOf(""))
      StartRead(&report_);
    else
      End(kUnknownHost);
    HandOn(this);  // no reaction before gRPC has the reactor
  }
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;
  void Send(v1::HostAnswer answer);
  void Tell(const Answer& answer);
  uint64_t incarnation() {
    std::lock_guard lock(mutex_);
    return incarnation_;
  }

 private:
  void End(const grpc::Status& status) {
    std::lock_guard lock(mutex_);
    if (is_over_) return;
    is_over_ = true;
    Finish(status);
  }

  // The host that its first report named; "": none yet.
  std::string host() {
    std::lock_guard lock(mutex_);
    return host_;
  }
  // Whether the credential that it shows is (still) good, for that host.
  bool IsOf(const std::string& host) const;

  LinkService* const link_;
  const std::string authorization_;
  v1::HostReport report_;
  std::mutex mutex_;  // all below: the controller's thread asks, too
  std::shared_ptr<AgentStream> self_;
  std::string host_;
  uint64_t incarnation_ = 0;  // of its latest report
  std::deque<v1::HostAnswer> out_;
  bool is_over_ = false;
};

class GrpcServer::LinkService final : public v1::AgentLink::CallbackService {
 public:
  LinkService(farcall::pool::Service* service, const Options& options)
      : service_(service), options_(options) {}
  grpc::ServerBidiReactor<v1::HostReport, v1::HostAnswer>* Stream(
      grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<AgentStream>(this, Authorization(context->client_metadata()));
    stream->Begin();
    return stream.get();
  }
  void Push(const std::string& host, const Answer& answer) {
    std::shared_ptr<AgentStream> stream;
    {
      std::lock_guard lock(mutex_);
      auto found = streams_.find(host);
      if (found != streams_.end()) stream = found->second.lock();
    }
    if (stream != nullptr && stream->incarnation() == answer.incarnation) stream->Tell(answer);
  }
  void Note(const std::string& host, const std::shared_ptr<AgentStream>& stream) {
    std::lock_guard lock(mutex_);
    streams_[host] = stream;
  }
  farcall::pool::Service& service() { return *service_; }
  const Options& options() const { return options_; }

 private:
  farcall::pool::Service* const service_;
  const Options options_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<AgentStream>> streams_;
};

GrpcServer::AgentStream::AgentStream(LinkService* link, std::string authorization)
    : link_(link), authorization_(std::move(authorization)) {}

bool GrpcServer::AgentStream::IsOf(const std::string& host) const {
  std::optional<std::string> known = link_->service().HostOf(authorization_);
  return known && (host.empty() || known->empty() || *known == host);
}

void GrpcServer::AgentStream::OnReadDone(bool ok) {
  Reaction reaction(this);
  if (!ok) return End(grpc::Status::OK);
  Result<HostReport> report = FromProto(report_);
  if (!report.ok()) return End({grpc::StatusCode::INVALID_ARGUMENT, report.status().message()});
  const std::string of = host();
  if (!of.empty() && of != report->host)
    return End({grpc::StatusCode::INVALID_ARGUMENT, "a stream is of one host"});
  if (!IsOf(report->host)) return End(kUnknownHost);
  {
    std::lock_guard lock(mutex_);
    host_ = report->host;
    incarnation_ = report->incarnation;
  }
  std::shared_ptr<control::v1::ServerStatus> status;
  if (report_.has_status())
    status = std::make_shared<control::v1::ServerStatus>(std::move(*report_.mutable_status()));
  auto self = shared_from_this();
  const std::string host = report->host;
  link_->service().controller().Post(std::move(*report), [self, host, status](Effects& effects) {
    if (effects.refusal)
      return self->End({effects.refusal->code == RefusalCode::kUnavailable
                            ? grpc::StatusCode::UNAVAILABLE
                            : grpc::StatusCode::FAILED_PRECONDITION,
                        effects.refusal->message});
    self->link_->Note(host, self);
    if (status != nullptr) self->link_->service().NoteStatus(host, std::move(*status));
    if (effects.answer) self->Tell(*effects.answer);
  });
  HandOn(this);
  StartRead(&report_);
}

void GrpcServer::AgentStream::Tell(const Answer& told) {
  v1::HostAnswer answer;
  answer.set_beat(told.beat);
  answer.set_number(told.number);
  answer.set_term(link_->service().controller().term());
  answer.set_pool(link_->options().pool);
  answer.set_key(HexOf(link_->options().key));
  for (const Grant& grant : told.grants) *answer.add_grants() = ToProto(grant);
  for (const auto& [claim, reason] : told.ended) {
    v1::EndedClaim* ended = answer.add_ended();
    ended->set_claim(claim);
    ended->set_reason(reason);
  }
  Send(std::move(answer));
}

void GrpcServer::AgentStream::Send(v1::HostAnswer answer) {
  constexpr size_t kMaxWaiting = 64;  // it does not read
  std::lock_guard lock(mutex_);
  if (is_over_ || out_.size() >= kMaxWaiting) return;
  out_.push_back(std::move(answer));
  if (out_.size() == 1) StartWrite(&out_.front());
}

void GrpcServer::AgentStream::OnWriteDone(bool ok) {
  Reaction reaction(this);
  std::lock_guard lock(mutex_);
  out_.pop_front();
  if (ok && !is_over_ && !out_.empty()) StartWrite(&out_.front());
}

void GrpcServer::AgentStream::OnDone() {
  std::shared_ptr<AgentStream> last;  // goes at the very end
  Reaction reaction(this);
  HostClosed closed;
  {
    std::lock_guard lock(mutex_);
    last = std::move(self_);
    closed = {host_, incarnation_};
  }
  if (!closed.host.empty()) link_->service().controller().Post(std::move(closed), nullptr);
}

GrpcServer::GrpcServer(Service* service, Options options)
    : service_(service), options_(std::move(options)), judge_(options_) {}

GrpcServer::~GrpcServer() {
  Close();
}

Status GrpcServer::Open() {
  claims_ = std::make_unique<ClaimsService>(service_, judge_);
  hosts_ = std::make_unique<HostsService>(service_, judge_);
  projects_ = std::make_unique<ProjectsService>(service_, judge_);
  accounts_ = MakeAccountsService(service_, judge_);
  gangs_ = MakeGangsService(service_, judge_);
  groups_ = MakeGroupsService(service_, judge_);
  reservations_ = MakeReservationsService(service_, judge_);
  link_ = std::make_unique<LinkService>(service_, options_);
  LinkService* link = link_.get();
  service_->controller().OnPush(
      [link](const std::string& host, const Answer& answer) { link->Push(host, answer); });
  Result<std::shared_ptr<grpc::ServerCredentials>> credentials = ServerCredentials(options_.tls);
  FARCALL_TRY(credentials.status());
  grpc::ServerBuilder builder;
  builder.AddListeningPort(options_.address, *credentials, &port_);
  builder.RegisterService(claims_.get());
  builder.RegisterService(hosts_.get());
  builder.RegisterService(projects_.get());
  builder.RegisterService(accounts_.get());
  builder.RegisterService(gangs_.get());
  builder.RegisterService(groups_.get());
  builder.RegisterService(reservations_.get());
  builder.RegisterService(link_.get());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 2000);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  grpc::ResourceQuota quota("farcall-pool");
  quota.SetMaxThreads(kMaxThreads);
  builder.SetResourceQuota(quota);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr || port_ == 0)
    return {Code::kUnavailable, "gRPC: cannot listen on " + options_.address};
  return {};
}

void GrpcServer::Close() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
}

}  // namespace farcall::pool
