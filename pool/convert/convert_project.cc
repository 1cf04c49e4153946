// SPDX-License-Identifier: Apache-2.0
// Projects, between the core's words and pool.proto's.
#include <algorithm>

#include "pool/convert/convert.h"

namespace farcall::pool {

namespace {

Bounds FromProto(const pb::ResourceBounds& given) {
  Bounds bounds;
  if (given.has_memory_bytes()) bounds.memory_bytes = given.memory_bytes();
  if (given.has_share_milli()) bounds.share_milli = given.share_milli();
  if (given.has_gpus()) bounds.gpus = given.gpus();
  return bounds;
}

pb::ResourceBounds ToProto(const Bounds& bounds) {
  pb::ResourceBounds told;
  if (bounds.memory_bytes) told.set_memory_bytes(*bounds.memory_bytes);
  if (bounds.share_milli) told.set_share_milli(*bounds.share_milli);
  if (bounds.gpus) told.set_gpus(*bounds.gpus);
  return told;
}

}  // namespace

pb::ConfigChange ToProto(const ConfigChange& change) {
  pb::ConfigChange told;
  told.set_kind(change.kind);
  told.set_name(change.name);
  told.set_action(change.action);
  for (const ConfigChange::Field& field : change.fields) {
    pb::ConfigField* one = told.add_fields();
    one->set_name(field.name);
    one->set_before(field.before);
    one->set_after(field.after);
  }
  return told;
}

Project FromProto(const pb::Project& given) {
  Project project;
  project.name = given.name();
  project.revision = given.revision();
  if (given.weight() != 0) project.weight = given.weight();
  if (given.has_over_quota_weight()) project.over_quota_weight = given.over_quota_weight();
  project.deserved = FromProto(given.deserved());
  project.limit = FromProto(given.limit());
  for (const pb::ModelBounds& one : given.models())
    project.models.push_back({one.model(), FromProto(one.deserved()), FromProto(one.limit())});
  project.max_pending = given.max_pending();
  project.max_claims = given.max_claims();
  project.tenant_max_pending = given.tenant_max_pending();
  project.tenant_max_claims = given.tenant_max_claims();
  project.usage_ms = std::max(0.0, given.usage_ms());
  for (const auto& [tenant, usage_ms] : given.tenant_usage_ms())
    project.tenant_usage_ms[tenant] = std::max(0.0, usage_ms);
  return project;
}

pb::Project ToProto(const Project& project) {
  pb::Project told;
  told.set_name(project.name);
  told.set_revision(project.revision);
  told.set_weight(project.weight);
  if (project.over_quota_weight) told.set_over_quota_weight(*project.over_quota_weight);
  if (!project.deserved.is_empty()) *told.mutable_deserved() = ToProto(project.deserved);
  if (!project.limit.is_empty()) *told.mutable_limit() = ToProto(project.limit);
  for (const ModelBounds& bounds : project.models) {
    pb::ModelBounds* one = told.add_models();
    one->set_model(bounds.model);
    if (!bounds.deserved.is_empty()) *one->mutable_deserved() = ToProto(bounds.deserved);
    if (!bounds.limit.is_empty()) *one->mutable_limit() = ToProto(bounds.limit);
  }
  told.set_max_pending(project.max_pending);
  told.set_max_claims(project.max_claims);
  told.set_tenant_max_pending(project.tenant_max_pending);
  told.set_tenant_max_claims(project.tenant_max_claims);
  return told;
}

pb::Project ToStored(const ProjectState& state) {
  pb::Project stored = ToProto(state);
  for (const auto& [tenant, part] : state.tenants)
    if (part.usage_ms != 0) (*stored.mutable_tenant_usage_ms())[tenant] = part.usage_ms;
  return stored;
}

pb::Project ToProto(const ProjectState& state) {
  pb::Project told = ToProto(state.project);
  told.set_pending(static_cast<uint32_t>(state.pending));
  told.set_claims(static_cast<uint32_t>(state.held));
  told.set_usage_ms(state.usage_ms);
  pb::ResourceUse* used = told.mutable_used();
  used->set_memory_bytes(state.used.memory_bytes);
  used->set_share_milli(state.used.share_milli);
  used->set_gpus(state.used.gpus);
  used->set_device_milli(state.used.device_milli);
  return told;
}

}  // namespace farcall::pool
