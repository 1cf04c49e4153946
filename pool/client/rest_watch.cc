// SPDX-License-Identifier: Apache-2.0
#include "pool/client/rest_watch.h"

#include <httplib.h>

#include <algorithm>

namespace farcall::pool {

namespace {

constexpr size_t kMaxEventBytes = 4 << 20;
constexpr size_t kMaxErrorBytes = 64 << 10;
constexpr time_t kSilenceSeconds = 20;  // the server says at least every 2 s that it is there

// One event's lines: "event: KIND", "id: N", "data: JSON". A comment alone is none.
bool Tell(const std::string& text,
          const std::function<bool(const std::string&, const std::string&)>& on_event) {
  std::string kind, data;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.rfind("event: ", 0) == 0) kind = line.substr(7);
    if (line.rfind("data: ", 0) == 0) data = line.substr(6);
    at = end + 1;
  }
  return kind.empty() || on_event(kind, data);
}

}  // namespace

Status RestWatch::Follow(
    const std::string& path,
    const std::function<bool(const std::string&, const std::string&)>& on_event) {
  FARCALL_TRY(CheckAddress(pool_));
  httplib::Client client(pool_.url, pool_.tls.certificate, pool_.tls.key);
  if (pool_.is_tls() && !pool_.tls.authorities.empty())
    client.set_ca_cert_path(pool_.tls.authorities);
  client.set_connection_timeout(5);
  client.set_read_timeout(kSilenceSeconds);
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return {};
    client_ = &client;
  }
  httplib::Headers headers;
  if (!pool_.token.empty()) headers.emplace("Authorization", "Bearer " + pool_.token);
  int status = 0;
  bool is_over = false;
  std::string rest;
  httplib::Result result = client.Get(
      path, headers,
      [&](const httplib::Response& response) {
        status = response.status;
        return true;
      },
      [&](const char* data, size_t size) {
        rest.append(data, size);
        if (status != 200) return rest.size() < kMaxErrorBytes;
        for (size_t end; (end = rest.find("\n\n")) != std::string::npos; rest.erase(0, end + 2))
          if (!Tell(rest.substr(0, end), on_event)) {
            is_over = true;
            return false;
          }
        return rest.size() < kMaxEventBytes;
      });
  {
    std::lock_guard lock(mutex_);
    client_ = nullptr;
    if (is_stopped_ || is_over) return {};
  }
  if (status != 0 && status != 200) return RefusalOf(pool_, status, rest);
  if (result) return {};
  return {Code::kUnavailable, "pool " + pool_.url + ": " + httplib::to_string(result.error())};
}

void RestWatch::Stop() {
  std::lock_guard lock(mutex_);
  is_stopped_ = true;
  if (client_ != nullptr) client_->stop();
}

}  // namespace farcall::pool
