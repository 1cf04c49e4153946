// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/api/api_client.h"

#include <httplib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pool/client/kept_clients.h"
#include "proto/printable.h"
#include "proto/text_file.h"
#include "transport/url.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxAnswerBytes = 64 << 20;
constexpr size_t kMaxEventBytes = 4 << 20;
constexpr size_t kMaxErrorBytes = 64 << 10;
constexpr size_t kMaxTokenBytes = 16 << 10;
constexpr time_t kPatienceSeconds = 10;
constexpr std::chrono::seconds kLongestIdle{25};  // an API server keeps connections for longer
constexpr time_t kWatchSeconds = 330;  // the server ends a watch after 300 (pod_watch.cc)

Status ReadToken(const std::string& path, std::string* token) {
  Result<std::string> text = ReadTextFile(path, kMaxTokenBytes);
  if (!text.ok())
    return {Code::kUnavailable, "API token '" + path + "': " + text.status().message()};
  *token = text->substr(0, text->find_first_of("\r\n"));
  return token->empty()
             ? Status(Code::kUnavailable, "API token '" + path + "': its first line is empty")
             : Status();
}

}  // namespace

std::string Reason(const ApiAnswer& answer) {
  std::string said;
  if (answer.body.is_object())
    if (auto at = answer.body.find("message"); at != answer.body.end() && at->is_string())
      said = Printable(at->get<std::string>(), kMaxMessageBytes);
  return said.empty() ? "HTTP " + std::to_string(answer.status) : said;
}

Result<std::unique_ptr<ApiClient>> ApiClient::Make(const ApiAddress& address) {
  Result<Url> url = ParseUrl(address.url);
  if (!url.ok()) return url.status();
  if (url->scheme != "https")
    return Status(Code::kInvalid, "API server '" + address.url + "': write https://host:port");
  Result<HostPort> where = ParseHostPort(*url);
  if (!where.ok()) return where.status();
  return std::unique_ptr<ApiClient>(new ApiClient(where->host, where->port, address));
}

class ApiClient::Connections final {
 public:
  Connections(const std::string& host, int port, const ApiAddress& address)
      : kept_(
            [&host, port, &address] {
              auto client = std::make_unique<httplib::SSLClient>(host, port);
              if (!address.ca.empty()) client->set_ca_cert_path(address.ca);
              client->set_connection_timeout(5);
              client->set_read_timeout(kPatienceSeconds);
              return client;
            },
            kLongestIdle) {}
  // The answer's body is `text`.
  httplib::Result Send(httplib::Request request, std::string* text) {
    request.content_receiver = [text](const char* data, size_t size, uint64_t, uint64_t) {
      if (text->size() + size > kMaxAnswerBytes) return false;
      text->append(data, size);
      return true;
    };
    return kept_.Send(
        [&](httplib::SSLClient& client) {
          text->clear();
          return client.send(request);
        },
        request.method != "POST");
  }

 private:
  pool::KeptClients<httplib::SSLClient> kept_;
};

ApiClient::ApiClient(std::string host, int port, ApiAddress address)
    : host_(std::move(host)),
      port_(port),
      address_(std::move(address)),
      connections_(std::make_unique<Connections>(host_, port_, address_)) {}

ApiClient::~ApiClient() = default;

Status ApiClient::Authorize(std::multimap<std::string, std::string>* headers) const {
  if (!address_.ca.empty() && access(address_.ca.c_str(), R_OK) != 0)
    return {Code::kUnavailable, "API server's CA '" + address_.ca + "': " + std::strerror(errno)};
  headers->emplace("Accept", "application/json");
  if (address_.token_file.empty()) return {};
  std::string token;
  FARCALL_TRY(ReadToken(address_.token_file, &token));
  headers->emplace("Authorization", "Bearer " + token);
  return {};
}

Status ApiClient::Parse(const std::string& body, ApiAnswer* answer) const {
  answer->body = Json::parse(body, nullptr, false);
  if (answer->status < 200 || answer->status > 299)
    return {Code::kRefused, "API server: " + Reason(*answer)};
  if (answer->body.is_discarded())
    return {Code::kMalformed, "API server " + address_.url + ": the answer is no JSON"};
  return {};
}

Status ApiClient::Ask(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& type, ApiAnswer* answer) {
  std::multimap<std::string, std::string> headers;
  FARCALL_TRY(Authorize(&headers));
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.headers = httplib::Headers(headers.begin(), headers.end());
  if (!type.empty()) request.headers.emplace("Content-Type", type);
  request.body = body;
  std::string text;
  answer->status = 0;
  httplib::Result result = connections_->Send(std::move(request), &text);
  if (!result && result.error() == httplib::Error::Canceled)
    return {Code::kMalformed, "API server " + address_.url + ": an answer of more than 64 MiB"};
  if (!result)
    return {Code::kUnavailable,
            "API server " + address_.url + ": " + httplib::to_string(result.error())};
  answer->status = result->status;
  return Parse(text, answer);
}

Status ApiClient::Write(const std::string& method, const std::string& path, const Json& body,
                        ApiAnswer* answer, const std::string& type) {
  // What others wrote may be no UTF-8, which no answer of theirs would be refused for.
  return Ask(method, path, body.dump(-1, ' ', false, Json::error_handler_t::replace), type, answer);
}

Status ApiClient::Get(const std::string& path, ApiAnswer* answer) {
  return Ask("GET", path, "", "", answer);
}

Status ApiClient::Follow(const std::string& path,
                         const std::function<bool(int, const char*, size_t)>& on_data,
                         int* status) {
  std::multimap<std::string, std::string> words;
  FARCALL_TRY(Authorize(&words));
  const httplib::Headers headers(words.begin(), words.end());
  httplib::SSLClient client(host_, port_);
  if (!address_.ca.empty()) client.set_ca_cert_path(address_.ca);
  client.set_connection_timeout(5);
  client.set_read_timeout(kWatchSeconds);
  {
    std::lock_guard lock(mutex_);
    if (is_stopped_) return {Code::kUnavailable, "stopped"};
    watching_ = &client;
  }
  *status = 0;
  httplib::Result result = client.Get(
      path, headers,
      [&](const httplib::Response& response) {
        *status = response.status;
        return true;
      },
      [&](const char* data, size_t size) { return on_data(*status, data, size); });
  {
    std::lock_guard lock(mutex_);
    watching_ = nullptr;
  }
  if (result) {
    *status = result->status;
    return {};
  }
  if (result.error() == httplib::Error::Canceled) return {Code::kTimeout, "stopped"};
  return {Code::kUnavailable,
          "API server " + address_.url + ": " + httplib::to_string(result.error())};
}

Status ApiClient::Watch(const std::string& path, const std::function<bool(const Json&)>& on_event,
                        ApiAnswer* answer) {
  std::string rest, error;
  Status wrong;
  Status sent = Follow(
      path,
      [&](int status, const char* data, size_t size) {
        if (status != 200) {
          error.append(data, std::min(size, kMaxErrorBytes - error.size()));
          return error.size() < kMaxErrorBytes;
        }
        rest.append(data, size);
        for (size_t end; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1)) {
          const Json event =
              Json::parse(rest.begin(), rest.begin() + static_cast<long>(end), nullptr, false);
          if (event.is_discarded() || !event.is_object()) {
            wrong = {Code::kMalformed, "API server: an event of a watch is no JSON"};
            return false;
          }
          if (!on_event(event)) return false;
        }
        if (rest.size() > kMaxEventBytes)
          wrong = {Code::kMalformed, "API server: an event of a watch has more than 4 MiB"};
        return rest.size() <= kMaxEventBytes;
      },
      &answer->status);
  if (!wrong.ok()) return wrong;
  if (answer->status != 0 && answer->status != 200) {
    answer->body = Json::parse(error, nullptr, false);
    return {Code::kRefused, "API server: " + Reason(*answer)};
  }
  return sent.code() == Code::kTimeout ? Status() : sent;
}

void ApiClient::Stop() {
  std::lock_guard lock(mutex_);
  is_stopped_ = true;
  if (watching_ != nullptr) watching_->stop();
}

}  // namespace farcall::k8s
