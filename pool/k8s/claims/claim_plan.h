// SPDX-License-Identifier: Apache-2.0
// What the controller does next for one VGPUClaim. Pure: it looks at what the API server and the
// pool have told, and is asked again after each step, so that a controller that dies between two of
// them leaves nothing behind that the next one does not find.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "generated/proto/pool.pb.h"
#include "pool/k8s/claims/claim_object.h"

namespace farcall::k8s {

// A pod that names the claim and is not over.
struct PodUse {
  std::string name, uid, created;
  bool is_gated = false;  // it waits for its claims by kClaimGate
};

struct Situation {
  const ClaimObject* object = nullptr;
  const ClaimClass* of_class = nullptr;  // null: it names none, or one that is not there
  std::vector<PodUse> pods;
  std::optional<pool::v1::Claim> held;  // the pool's live claim of this object
  std::string why;                      // of a held claim that waits, by the pool's explain
};

struct Step {
  enum class What : uint8_t {
    kNothing,
    kAddFinalizer,   // before anything is requested
    kRequest,        // a claim of the pool, for binding number `status.bindings`
    kChange,         // the pool's claim, to what the spec says now
    kRelease,        // the pool's claim `claim`
    kDropFinalizer,  // the pool has nothing of it any more
    kReport,         // `status`
  } what = What::kNothing;
  ClaimStatus status;
  std::string claim;
};

// Whether a claim of the pool has its place; whether it is not over yet.
bool IsHeldState(const std::string& state);
bool IsLiveState(const std::string& state);

Step NextStep(const Situation& now);

}  // namespace farcall::k8s
