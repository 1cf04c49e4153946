// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/api/object_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "proto/printable.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxName = 253;  // Kubernetes' own

}  // namespace

bool IsName(std::string_view text) {
  auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kMaxName && text.front() != '.' &&
         std::all_of(text.begin(), text.end(), fits);
}

const Json& Member(const Json& object, const char* name) {
  static const Json none = Json::object();
  auto at = object.find(name);
  return at != object.end() && at->is_object() ? *at : none;
}

std::string Text(const Json& object, const char* name) {
  auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

std::string TextAt(const Json& object, const char* part, const char* name) {
  return Text(Member(object, part), name);
}

int64_t Number(const Json& object, const char* name) {
  auto at = object.find(name);
  if (at == object.end() || !at->is_number_integer()) return 0;
  return std::max<int64_t>(at->get<int64_t>(), 0);
}

Result<ObjectMeta> ReadMeta(const Json& object, const char* kind) {
  if (!object.is_object())
    return Status(Code::kMalformed, std::string("the API server's answer is no ") + kind);
  const Json& metadata = Member(object, "metadata");
  ObjectMeta meta;
  meta.space = Text(metadata, "namespace");
  meta.name = Text(metadata, "name");
  meta.uid = Text(metadata, "uid");
  meta.version = Text(metadata, "resourceVersion");
  meta.created = Text(metadata, "creationTimestamp");
  meta.generation = Number(metadata, "generation");
  meta.is_deleting = !Text(metadata, "deletionTimestamp").empty();
  if (auto at = metadata.find("finalizers"); at != metadata.end() && at->is_array())
    for (const Json& name : *at)
      if (name.is_string()) meta.finalizers.push_back(name.get<std::string>());
  for (const auto& [field, value] :
       {std::pair("namespace", &meta.space), {"name", &meta.name}, {"uid", &meta.uid}})
    if (!IsName(*value))
      return Status(Code::kMalformed, std::string("a ") + kind + " whose metadata." + field +
                                          " is " + Quoted(*value));
  return meta;
}

}  // namespace farcall::k8s
