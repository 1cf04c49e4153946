// SPDX-License-Identifier: Apache-2.0
#include "pool/rest/rest_message.h"

#include <google/protobuf/util/json_util.h>
#include <httplib.h>

#include <charconv>
#include <string>

#include "proto/printable.h"

namespace farcall::pool {

namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A query's or header's value into the field of that name.
bool SetField(Message* message, const std::string& name, const std::string& value) {
  const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated()) return false;
  const google::protobuf::Reflection* reflection = message->GetReflection();
  auto number = [&](auto* into) {
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *into);
    return error == std::errc() && end == value.data() + value.size();
  };
  uint64_t u64 = 0;
  uint32_t u32 = 0;
  int64_t i64 = 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      if (!IsUtf8(value)) return false;  // protobuf could not read it back from the store
      reflection->SetString(message, field, value);
      return true;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!number(&u64)) return false;
      reflection->SetUInt64(message, field, u64);
      return true;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!number(&u32)) return false;
      reflection->SetUInt32(message, field, u32);
      return true;
    case FieldDescriptor::CPPTYPE_INT64:
      if (!number(&i64)) return false;
      reflection->SetInt64(message, field, i64);
      return true;
    default:
      return false;
  }
}

}  // namespace

Outcome ReadMessage(const httplib::Request& request, const char* name_field, Message* in) {
  if (!request.body.empty()) {
    if (!IsUtf8(request.body))
      return Failed(400, "invalid", "the body is no UTF-8", "body", "JSON is");
    auto parsed = google::protobuf::util::JsonStringToMessage(request.body, in);
    if (!parsed.ok())
      return Failed(400, "invalid", "the body: " + Printable(std::string(parsed.message()), 300),
                    "body", "its fields are those of /openapi.json");
  }
  // curl calls a body a form unless told otherwise, and then the library has put it there too.
  for (const auto& [name, value] : request.body.empty() ? request.params : httplib::Params())
    if (!SetField(in, name, value))
      return Failed(400, "invalid",
                    "query '" + Printable(name, 64) + "=" + Printable(value, 64) + "'", name,
                    "its names are those of /openapi.json");
  if (std::string match = request.get_header_value("If-Match"); !match.empty()) {
    std::erase(match, '"');
    if (!SetField(in, "if_revision", match))
      return Failed(400, "invalid", "If-Match '" + Printable(match, 64) + "': a revision",
                    "If-Match");
  }
  // Where a request knows none, the key says nothing.
  if (std::string key = request.get_header_value("Idempotency-Key"); !key.empty()) {
    if (!IsUtf8(key))
      return Failed(400, "invalid", "Idempotency-Key is no UTF-8", "Idempotency-Key");
    SetField(in, "idempotency_key", key);
  }
  if (name_field != nullptr) SetField(in, name_field, request.matches[1].str());
  return {};
}

}  // namespace farcall::pool
