// SPDX-License-Identifier: Apache-2.0
#include "pool/k8s/process/serving_certificate.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "proto/log_line.h"
#include "transport/tls/certificates.h"

namespace farcall::k8s {

namespace {

using Json = nlohmann::json;

constexpr size_t kMaxPem = 64 << 10;
constexpr char kEnd[] = "-----END CERTIFICATE-----\n";

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate ReadCertificate(const std::string& pem) {
  std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  Certificate read(PEM_read_bio_X509(text.get(), nullptr, nullptr, nullptr), &X509_free);
  ERR_clear_error();
  return read;
}

std::string DataAt(const Json& secret, const char* name) {
  return FromBase64(TextAt(secret, "data", name));
}

}  // namespace

Status WriteOwnFile(const std::string& path, const std::string& text) {
  const std::string draft = path + ".new";
  unlink(draft.c_str());
  const int file = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool is_whole =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const std::string why = std::strerror(errno);
  if (file >= 0) close(file);
  if (!is_whole || rename(draft.c_str(), path.c_str()) != 0)
    return {Code::kUnavailable, "'" + path + "': " + why};
  return {};
}

std::string Base64(const std::string& bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

std::string FromBase64(const std::string& text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > kMaxPem * 2) return "";
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return "";
  bytes.resize(bytes.size() - static_cast<size_t>(std::count(text.end() - 2, text.end(), '=')));
  return bytes;
}

bool IsGoodFor(const std::string& certificate, const std::vector<std::string>& hosts, int days) {
  const Certificate read = ReadCertificate(certificate);
  int left_days = 0, left_seconds = 0;
  if (read == nullptr ||
      ASN1_TIME_diff(&left_days, &left_seconds, nullptr, X509_get0_notAfter(read.get())) != 1)
    return false;
  if (left_days * 3 <= days) return false;
  return std::all_of(hosts.begin(), hosts.end(), [&](const std::string& host) {
    return X509_check_ip_asc(read.get(), host.c_str(), 0) == 1 ||
           X509_check_host(read.get(), host.data(), host.size(), 0, nullptr) == 1;
  });
}

Status ServingCertificate::ReadSecret(Json* secret) {
  ApiAnswer answer;
  FARCALL_TRY(
      api_->Get("/api/v1/namespaces/" + place_.space + "/secrets/" + place_.secret, &answer));
  *secret = std::move(answer.body);
  return secret->is_object() ? Status() : Status(Code::kMalformed, "API server: a secret is none");
}

Status ServingCertificate::Renew(Json* secret) {
  Result<PemPair> authority = MakeAuthority(place_.secret, place_.days);
  if (!authority.ok()) return authority.status();
  Result<PemPair> made =
      IssueCertificate(*authority, {place_.hosts.front(), place_.hosts, {}, place_.days});
  if (!made.ok()) return made.status();
  // The authority before it: what other replicas still serve.
  std::string before = DataAt(*secret, "ca.crt");
  before = before.substr(
      0, before.find(kEnd) == std::string::npos ? 0 : before.find(kEnd) + sizeof(kEnd) - 1);
  Json changed = *secret;
  changed["data"] = {{"tls.crt", Base64(made->certificate)},
                     {"tls.key", Base64(made->key)},
                     {"ca.crt", Base64(authority->certificate + before)}};
  ApiAnswer answer;
  FARCALL_TRY(api_->Write("PUT", "/api/v1/namespaces/" + place_.space + "/secrets/" + place_.secret,
                          changed, &answer));
  LogLine(LogSeverity::kInfo, "k8s-webhook",
          "made a certificate for " + std::to_string(place_.days) + " days");
  *secret = std::move(answer.body);
  return {};
}

Status ServingCertificate::TellApiServer(const std::string& bundle) {
  const std::string& path = place_.trusted_by;
  ApiAnswer answer;
  FARCALL_TRY(api_->Get(path, &answer));
  const std::string wanted = Base64(bundle);
  Json patch = Json::array();
  auto trust = [&](const Json& object, const char* part, const std::string& at) {
    if (TextAt(object, part, "caBundle") != wanted)
      patch.push_back({{"op", "add"}, {"path", at + "/" + part + "/caBundle"}, {"value", wanted}});
  };
  auto webhooks = answer.body.find("webhooks");
  if (webhooks != answer.body.end() && webhooks->is_array())
    for (size_t i = 0; i < webhooks->size(); ++i)
      trust((*webhooks)[i], "clientConfig", "/webhooks/" + std::to_string(i));
  else if (Text(answer.body, "kind") == "APIService")
    trust(answer.body, "spec", "");
  if (patch.empty()) return {};
  // Of what was read: another's change in between is a conflict, and the next look sees it.
  const Json unchanged = {{"op", "test"},
                          {"path", "/metadata/resourceVersion"},
                          {"value", TextAt(answer.body, "metadata", "resourceVersion")}};
  patch.insert(patch.begin(), unchanged);
  return api_->Write("PATCH", path, patch, &answer, "application/json-patch+json");
}

Status ServingCertificate::Refresh() {
  Json secret;
  FARCALL_TRY(ReadSecret(&secret));
  if (!IsGoodFor(DataAt(secret, "tls.crt"), place_.hosts, place_.days) ||
      DataAt(secret, "tls.key").empty() || DataAt(secret, "ca.crt").empty())
    FARCALL_TRY(Renew(&secret));
  const std::string certificate = DataAt(secret, "tls.crt"), key = DataAt(secret, "tls.key");
  if (certificate.empty() || key.empty())
    return {Code::kMalformed, "API server: the secret does not hold what was written to it"};
  FARCALL_TRY(TellApiServer(DataAt(secret, "ca.crt")));
  if (certificate == served_) return {};
  FARCALL_TRY(WriteOwnFile(files().key, key));
  FARCALL_TRY(WriteOwnFile(files().certificate, certificate));
  served_ = certificate;
  return {};
}

}  // namespace farcall::k8s
