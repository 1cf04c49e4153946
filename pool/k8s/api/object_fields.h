// SPDX-License-Identifier: Apache-2.0
// What all objects of the API server have, and their members, read without a throw.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "proto/status.h"

namespace farcall::k8s {

// Whether a text can be part of a path of the API: what Kubernetes allows as a name.
bool IsName(std::string_view text);

// The member that is an object; {}: it is absent or none.
const nlohmann::json& Member(const nlohmann::json& object, const char* name);
// The member's text; "": it is absent or no text.
std::string Text(const nlohmann::json& object, const char* name);
// The text at PART.NAME of an object, such as metadata.uid; "": there is none.
std::string TextAt(const nlohmann::json& object, const char* part, const char* name);
// 0: it is absent, negative or no integer.
int64_t Number(const nlohmann::json& object, const char* name);

struct ObjectMeta {
  std::string space;  // its namespace
  std::string name, uid, version;
  std::string created;  // as the API server writes it
  int64_t generation = 0;
  bool is_deleting = false;
  std::vector<std::string> finalizers;
};

// Of an object in a namespace; `kind` is for the message.
//   Errors  kMalformed (no object, or which field is missing or no name)
Result<ObjectMeta> ReadMeta(const nlohmann::json& object, const char* kind);

}  // namespace farcall::k8s
