// SPDX-License-Identifier: Apache-2.0
#include "cli/pool/login/oidc_login.h"

#include <httplib.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "pool/oidc/provider.h"
#include "proto/handshake/crypto.h"
#include "proto/printable.h"

namespace farcall::cli {

namespace {

using Json = nlohmann::json;
using Form = httplib::Params;

constexpr int64_t kLongestS = 1800;  // that a person may take, whatever the provider says
constexpr std::chrono::minutes kPatience{10};

std::string TextAt(const Json& object, const char* name) {
  auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

int64_t NumberAt(const Json& object, const char* name, int64_t otherwise) {
  auto found = object.find(name);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

// A form to the provider; its answer, whatever the HTTP status.
Result<Json> Post(const std::string& url, const Form& form, const std::string& ca) {
  if (Status checked = pool::CheckIssuer(url); !checked.ok()) return checked;
  const size_t slash = url.find('/', url.find("://") + 3);
  httplib::Client client(url.substr(0, slash));
  if (!ca.empty()) client.set_ca_cert_path(ca);
  client.set_connection_timeout(10);
  client.set_read_timeout(30);
  httplib::Result result = client.Post(slash == std::string::npos ? "/" : url.substr(slash), form);
  if (!result) return Status(Code::kUnavailable, url + ": " + httplib::to_string(result.error()));
  Json answer = Json::parse(result->body, nullptr, false);
  if (!answer.is_object())
    return Status(Code::kMalformed,
                  url + ": HTTP " + std::to_string(result->status) + ", and no JSON object");
  return answer;
}

std::string Why(const Json& answer) {
  const std::string error = TextAt(answer, "error"), text = TextAt(answer, "error_description");
  return Printable(text.empty() ? error.empty() ? "it gives no token" : error : text, 200);
}

Result<std::string> TokenIn(const Json& answer) {
  std::string token = TextAt(answer, "id_token");
  if (token.empty()) return Status(Code::kRefused, "the provider refused: " + Why(answer));
  return token;
}

std::string Base64Url(std::span<const uint8_t> bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  text.resize(static_cast<size_t>(EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                                  bytes.data(), static_cast<int>(bytes.size()))));
  std::replace(text.begin(), text.end(), '+', '-');
  std::replace(text.begin(), text.end(), '/', '_');
  text.erase(std::find(text.begin(), text.end(), '='), text.end());
  return text;
}

std::string RandomText() {
  std::array<uint8_t, 32> bytes;
  RandomBytes(bytes);
  return Base64Url(bytes);
}

std::string Sha256(const std::string& text) {
  std::array<uint8_t, 32> hash;
  EVP_Digest(text.data(), text.size(), hash.data(), nullptr, EVP_sha256(), nullptr);
  return Base64Url(hash);
}

}  // namespace

Result<std::string> LogInByDevice(const OidcLoginAt& at) {
  Result<Json> found = pool::Discover(at.issuer, at.ca);
  if (!found.ok()) return found.status();
  const std::string begin = TextAt(*found, "device_authorization_endpoint");
  if (begin.empty())
    return Status(Code::kUnsupported,
                  at.issuer + " has no device flow; --browser logs in by a browser here");
  Result<Json> code =
      Post(begin, {{"client_id", at.client}, {"scope", "openid profile groups"}}, at.ca);
  if (!code.ok()) return code.status();
  const std::string device = TextAt(*code, "device_code");
  if (device.empty()) return Status(Code::kRefused, "the provider refused: " + Why(*code));
  const std::string whole = TextAt(*code, "verification_uri_complete");
  std::fprintf(stderr, "Open %s in a browser and enter the code %s\n",
               Printable(TextAt(*code, "verification_uri"), 300).c_str(),
               Printable(TextAt(*code, "user_code"), 64).c_str());
  if (!whole.empty()) std::fprintf(stderr, "or open %s\n", Printable(whole, 400).c_str());
  const int64_t left = std::clamp<int64_t>(NumberAt(*code, "expires_in", 600), 1, kLongestS);
  int64_t pause = std::clamp<int64_t>(NumberAt(*code, "interval", 5), 1, 60);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(left);
  while (std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::seconds(pause));
    Result<Json> answer = Post(TextAt(*found, "token_endpoint"),
                               {{"grant_type", "urn:ietf:params:oauth:grant-type:device_code"},
                                {"device_code", device},
                                {"client_id", at.client}},
                               at.ca);
    if (!answer.ok()) return answer.status();
    const std::string error = TextAt(*answer, "error");
    if (error == "slow_down") pause = std::min<int64_t>(pause + 5, 60);
    if (error != "authorization_pending" && error != "slow_down") return TokenIn(*answer);
  }
  return Status(Code::kTimeout, "nobody entered the code in time: log in again");
}

Result<std::string> LogInByBrowser(const OidcLoginAt& at) {
  Result<Json> found = pool::Discover(at.issuer, at.ca);
  if (!found.ok()) return found.status();
  const std::string state = RandomText(), verifier = RandomText();
  httplib::Server server;
  std::string code, refused;
  server.Get("/callback", [&](const httplib::Request& request, httplib::Response& response) {
    // Of another login, or of a page that the browser shows: nothing of this one's.
    if (request.get_param_value("state") != state) {
      response.status = 400;
      return response.set_content("This is not the login that farcall waits for.\n", "text/plain");
    }
    code = request.get_param_value("code");
    if (code.empty()) refused = Printable(request.get_param_value("error"), 200);
    response.set_content("You may close this page and go back to the terminal.\n", "text/plain");
    server.stop();
  });
  const int port = server.bind_to_any_port("127.0.0.1");
  if (port <= 0) return Status(Code::kUnavailable, "no port of 127.0.0.1 is free");
  const std::string back = "http://127.0.0.1:" + std::to_string(port) + "/callback";
  const Form query = {{"response_type", "code"},
                      {"client_id", at.client},
                      {"redirect_uri", back},
                      {"scope", "openid profile groups"},
                      {"state", state},
                      {"code_challenge", Sha256(verifier)},
                      {"code_challenge_method", "S256"}};
  std::string address = TextAt(*found, "authorization_endpoint");
  if (Status checked = pool::CheckIssuer(address); !checked.ok()) return checked;
  address += (address.find('?') == std::string::npos ? "?" : "&") +
             httplib::detail::params_to_query_str(query);
  std::fprintf(stderr, "Open this address in a browser on this machine:\n%s\n", address.c_str());
  std::atomic<bool> is_over{false};
  std::thread limit([&, until = std::chrono::steady_clock::now() + kPatience] {
    while (!is_over && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    server.stop();
  });
  server.listen_after_bind();
  is_over = true;
  limit.join();
  if (!refused.empty()) return Status(Code::kRefused, "the provider refused: " + refused);
  if (code.empty()) return Status(Code::kTimeout, "nobody logged in within 10 minutes");
  Result<Json> answer = Post(TextAt(*found, "token_endpoint"),
                             {{"grant_type", "authorization_code"},
                              {"code", code},
                              {"redirect_uri", back},
                              {"client_id", at.client},
                              {"code_verifier", verifier}},
                             at.ca);
  if (!answer.ok()) return answer.status();
  return TokenIn(*answer);
}

}  // namespace farcall::cli
