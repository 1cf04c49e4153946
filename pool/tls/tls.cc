// SPDX-License-Identifier: Apache-2.0
#include "pool/tls/tls.h"

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <fstream>
#include <sstream>

#include "transport/tls/identity.h"

namespace farcall::pool {

namespace {

constexpr unsigned kLookAgainSeconds = 1;

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

using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;

Certificate ReadCertificate(BIO* from) {
  return {PEM_read_bio_X509(from, nullptr, nullptr, nullptr), &X509_free};
}

void FreeAll(STACK_OF(X509) * certificates) {
  sk_X509_pop_free(certificates, &X509_free);
}

}  // namespace

Status CheckTls(const TlsFiles& files) {
  if (!files.given() && (!files.authorities.empty() || !files.revoked.empty()))
    return {Code::kInvalid, "--tls-client-ca and --tls-crl need --tls-cert and --tls-key"};
  if (!files.given()) return {};
  if (files.certificate.empty() || files.key.empty())
    return {Code::kInvalid, "TLS takes both --tls-cert and --tls-key"};
  if (!files.revoked.empty() && files.authorities.empty())
    return {Code::kInvalid,
            "--tls-crl without --tls-client-ca: no certificate of a client is asked for"};
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                            &SSL_CTX_free);
  auto wrong = [](const std::string& what) { return Status(Code::kInvalid, what + Words()); };
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1)
    return wrong("--tls-cert '" + files.certificate + "': no certificate in PEM: ");
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1)
    return wrong("--tls-key '" + files.key + "': not this certificate's key in PEM: ");
  return TlsContext::Make(TlsContext::Side::kServer, files).status();
}

Result<std::shared_ptr<grpc::ServerCredentials>> ServerCredentials(const TlsFiles& files) {
  namespace tls = grpc::experimental;
  if (!files.given()) return grpc::InsecureServerCredentials();
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authorities, kLookAgainSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.authorities.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return tls::TlsServerCredentials(options);
}

Result<std::shared_ptr<grpc::ChannelCredentials>> ClientCredentials(bool is_tls,
                                                                    const TlsFiles& files) {
  if (!is_tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  for (const auto& [file, into] : {std::pair(&files.authorities, &options.pem_root_certs),
                                   {&files.certificate, &options.pem_cert_chain},
                                   {&files.key, &options.pem_private_key}}) {
    if (file->empty()) continue;
    Result<std::string> text = ReadPem(*file);
    if (!text.ok()) return text.status();
    *into = *text;
  }
  return grpc::SslCredentials(options);
}

ClientCertificates::ClientCertificates(const TlsFiles& files) : watch_(files) {}

Result<std::string> ClientCertificates::IdentityOf(const std::string& chain) {
  std::shared_ptr<TlsContext> context;
  {
    std::lock_guard lock(mutex_);
    if (watch_.HaveChanged() || context_ == nullptr) {
      Result<std::shared_ptr<TlsContext>> made =
          TlsContext::Make(TlsContext::Side::kServer, watch_.files());
      if (made.ok()) context_ = *made;
      if (context_ == nullptr) return made.status();
    }
    context = context_;
  }
  const Status refused(Code::kRefused, "the client's certificate is not accepted");
  std::unique_ptr<BIO, decltype(&BIO_free)> text(
      BIO_new_mem_buf(chain.data(), static_cast<int>(chain.size())), &BIO_free);
  Certificate own = ReadCertificate(text.get());
  std::unique_ptr<STACK_OF(X509), decltype(&FreeAll)> others(sk_X509_new_null(), &FreeAll);
  while (Certificate other = ReadCertificate(text.get()))
    sk_X509_push(others.get(), other.release());
  std::unique_ptr<X509_STORE_CTX, decltype(&X509_STORE_CTX_free)> judge(X509_STORE_CTX_new(),
                                                                        &X509_STORE_CTX_free);
  const bool is_believed =
      own != nullptr && judge != nullptr &&
      X509_STORE_CTX_init(judge.get(), SSL_CTX_get_cert_store(context->native()), own.get(),
                          others.get()) == 1 &&
      X509_STORE_CTX_set_purpose(judge.get(), X509_PURPOSE_SSL_CLIENT) == 1 &&
      X509_verify_cert(judge.get()) == 1;
  ERR_clear_error();
  if (!is_believed) return refused;
  std::string identity = CertificateIdentity(own.get());
  if (identity.empty()) return Status(Code::kRefused, "the client's certificate names nobody");
  return identity;
}

}  // namespace farcall::pool
