// SPDX-License-Identifier: Apache-2.0
// Threads of a server that may wait for something at once: so many in all, and of one tenant.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "pool/access/callers.h"

namespace farcall::pool {

//   Thread  any
class Places {
 public:
  Places(int most, int most_of_tenant) : most_(most), most_of_tenant_(most_of_tenant) {}

  bool Take(const Caller& caller) {
    std::lock_guard lock(mutex_);
    if (taken_ >= most_ || (!caller.is_operator && Of(caller.tenant) >= most_of_tenant_))
      return false;
    ++of_tenants_[caller.tenant];
    ++taken_;
    return true;
  }
  void Give(const Caller& caller) {
    std::lock_guard lock(mutex_);
    auto of = of_tenants_.find(caller.tenant);
    if (--of->second == 0) of_tenants_.erase(of);
    --taken_;
  }

 private:
  int Of(const std::string& tenant) const {
    auto of = of_tenants_.find(tenant);
    return of == of_tenants_.end() ? 0 : of->second;
  }

  const int most_, most_of_tenant_;
  std::mutex mutex_;
  std::map<std::string, int> of_tenants_;
  int taken_ = 0;
};

// One of them, if there is one, for as long as this exists.
class TakenPlace {
 public:
  TakenPlace(Places& places, const Caller& caller)
      : places_(places), caller_(caller), is_there_(places.Take(caller)) {}
  ~TakenPlace() {
    if (is_there_) places_.Give(caller_);
  }
  TakenPlace(const TakenPlace&) = delete;
  TakenPlace& operator=(const TakenPlace&) = delete;
  explicit operator bool() const { return is_there_; }

 private:
  Places& places_;
  const Caller caller_;
  const bool is_there_;
};

}  // namespace farcall::pool
