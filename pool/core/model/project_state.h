// SPDX-License-Identifier: Apache-2.0
// A project, and what its claims come to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pool/core/model/project.h"
#include "pool/core/model/types.h"

namespace farcall::pool {

// Of a tenant's claims of one project, or of all claims of a project and of its children.
struct UseState {
  size_t pending = 0, held = 0;  // claims that wait, and that have a place
  Amounts used;
  double usage_ms = 0;  // as Standing has it, at the time `usage_at`
  Ms usage_at = 0;
};

struct TenantPart : UseState {
  bool is_idle() const { return pending == 0 && held == 0; }
};

struct ProjectState : UseState {
  Project project;
  ProjectState* parent = nullptr;
  std::vector<Amounts> of_models;             // [of project.models]
  std::map<std::string, TenantPart> tenants;  // of its own claims
  size_t claims() const { return pending + held; }
};

}  // namespace farcall::pool
