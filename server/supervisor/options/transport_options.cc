// SPDX-License-Identifier: Apache-2.0
// The settings of transports: the socket of shm:// and whose it is to use, the files of tls://.
#include <pwd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "proto/printable.h"
#include "server/supervisor/options/serve_options.h"
#include "transport/tcp/tcp_channel.h"
#include "transport/verbs/verbs_choice.h"

namespace farcall::server {

namespace {

Result<uint32_t> UserNamed(const std::string& name) {
  uint32_t id = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error == std::errc() && end == name.data() + name.size()) return id;
  const passwd* user = name.empty() ? nullptr : getpwnam(name.c_str());
  if (user == nullptr) {
    return Status(Code::kInvalid, Quoted(name) +
                                      ": no such user on this machine; write names or ids, such "
                                      "as 1000,alice");
  }
  return user->pw_uid;
}

bool ListensOn(std::string_view scheme, const ServeOptions& options) {
  return std::any_of(options.listen.begin(), options.listen.end(),
                     [&](const std::string& url) { return url.rfind(scheme, 0) == 0; });
}

Status CheckTls(const ServeOptions& options) {
  const TlsFiles& tls = options.tls;
  const bool listens = ListensOn("tls://", options);
  if (listens && (tls.certificate.empty() || tls.key.empty())) {
    return {Code::kInvalid,
            "listen tls://: needs --tls-cert and --tls-key (`farcall cert issue` makes them)"};
  }
  if (!listens && !(tls.certificate + tls.key + tls.authorities + tls.revoked).empty()) {
    return {Code::kInvalid,
            "TLS files without a tls:// URL to listen on: give --listen tls://0.0.0.0:7717"};
  }
  if (!tls.revoked.empty() && tls.authorities.empty()) {
    return {Code::kInvalid,
            "--tls-crl without --tls-client-ca: no certificate of a client is asked for"};
  }
  return {};
}

}  // namespace

bool ServeOptions::OffersUcx() const {
  return ucx || ListensOn("ucx://", *this);
}

bool ServeOptions::OffersVerbs() const {
  return !verbs.empty() || ListensOn("verbs://", *this);
}

Status SetVerbs(const std::string& text, ServeOptions* options) {
  if (text == "off") {
    options->verbs.clear();
    return {};
  }
  const Status known = ParseVerbsChoice(text).status();
  if (text.empty() || !known.ok()) {
    return {Code::kInvalid,
            text.empty() ? "'': write off, auto, or DEVICE[:PORT[:GID]]" : known.message()};
  }
  options->verbs = text;
  return {};
}

// Whether a card can be used is a worker's to find out: its library is not loaded here. That the
// kernel has none at all is told at once.
Status CheckVerbs(const ServeOptions& options) {
  std::error_code error;  // without the folder no such module is loaded
  const std::filesystem::directory_iterator cards("/sys/class/infiniband", error);
  if (!options.OffersVerbs() || cards != std::filesystem::directory_iterator()) return {};
  return {Code::kInvalid,
          "--verbs: no RDMA device is here (/sys/class/infiniband is empty): load its driver, or "
          "serve without --verbs and verbs://"};
}

Status SetShm(const std::string& text, ServeOptions* options) {
  if (text != "off" && text != kShmAuto && (text.empty() || text[0] != '/'))
    return {Code::kInvalid, Quoted(text) + ": write off, auto, or the absolute path of a socket"};
  options->shm = text == "off" ? "" : text;
  return {};
}

Status SetCompression(std::string_view text, ServeOptions* options) {
  if (text != "auto" && text != "off")
    return {Code::kInvalid, Quoted(std::string(text)) + ": write auto or off"};
  options->compresses = text == "auto";
  return {};
}

Status SetShmUsers(std::string_view text, ServeOptions* options) {
  std::vector<uint32_t> users;
  for (;;) {
    const size_t comma = std::min(text.find(','), text.size());
    Result<uint32_t> user = UserNamed(std::string(text.substr(0, comma)));
    FARCALL_TRY(user.status());
    users.push_back(*user);
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  options->shm_users = std::move(users);
  return {};
}

Status CheckTransports(const ServeOptions& options) {
  if (!options.tcp_congestion.empty()) {
    if (Status known = CheckCongestionControl(options.tcp_congestion); !known.ok())
      return {known.code(), "tcp_congestion: " + known.message()};
  }
  if (!options.shm_users.empty() && options.shm.empty() && !ListensOn("shm://", options)) {
    return {Code::kInvalid,
            "--shm-users without a socket for shared memory: give --shm auto, or --shm PATH"};
  }
  FARCALL_TRY(CheckVerbs(options));
  return CheckTls(options);
}

}  // namespace farcall::server
