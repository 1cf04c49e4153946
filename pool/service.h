// SPDX-License-Identifier: Apache-2.0
// What may be asked of the pool, behind each of its addresses: gRPC, REST and HELLO.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "pool/callers.h"
#include "pool/controller.h"
#include "pool/convert.h"
#include "pool/places.h"

namespace farcall::pool {

// Ok, or an error with the HTTP status it is.
struct Outcome {
  int http = 200;
  pb::Error error;
  bool ok() const { return http < 300; }
};

struct ServiceOptions {
  std::string pool;
  LeaseSecretKey key{};
  bool spread = false;
  std::string join_token;         // lasts, and lets any number of hosts in; empty: there is none
  bool hosts_need_tokens = true;  // false: whoever comes is a host
  std::string grpc, data, rest, health;  // addresses, for /v1/pool and whoever asks at pool://
  int32_t max_queue_priority = 0;        // that a tenant may ask for
  Ms longest_wait = 60'000;  // a request waits no longer for a claim, whatever it asks for
};

//   Thread  any
class Service {
 public:
  Service(Controller* controller, ServiceOptions options)
      : controller_(controller), options_(std::move(options)) {}
  void SetAddresses(std::string grpc, std::string data);
  void SetRest(std::string url);
  void SetHealth(std::string address);

  // For a tenant there are its own claims only: of others' it hears "not found", as if they did not
  // exist. Hosts and what runs on them are the operator's to change and to see.
  Outcome Request(const Caller& caller, const pb::ClaimRequest& request, pb::Claim* claim);
  Outcome Get(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim);
  Outcome List(const Caller& caller, const pb::ListClaimsRequest& request, pb::ClaimList* list);
  Outcome Update(const Caller& caller, const pb::ClaimChange& request, pb::Claim* claim);
  Outcome Release(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim);
  Outcome Renew(const Caller& caller, const pb::ClaimName& name, pb::Claim* claim);
  Outcome Explain(const Caller& caller, const pb::ClaimName& name, pb::Explanation* told);
  Outcome Connect(const Caller& caller, const pb::ClaimName& name, pb::Connection* connection);
  Outcome Plan(const Caller& caller, const pb::ClaimRequest& request, pb::Explanation* told);
  Outcome ListHosts(const Caller& caller, pb::HostList* list);
  Outcome ListGpus(const Caller& caller, pb::GpuList* list);
  Outcome ChangeHost(const Caller& caller, const pb::HostName& name, SetHost::Verb verb,
                     pb::Host* host);
  Outcome NewJoinToken(const Caller& caller, const pb::JoinTokenRequest& request,
                       pb::JoinToken* token);
  // Anybody's: who knows no join token is refused.
  Outcome Join(const Caller& caller, const pb::JoinRequest& request, pb::Joined* joined);
  // Whose agent it is that shows "Bearer CREDENTIAL"; "": whoever it says.   nullopt: nobody's
  std::optional<std::string> HostOf(std::string_view authorization) const;
  // Projects (service_projects.cc) are the operator's to change.
  Outcome ListProjects(const Caller& caller, const pb::ListProjectsRequest& request,
                       pb::ProjectList* list);
  Outcome GetProject(const Caller& caller, const pb::ProjectName& name, pb::Project* project);
  Outcome ChangeProject(const Caller& caller, const pb::Project& given, pb::Project* project);
  Outcome DeleteProject(const Caller& caller, const pb::ProjectName& name, pb::Project* project);
  Outcome GetInfo(const Caller& caller, pb::Info* info);
  // What a host has told of itself, and of all of them.
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
                     std::string* id, const Caller& caller);
  // For pool://, which has asked by MaySee whose it is.
  // Whether a claim waits for what no GPU of the pool could hold, were all of it free.
  bool CouldNeverFit(const std::string& id);
  Outcome Explain(const pb::ClaimName& name, pb::Explanation* told) {
    return Explain({true, ""}, name, told);
  }
  bool MaySee(const Caller& caller, const std::string& claim);
  // Endpoints and a lease of a claim that can be used.
  void Lead(const Controller::Seat& seat, pb::Connection* connection);
  Controller& controller() { return *controller_; }
  bool spread() const { return options_.spread; }

 private:
  // Whether a caller may ask for that place in the queue.
  Outcome MayRank(const Caller& caller, int32_t queue_priority) const;
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
  Places waiters_{24, 8};  // threads of the addresses that wait for a claim
};

// Of the core's refusal.
Outcome Of(const Refusal& refusal);
Outcome NotTheirs();  // only the operator may
Outcome Failed(int http, std::string code, std::string message, std::string field = "",
               std::string hint = "");

}  // namespace farcall::pool
