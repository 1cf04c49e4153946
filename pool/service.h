// SPDX-License-Identifier: Apache-2.0
// What may be asked of the pool, behind each of its doors: gRPC, REST and HELLO.
#pragma once

#include <string>

#include "pool/controller.h"
#include "pool/convert.h"

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
  std::string grpc, data;  // addresses, for /v1/pool
};

//   Thread  any
class Service {
 public:
  Service(Controller* controller, ServiceOptions options)
      : controller_(controller), options_(std::move(options)) {}
  void SetAddresses(std::string grpc, std::string data);

  Outcome Request(const pb::ClaimRequest& request, pb::Claim* claim);
  Outcome Get(const pb::ClaimName& name, pb::Claim* claim);
  Outcome List(const pb::ListClaimsRequest& request, pb::ClaimList* list);
  Outcome Release(const pb::ClaimName& name, pb::Claim* claim);
  Outcome Renew(const pb::ClaimName& name, pb::Claim* claim);
  Outcome Explain(const pb::ClaimName& name, pb::Explanation* told);
  Outcome Connect(const pb::ClaimName& name, pb::Connection* connection);
  Outcome Plan(const pb::ClaimRequest& request, pb::Explanation* told);
  Outcome ListHosts(pb::HostList* list);
  Outcome ListGpus(pb::GpuList* list);
  Outcome ChangeHost(const pb::HostName& name, SetHost::Verb verb, pb::Host* host);
  Outcome GetInfo(pb::Info* info);
  std::string Metrics();

  // The claim of a program that says HELLO; `run` names its farcall run.
  Outcome ClaimOfRun(const std::string& run, const std::string& owner, const Ask& ask,
                     std::string* id);
  // Endpoints and a lease of a claim that can be used.
  Outcome Lead(const Claim& claim, const Host& host, pb::Connection* connection);
  Controller& controller() { return *controller_; }
  bool spread() const { return options_.spread; }

 private:
  Outcome Told(const std::string& id, pb::Claim* claim);

  Controller* const controller_;
  ServiceOptions options_;
};

Outcome Failed(int http, std::string code, std::string message, std::string field = "",
               std::string hint = "");

}  // namespace farcall::pool
