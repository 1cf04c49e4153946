// SPDX-License-Identifier: Apache-2.0
// What goes into the pool's audit, and how it is read.
#include <google/protobuf/message.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "pool/service/service.h"
#include "pool/service/service_parts.h"
#include "proto/printable.h"

namespace farcall::pool {

namespace {

constexpr size_t kMaxDetail = 300;

int64_t UnixMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// The first of these fields that has something.
std::string NameIn(const google::protobuf::Message& message) {
  for (const char* name : {"id", "name", "claim", "user", "host"}) {
    const auto* field = message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->is_repeated() ||
        field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_STRING)
      continue;
    std::string text = message.GetReflection()->GetString(message, field);
    if (!text.empty()) return text;
  }
  return "";
}

}  // namespace

std::string NameOf(const Caller& caller) {
  if (!caller.user.empty()) return caller.user;
  if (!caller.claim.empty()) return "the token of claim " + caller.claim;
  return caller.is_operator ? "the operator" : caller.tenant;
}

void Service::Audit(const Caller& caller, const Rule& rule, const std::string& source,
                    const google::protobuf::Message* in, const google::protobuf::Message* out,
                    int status) {
  if (!IsAudited(rule) || (status >= 300 && status != 403)) return;
  AuditEntry entry;
  entry.time_ms = UnixMs();
  entry.actor = Printable(NameOf(caller));
  entry.token = caller.token;
  entry.source = Printable(source);
  entry.verb = rule.verb;
  entry.status = status;
  // What somebody logs in by is a secret: whose token came of it is told.
  if (rule.verb == "login") {
    if (out != nullptr && status < 300) entry.object = Printable(NameIn(*out), 128);
    entry.detail = entry.object.empty() ? "" : "a token of the provider's user";
  } else if (in != nullptr) {
    const bool is_made = out != nullptr && rule.verb == std::string_view("claims.request");
    entry.object = NameIn(is_made ? *out : *in);
    if (entry.object.empty() && out != nullptr) entry.object = NameIn(*out);
    entry.object = Printable(entry.object, 128);
    entry.detail = Printable(in->ShortDebugString(), kMaxDetail);
  }
  controller_->Audit(std::move(entry));
}

Outcome Service::ListAudit(const Caller&, const pb::AuditRequest& request, pb::AuditPage* told) {
  const Controller::AuditPage page =
      controller_->ReadAudit(request.after(), PageOf(request.limit()));
  auto point = [](const AuditPoint& at, pb::AuditPoint* to) {
    to->set_number(at.number);
    to->set_hash(at.hash);
  };
  point(page.before, told->mutable_before());
  point(page.newest, told->mutable_newest());
  for (const auto& [number, value] : page.entries) {
    pb::AuditRow* row = told->add_rows();
    row->set_row(number);
    row->set_entry(value);
  }
  return {};
}

std::string Service::ReadAudit(uint64_t after, uint32_t limit) {
  using Json = nlohmann::json;
  const Controller::AuditPage page = controller_->ReadAudit(after, PageOf(limit));
  auto point = [](const AuditPoint& at) { return Json{{"number", at.number}, {"hash", at.hash}}; };
  Json told = {
      {"before", point(page.before)}, {"newest", point(page.newest)}, {"entries", Json::array()}};
  for (const auto& [number, value] : page.entries) {
    Json entry = Json::parse(value, nullptr, false);
    // As the store has it: verify says what is wrong with it.
    told["entries"].push_back(
        {{"row", number}, {"entry", entry.is_discarded() ? Json() : std::move(entry)}});
  }
  return told.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace farcall::pool
