// SPDX-License-Identifier: Apache-2.0
// Effects of the core as a record holds them.
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "pool/convert/convert.h"
#include "pool/convert/convert_accounts.h"
#include "pool/record/record.h"

namespace farcall::pool {

namespace {

v1::RecordedAnswer ToProto(const Answer& answer, const std::string& host) {
  v1::RecordedAnswer told;
  told.set_host(host);
  told.set_incarnation(answer.incarnation);
  told.set_beat(answer.beat);
  told.set_number(answer.number);
  for (const Grant& grant : answer.grants) *told.add_grants() = pool::ToProto(grant);
  for (const auto& [claim, reason] : answer.ended) {
    told.add_ended()->set_claim(claim);
    told.mutable_ended()->rbegin()->set_reason(reason);
  }
  return told;
}

// Maps in the order of their keys.
std::string Bytes(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return bytes;
}

// What the store would get.
class Values {
 public:
  Values(const Core& core, Ms now, google::protobuf::RepeatedPtrField<v1::StoredValue>* out)
      : core_(core), now_(now), out_(out) {}

  void Claims(const std::set<std::string>& ids) {
    for (const std::string& id : ids) {
      const Claim* claim = core_.Find(id);
      Add("claim", id, claim == nullptr ? "" : Bytes(pool::ToProto(*claim, nullptr)));
    }
  }
  void Hosts(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      v1::Host host = pool::ToProto(core_.hosts().at(name), now_);
      host.set_credential_hash(core_.hosts().at(name).credential);
      Add("host", name, Bytes(host));
    }
  }
  void JoinTokens(const std::set<std::string>& hashes) {
    for (const std::string& hash : hashes) {
      auto token = core_.join_tokens().find(hash);
      const bool is_there = token != core_.join_tokens().end();
      Add("join_token", hash, is_there ? ToStored(hash, token->second).SerializeAsString() : "");
    }
  }
  void Projects(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      const ProjectState* state = core_.FindProject(name);
      Add("project", name, state == nullptr ? "" : Bytes(ToStored(*state)));
    }
  }
  void Reservations(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      auto found = core_.reservations().find(name);
      const bool is_there = found != core_.reservations().end();
      Add("reservation", name, is_there ? Bytes(pool::ToProto(found->second)) : "");
    }
  }
  void Groups(const std::set<std::string>& names) {
    for (const std::string& name : names) {
      const GroupState* state = core_.FindGroup(name);
      Add("pool_group", name, state == nullptr ? "" : Bytes(pool::ToProto(state->group)));
    }
  }
  void Accounts(const AccountChanges& changes) {
    for (const std::string& name : changes.users) {
      const User* user = core_.accounts().FindUser(name);
      Add("user", name, user == nullptr ? "" : ToStored(*user));
    }
    for (const std::string& id : changes.tokens) {
      const AccessToken* token = core_.accounts().FindToken(id);
      Add("token", id, token == nullptr ? "" : ToStored(*token));
    }
  }

 private:
  void Add(const char* table, const std::string& key, std::string value) {
    v1::StoredValue* one = out_->Add();
    one->set_table(table);
    one->set_key(key);
    one->set_value(std::move(value));
  }
  const Core& core_;
  const Ms now_;
  google::protobuf::RepeatedPtrField<v1::StoredValue>* const out_;
};

}  // namespace

std::string RecordedBytes(const Effects& effects, const Core& core, Ms now) {
  v1::RecordedEffects told;
  Values written(core, now, told.mutable_written());
  written.Claims(effects.claims);
  written.Hosts(effects.hosts);
  written.JoinTokens(effects.join_tokens);
  written.Projects(effects.projects);
  written.Reservations(effects.reservations);
  written.Groups(effects.groups);
  written.Accounts(effects.accounts);
  Values(core, now, told.mutable_noticed()).Claims(effects.notified_claims);
  for (const auto& [id, tenant] : effects.erased_claims) told.add_erased_claims(id);
  for (const std::string& id : effects.shown_claims) told.add_shown_claims(id);
  for (const std::string& name : effects.shown_hosts) told.add_shown_hosts(name);
  if (effects.answer) *told.mutable_answer() = ToProto(*effects.answer, "");
  for (const auto& [host, push] : effects.pushes) *told.add_pushes() = ToProto(push, host);
  told.set_claim(effects.claim);
  told.set_quota_revision(effects.quota_revision);
  if (effects.refusal) {
    told.set_refused(static_cast<uint32_t>(effects.refusal->code));
    told.mutable_refusal()->set_message(effects.refusal->message);
    told.mutable_refusal()->set_field(effects.refusal->field);
    told.mutable_refusal()->set_hint(effects.refusal->hint);
  }
  for (const LogEntry& entry : effects.log_entries) {
    v1::LogLine* line = told.add_log();
    line->set_kind(entry.kind);
    line->set_claim(entry.claim);
    line->set_host(entry.host);
    line->set_text(entry.text);
    line->set_tenant(entry.tenant);
  }
  for (const ConfigChange& change : effects.config) *told.add_config() = ToProto(change);
  return Bytes(told);
}

}  // namespace farcall::pool
