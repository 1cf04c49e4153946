// SPDX-License-Identifier: Apache-2.0
#include "pool/tls.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <fstream>
#include <sstream>

namespace farcall::pool {

namespace {

Result<std::string> ReadPem(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) return Status(Code::kInvalid, "'" + path + "': cannot be read");
  return text.str();
}

// OpenSSL's own words for what failed last.
std::string Words() {
  char text[256];
  ERR_error_string_n(ERR_get_error(), text, sizeof(text));
  ERR_clear_error();
  return text;
}

}  // namespace

Status CheckTls(const TlsFiles& files) {
  if (!files.given()) return {};
  if (files.certificate.empty() || files.key.empty())
    return {Code::kInvalid, "TLS takes both --tls-cert and --tls-key"};
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                            &SSL_CTX_free);
  auto wrong = [](const std::string& what) { return Status(Code::kInvalid, what + Words()); };
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return wrong("--tls-cert '" + files.certificate + "': no certificate in PEM: ");
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1)
    return wrong("--tls-key '" + files.key + "': not this certificate's key in PEM: ");
  return {};
}

Result<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files) {
  if (!files.given()) return grpc::InsecureServerCredentials();
  Result<std::string> certificate = ReadPem(files.certificate), key = ReadPem(files.key);
  for (const Status& read : {certificate.status(), key.status()})
    if (!read.ok()) return read;
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({*key, *certificate});
  return grpc::SslServerCredentials(options);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(bool is_tls,
                                                                    const std::string& ca_file) {
  if (!is_tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  if (!ca_file.empty()) {
    Result<std::string> authority = ReadPem(ca_file);
    if (!authority.ok()) return authority.status();
    options.pem_root_certs = *authority;
  }
  return grpc::SslCredentials(options);
}

}  // namespace farcall::pool
