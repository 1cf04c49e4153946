// SPDX-License-Identifier: Apache-2.0
// The server's figures as Prometheus asks for them. Names and labels: docs/reference/control.md.
#pragma once

#include <prometheus/collectable.h>

#include <memory>
#include <vector>

#include "server/control_plane/supervisor_client.h"

namespace farcall::control_plane {

// What a status says, in families.
std::vector<prometheus::MetricFamily> FamiliesOf(const pb::ServerStatus& status);

class Metrics final : public prometheus::Collectable {
 public:
  explicit Metrics(SupervisorClient* supervisor) : supervisor_(supervisor) {}
  // Of now; `farcall_up` 0 alone if the supervisor does not answer.
  std::vector<prometheus::MetricFamily> Collect() const override;

 private:
  SupervisorClient* const supervisor_;
};

}  // namespace farcall::control_plane
