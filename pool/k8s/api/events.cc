// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/api/events.h"

#include <openssl/sha.h>

#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "proto/printable.h"

namespace farcall::k8s {

namespace {

constexpr size_t kMaxPosted = 50'000;
constexpr size_t kMaxNameStart = 200;  // of 253
constexpr size_t kMaxText = 1000;      // the API's own is 1024

std::string NowText() {
  const time_t now = time(nullptr);
  tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

void Events::Tell(const EventOn& about, const char* type, const std::string& reason,
                  const std::string& message) {
  const std::string text = Printable(message, kMaxText);
  const std::string all = about.uid + "\n" + reason + "\n" + text;
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(all.data()), all.size(), digest);
  std::string name = about.name.substr(0, kMaxNameStart) + ".";
  for (int i = 0; i < 8; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof(byte), "%02x", digest[i]);
    name += byte;
  }
  if (posted_.size() >= kMaxPosted) posted_.clear();
  if (!posted_.insert(name).second) return;
  const std::string now = NowText();
  const nlohmann::json event = {{"apiVersion", "v1"},
                                {"kind", "Event"},
                                {"metadata", {{"name", name}, {"namespace", about.space}}},
                                {"involvedObject",
                                 {{"apiVersion", about.api_version},
                                  {"kind", about.kind},
                                  {"namespace", about.space},
                                  {"name", about.name},
                                  {"uid", about.uid}}},
                                {"type", type},
                                {"reason", reason},
                                {"message", text},
                                {"source", {{"component", "farcall"}}},
                                {"reportingComponent", "farcall.io/controller"},
                                {"firstTimestamp", now},
                                {"lastTimestamp", now},
                                {"count", 1}};
  ApiAnswer answer;
  const Status done = api_->Write("PATCH",
                                  "/api/v1/namespaces/" + about.space + "/events/" + name +
                                      "?fieldManager=farcall-controller&force=true",
                                  event, &answer, "application/apply-patch+yaml");
  if (!done.ok() && done.code() != Code::kRefused) posted_.erase(name);  // another time
}

}  // namespace farcall::k8s
