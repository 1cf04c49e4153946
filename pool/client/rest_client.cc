// SPDX-License-Identifier: Apache-2.0
#include "pool/client/rest_client.h"

#include <google/protobuf/util/json_util.h>
#include <httplib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "generated/proto/pool.pb.h"
#include "pool/client/kept_clients.h"

namespace farcall::pool {

std::string HostOf(const std::string& url) {
  size_t at = url.find("://");
  std::string rest = at == std::string::npos ? url : url.substr(at + 3);
  return rest.substr(0, rest.rfind(':'));
}

std::string PortOf(const std::string& address) {
  size_t colon = address.rfind(':');
  return colon == std::string::npos ? "" : address.substr(colon);
}

Status CheckAddress(const PoolAddress& pool) {
  const std::string& url = pool.url;
  if (url.compare(0, 7, "http://") != 0 && !pool.is_tls())
    return {Code::kInvalid, "pool '" + url +
                                "': write http://host:port or https://host:port, as farcall pool "
                                "serve's ready line has it"};
  for (const auto& [what, file] : {std::pair("CA file '", &pool.tls.authorities),
                                   {"certificate '", &pool.tls.certificate},
                                   {"key '", &pool.tls.key}})
    if (pool.is_tls() && !file->empty() && access(file->c_str(), R_OK) != 0)
      return {Code::kInvalid, what + *file + "': " + strerror(errno)};
  return {};
}

Status RefusalOf(const PoolAddress& pool, int status, const std::string& body) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a newer pool
  v1::Error error;
  if (!google::protobuf::util::JsonStringToMessage(body, &error, options).ok())
    return {Code::kRefused, "pool " + pool.url + ": HTTP " + std::to_string(status)};
  return {Code::kRefused,
          error.message() + (error.hint().empty() ? "" : " (" + error.hint() + ")")};
}

class RestClient::Connections final {
 public:
  explicit Connections(const PoolAddress& pool)
      : kept_([&pool] {
          auto client =
              std::make_unique<httplib::Client>(pool.url, pool.tls.certificate, pool.tls.key);
          if (pool.is_tls() && !pool.tls.authorities.empty())
            client->set_ca_cert_path(pool.tls.authorities);
          client->set_connection_timeout(5);
          client->set_read_timeout(pool.patience_s);
          return client;
        }) {}
  httplib::Result Send(const httplib::Request& request) {
    // A POST without a verb, as in `/v1/claims`, makes something.
    const bool makes = request.method == "POST" && request.path.find(':') == std::string::npos;
    return kept_.Send([&request](httplib::Client& client) { return client.send(request); }, !makes);
  }

 private:
  KeptClients<httplib::Client> kept_;
};

RestClient::RestClient(PoolAddress pool)
    : pool_(std::move(pool)), connections_(std::make_unique<Connections>(pool_)) {}

RestClient::~RestClient() = default;

Status RestClient::Call(const std::string& method, const std::string& path,
                        const google::protobuf::Message* in, google::protobuf::Message* out,
                        std::string* json) {
  FARCALL_TRY(CheckAddress(pool_));
  const std::string& url = pool_.url;
  const TlsFiles& tls = pool_.tls;
  httplib::Request request;
  request.method = method;
  request.path = path;
  if (!pool_.token.empty()) request.headers.emplace("Authorization", "Bearer " + pool_.token);
  if (in != nullptr) {
    (void)google::protobuf::util::MessageToJsonString(*in, &request.body);
    request.headers.emplace("Content-Type", "application/json");
  }
  httplib::Result result = connections_->Send(request);
  if (!result && result.error() == httplib::Error::SSLServerVerification)
    return {Code::kUnavailable, "pool " + url +
                                    ": its certificate is not believed; --ca names a file of those "
                                    "that are"};
  const bool was_cut =
      result.error() == httplib::Error::Read || result.error() == httplib::Error::Write;
  if (!result && was_cut && pool_.is_tls() && !tls.given())
    return {Code::kUnavailable, "pool " + url +
                                    ": it ends the connection; if it asks for certificates, --cert "
                                    "and --key name yours"};
  if (!result && result.error() == httplib::Error::Connection)
    return {Code::kUnavailable,
            "pool " + url + ": cannot connect (is `farcall pool serve` running there?)"};
  if (!result)
    return {Code::kUnavailable, "pool " + url + ": " + httplib::to_string(result.error())};
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a newer pool
  if (result->status >= 300) return RefusalOf(pool_, result->status, result->body);
  if (json != nullptr) *json = result->body;
  auto parsed = google::protobuf::util::JsonStringToMessage(result->body, out, options);
  return parsed.ok() ? Status() : Status(Code::kMalformed, "pool " + url + ": not a pool's answer");
}

Status RestCall(const PoolAddress& pool, const std::string& method, const std::string& path,
                const google::protobuf::Message* in, google::protobuf::Message* out,
                std::string* json) {
  return RestClient(pool).Call(method, path, in, out, json);
}

}  // namespace farcall::pool
