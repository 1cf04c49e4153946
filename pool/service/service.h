// SPDX-License-Identifier: Apache-2.0
// What may be asked of the pool, behind each of its addresses: gRPC, REST and HELLO.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pool/access/access.h"
#include "pool/access/callers.h"
#include "pool/access/places.h"
#include "pool/controller/controller.h"
#include "pool/convert/convert.h"

namespace farcall::pool {

class OidcProvider;
struct LoginReview;
struct OidcOptions;
struct ProvenIdentity;

// Ok, or an error with the HTTP status it is.
struct Outcome {
  int http = 200;
  pb::Error error;
  bool ok() const { return http < 300; }
};

struct ServiceOptions {
  std::string pool;
  LeaseSecretKey key{};
  std::string join_token;         // lasts, and lets any number of hosts in; empty: there is none
  bool hosts_need_tokens = true;  // false: whoever comes is a host
  std::string grpc, data, rest, health;  // addresses, for /v1/pool and whoever asks at pool://
  int32_t max_queue_priority = 0;        // that a tenant may ask for
  Ms longest_wait = 60'000;  // a request waits no longer for a claim, whatever it asks for
};

//   Thread  any
class Service {
 public:
  Service(Controller* controller, ServiceOptions options);
  ~Service();
  void SetAddresses(std::string grpc, std::string data);
  void SetRest(std::string url);
  void SetHealth(std::string address);

  // Whoever calls these has asked May (pool/access/access.h) for the caller and the verb. Of claims
  // that a caller may not see it hears "not found", as if they did not exist.
  Outcome Request(const Caller& caller, const pb::ClaimRequest& request, pb::Claim* claim);
  Outcome Get(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim);
  Outcome List(const Caller& caller, const pb::ListClaimsRequest& request, pb::ClaimList* list);
  Outcome Update(const Caller& caller, const pb::ClaimChange& request, pb::Claim* claim);
  Outcome Release(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim);
  Outcome Renew(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim);
  Outcome Explain(const Caller& caller, const pb::ClaimName& name, pb::Explanation* told);
  Outcome Connect(const Caller& caller, const pb::ClaimName& name, pb::Connection* connection);
  Outcome Plan(const Caller& caller, const pb::ClaimRequest& request, pb::Explanation* told);
  // Gangs (service_gangs.cc): who may see its first member sees all.
  Outcome RequestGang(const Caller& caller, const pb::GangRequest& request, pb::Gang* gang);
  Outcome GetGang(const Caller& caller, const pb::GangName& name, pb::Gang* gang);
  Outcome ReleaseGang(const Caller& caller, const pb::GangName& name, pb::Gang* gang);
  Outcome PlanGang(const Caller& caller, const pb::GangRequest& request, pb::Explanation* told);
  Outcome ListHosts(const Caller& caller, pb::HostList* list);
  Outcome ListGpus(const Caller& caller, pb::GpuList* list);
  Outcome ChangeHost(const Caller& caller, const pb::HostName& name, SetHost::Verb verb,
                     pb::Host* host);
  // Instead of those that it has.
  Outcome SetLabels(const Caller& caller, const pb::HostLabels& request, pb::Host* host);
  Outcome Apply(const Caller& caller, const pb::Config& config, pb::ConfigDiff* diff);
  Outcome NewJoinToken(const Caller& caller, const pb::JoinTokenRequest& request,
                       pb::JoinToken* told);
  Outcome ListJoinTokens(const Caller& caller, const pb::ListJoinTokensRequest& request,
                         pb::JoinTokenList* list);
  Outcome RevokeJoinToken(const Caller& caller, const pb::JoinTokenName& name, pb::JoinToken* told);
  // Reservations (service_reservations.cc) are the operator's to make.
  Outcome CreateReservation(const Caller& caller, const pb::Reservation& given,
                            pb::Reservation* told);
  Outcome ListReservations(const Caller& caller, const pb::ListReservationsRequest& request,
                           pb::ReservationList* list);
  Outcome GetReservation(const Caller& caller, const pb::ReservationName& name,
                         pb::Reservation* told);
  Outcome DeleteReservation(const Caller& caller, const pb::ReservationName& name,
                            pb::Reservation* told);
  // Groups (service_groups.cc) are the operator's to change.
  Outcome ListGroups(const Caller& caller, const pb::ListGroupsRequest& request,
                     pb::GroupList* list);
  Outcome GetGroup(const Caller& caller, const pb::GroupName& name, pb::Group* group);
  Outcome ChangeGroup(const Caller& caller, const pb::Group& given, pb::Group* group);
  Outcome DeleteGroup(const Caller& caller, const pb::GroupName& name, pb::Group* group);
  // Users, roles and tokens: service_accounts.cc.
  Outcome AddUser(const Caller& caller, const pb::User& request, pb::User* user);
  Outcome RemoveUser(const Caller& caller, const pb::UserName& name, pb::User* user);
  Outcome ListUsers(const Caller& caller, const pb::ListUsersRequest& request, pb::UserList* list);
  Outcome GrantRole(const Caller& caller, const pb::RoleChange& request, pb::User* user);
  Outcome RevokeRole(const Caller& caller, const pb::RoleChange& request, pb::User* user);
  Outcome NewToken(const Caller& caller, const pb::TokenRequest& request, pb::Token* told);
  Outcome ListTokens(const Caller& caller, const pb::ListTokensRequest& request,
                     pb::TokenList* list);
  Outcome RevokeToken(const Caller& caller, const pb::TokenName& name, pb::Token* told);
  // Who logged in at the pool's OpenID provider gets a token (service_oidc.cc). Anybody's: what
  // counts is what the provider has signed.
  Outcome LogIn(const Caller& caller, const pb::OidcLogin& request, pb::Token* told);
  void SetProvider(const OidcOptions& options);  // before it is asked
  void SetReview(LoginReview review);            // likewise
  // Tells the audit of what was done or, with status 403, refused. `in`, `out`: may be nullptr.
  void Audit(const Caller& caller, const Rule& rule, const std::string& source,
             const google::protobuf::Message* in, const google::protobuf::Message* out, int status);
  // JSON: entries after that number, and the chain's ends.
  std::string ReadAudit(uint64_t after, uint32_t limit);
  Outcome ListAudit(const Caller& caller, const pb::AuditRequest& request, pb::AuditPage* page);
  Outcome WhoAmI(const Caller& caller, pb::Identity* identity);
  // Anybody's: who knows no join token is refused.
  Outcome Join(const Caller& caller, const pb::JoinRequest& request, pb::Joined* joined);
  // Whose agent it is that shows "Bearer CREDENTIAL"; "": whoever it says.   nullopt: nobody's
  std::optional<std::string> HostOf(std::string_view authorization) const;
  Outcome ListQueue(const Caller& caller, const pb::QueueRequest& request, pb::Queue* queue);
  // Projects (service_projects.cc) are the operator's to change.
  Outcome ListProjects(const Caller& caller, const pb::ListProjectsRequest& request,
                       pb::ProjectList* list);
  Outcome GetProject(const Caller& caller, const pb::ProjectName& name, pb::Project* project);
  Outcome ChangeProject(const Caller& caller, const pb::Project& given, pb::Project* project);
  Outcome DeleteProject(const Caller& caller, const pb::ProjectName& name, pb::Project* project);
  // For a what-if (pool/record/replay.h).
  Outcome GetSnapshot(const Caller& caller, pb::Snapshot* snapshot);
  Outcome GetInfo(const Caller& caller, pb::Info* info);
  // What a host has told of itself, and of all of them: without the operator's role, of each the
  // vGPUs of claims that the caller sees and nothing else.
  void NoteStatus(const std::string& host, control::v1::ServerStatus status);
  Outcome GetStatus(const Caller& caller, pb::PoolStatus* status);
  // Tells of all claims (or hosts), then of each change, until `tell` says false; of silence too,
  // by nullptr, so that it can look whether somebody still listens. Numbers: pool.proto's Change.
  enum class Watched { kClaims, kHosts };
  using Tell = std::function<bool(const pb::Change*)>;
  void Watch(const Caller& caller, Watched what, const pb::WatchRequest& request, const Tell& tell);
  // The addresses but pool://: REST's, gRPC's.
  std::vector<std::string> addresses() const;
  std::string Metrics();

  // The claim of a program that says HELLO; `run` names its farcall run.
  Outcome ClaimOfRun(const std::string& run, const std::string& owner, const Ask& ask,
                     std::string* id, const Caller& caller, const std::string& source);
  // For pool://, which has asked by MayConnect whose it is.
  // Whether a claim waits for what no GPU of the pool could hold, were all of it free.
  bool CouldNeverFit(const std::string& id);
  Outcome Explain(const pb::ClaimName& name, pb::Explanation* told) {
    return Explain({true, ""}, name, told);
  }
  bool MayConnect(const Caller& caller, const std::string& claim);
  // Endpoints and a lease of a claim that can be used.
  void Lead(const Controller::Seat& seat, pb::Connection* connection);
  Controller& controller() { return *controller_; }

 private:
  void KeepOwn(const Caller& caller, pb::PoolStatus* status);
  static void TellLeaving(const Caller& caller, const Core& core, Ms now, pb::PoolStatus* status);
  // Whether a caller may ask for that place in the queue.
  Outcome MayRank(const Caller& caller, int32_t queue_priority) const;
  // Whether a caller may have a claim in that project; one that names none gets its home.
  Outcome MayRequest(const Caller& caller, Ask* ask) const;
  // Whether a caller may do that to a claim; `by` is then for the core's event.
  Outcome MayTouch(const Caller& caller, const Rule& rule, const std::string& id,
                   std::optional<std::string>* by);
  Outcome SetRole(const Caller& caller, const pb::RoleChange& request, bool is_taken,
                  pb::User* user);
  Outcome ChangeUser(AccountEvent event, const std::string& name, pb::User* user);
  // With a new secret, which `told` then has.
  Outcome MakeToken(AccessToken token, bool is_machine, pb::Token* told);
  // Of who logged in at that issuer: the user and the roles that it then has.
  Outcome FindOrAdd(const ProvenIdentity& proven, const std::string& issuer,
                    const std::vector<RoleBinding>& roles, User* user);
  // Who shows that token. `source`: who has said so; nullptr: nobody could be asked.
  Result<ProvenIdentity> Prove(const std::string& token, int64_t now, const LoginReview** source);
  Outcome FillToken(const Caller& caller, const pb::TokenRequest& request, AccessToken* token,
                    bool* is_machine);
  // `members`: of a gang; 0: a claim alone. `id`: of the first.
  Outcome RequestFor(const Caller& caller, const pb::ClaimRequest& request, uint32_t members,
                     std::string* id);
  Outcome PlanFor(const Caller& caller, const pb::ClaimRequest& request, uint32_t members,
                  pb::Explanation* told);
  Outcome DescribeGang(const Caller& caller, const std::string& id, uint32_t port, pb::Gang* gang);
  Outcome Describe(const Caller& caller, const std::string& id, pb::Claim* claim);
  uint64_t TellAll(const Caller& caller, Watched what, const std::string& name, const Tell& tell,
                   bool* goes_on);

  Controller* const controller_;
  mutable std::mutex mutex_;  // of the rest
  ServiceOptions options_;
  struct HostWord {
    control::v1::ServerStatus status;
    std::chrono::steady_clock::time_point at;
  };
  std::map<std::string, HostWord> statuses_;
  std::unique_ptr<OidcProvider> provider_;             // nullptr: the pool has none
  std::unique_ptr<LoginReview> of_provider_, review_;  // nullptr: likewise
  Places waiters_{24, 8};  // threads of the addresses that wait for a claim
};

// Whom lists and the audit call so.
std::string NameOf(const Caller& caller);
// Of the core's refusal.
Outcome Of(const Refusal& refusal);
Outcome Failed(int http, std::string code, const std::string& message,
               const std::string& field = "", std::string hint = "");

}  // namespace farcall::pool
