// SPDX-License-Identifier: Apache-2.0
// A pool for fuzz targets: a controller with its store, an operator, two tenants with claims, and
// two hosts that do what they are told. What must hold of it after every request is checked here.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pool/service/service.h"

namespace farcall::fuzz {

// Tokens, as bytes of an input may spell them.
inline constexpr char kOperatorToken[] = "token-of-operator";
inline constexpr char kTokenA[] = "token-of-tenant-a";
inline constexpr char kTokenB[] = "token-of-tenant-b";

class PoolWorld {
 public:
  PoolWorld();
  ~PoolWorld();  // also what is stored must be what was known
  PoolWorld(const PoolWorld&) = delete;
  PoolWorld& operator=(const PoolWorld&) = delete;

  pool::Service& service() { return *service_; }
  static const pool::Callers& callers();
  static pool::Caller tenant_a();
  static pool::Caller tenant_b();

  // The hosts report what they were granted, and take what they are granted for it.
  void Beat();
  // "c-0000000000000001" and so on in `bytes` become the ids of the claims in the order in which
  // they were made: of tenant a (held), b (held), b (waits for ever), a (waits);
  // "g-0000000000000005" that of the gang whose member is the fifth.
  std::string WithClaims(std::string bytes);
  // Text that is in tenant b's claims alone.
  const std::string& secret() const { return secret_; }

  // Aborts if something is broken. `a_alone`: nobody but tenant a, or no one, has asked for
  // anything since the last call.
  void Check(bool a_alone);

 private:
  void Request(const pool::Caller& caller, uint64_t memory_bytes, const std::string& owner);
  void CheckStore(size_t claims);

  std::unique_ptr<pool::Controller> controller_;
  std::unique_ptr<pool::Service> service_;
  std::vector<pool::HostReport> hosts_;
  std::map<std::string, uint64_t> placed_;       // claims and the epochs that were looked at
  std::map<std::string, std::string> claims_b_;  // as they were
  std::string secret_;
};

// Says what is wrong and aborts.
[[noreturn]] void Fail(const std::string& what);

}  // namespace farcall::fuzz
