// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/certificates.h"

#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include "transport/tls/openssl.h"

namespace farcall {

namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Memory = std::unique_ptr<BIO, Deleter<BIO_free>>;

constexpr long kEarlierSeconds = 300;  // clocks differ
constexpr long kDaySeconds = 86400;

Status Failed(const char* what) {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return {Code::kInternal, std::string("tls: OpenSSL cannot ") + what +
                               (reason == nullptr ? "" : std::string(": ") + reason)};
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long bytes = BIO_get_mem_data(bio, &data);
  return {data, static_cast<size_t>(bytes)};
}

Result<PemPair> ToPem(X509* certificate, EVP_PKEY* key) {
  Memory a(BIO_new(BIO_s_mem())), b(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(a.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(b.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return Failed("write a certificate");
  return PemPair{TextOf(a.get()), TextOf(b.get())};
}

bool SetSerial(X509* certificate) {
  BIGNUM* number = BN_new();
  const bool set = number != nullptr && BN_rand(number, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) &&
                   BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return set;
}

bool SetName(X509* certificate, const std::string& name) {
  return X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(name.data()),
                                    static_cast<int>(name.size()), -1, 0) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, int nid, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, nid, value.c_str());
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

Certificate NewCertificate(EVP_PKEY* key, const std::string& name, int days) {
  Certificate made(X509_new());
  if (made == nullptr || X509_set_version(made.get(), X509_VERSION_3) != 1 ||
      !SetSerial(made.get()) || !SetName(made.get(), name) ||
      X509_set_pubkey(made.get(), key) != 1 ||
      X509_gmtime_adj(X509_getm_notBefore(made.get()), -kEarlierSeconds) == nullptr ||
      X509_gmtime_adj(X509_getm_notAfter(made.get()), days * kDaySeconds) == nullptr)
    return nullptr;
  return made;
}

// Nothing that the text of an extension would read as something else.
bool IsPlain(const std::string& name) {
  return !name.empty() && name.size() <= 253 &&
         name.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
             ".-_:/*@%~+") == std::string::npos;
}

Result<std::string> NamesOf(const CertificateWish& wish) {
  std::string names;
  auto add = [&](const char* kind, const std::string& name) {
    if (!names.empty()) names += ',';
    names.append(kind).append(":").append(name);
  };
  for (const std::string& host : wish.hosts) {
    if (!IsPlain(host))
      return Status(Code::kInvalid, "\"" + host + "\" is no host: want a DNS name or an address");
    add(IsAddress(host) ? "IP" : "DNS", host);
  }
  for (const std::string& uri : wish.uris) {
    if (!IsPlain(uri) || uri.find(':') == std::string::npos)
      return Status(Code::kInvalid, "\"" + uri + "\" is no URI: want SCHEME:NAME");
    add("URI", uri);
  }
  return names;
}

struct Authority {
  Certificate certificate;
  Key key;
};

Result<Authority> ReadAuthority(const PemPair& pem) {
  Memory a(BIO_new_mem_buf(pem.certificate.data(), static_cast<int>(pem.certificate.size())));
  Memory b(BIO_new_mem_buf(pem.key.data(), static_cast<int>(pem.key.size())));
  Authority authority{Certificate(PEM_read_bio_X509(a.get(), nullptr, nullptr, nullptr)),
                      Key(PEM_read_bio_PrivateKey(b.get(), nullptr, nullptr, nullptr))};
  if (authority.certificate == nullptr || authority.key == nullptr ||
      X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
    ERR_clear_error();
    return Status(Code::kInvalid, "the authority's certificate and key cannot be read as PEM");
  }
  return authority;
}

}  // namespace

Result<PemPair> MakeAuthority(const std::string& name, int days) {
  Key key(EVP_EC_gen("P-256"));
  Certificate made = key == nullptr ? nullptr : NewCertificate(key.get(), name, days);
  X509* certificate = made.get();
  if (made == nullptr ||
      X509_set_issuer_name(certificate, X509_get_subject_name(certificate)) != 1 ||
      !AddExtension(certificate, certificate, NID_basic_constraints,
                    "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(certificate, certificate, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(certificate, certificate, NID_subject_key_identifier, "hash") ||
      X509_sign(certificate, key.get(), EVP_sha256()) == 0)
    return Failed("make an authority");
  return ToPem(certificate, key.get());
}

Result<PemPair> IssueCertificate(const PemPair& pem, const CertificateWish& wish) {
  Result<Authority> authority = ReadAuthority(pem);
  if (!authority.ok()) return authority.status();
  Result<std::string> names = NamesOf(wish);
  if (!names.ok()) return names.status();
  X509* issuer = authority->certificate.get();
  Key key(EVP_EC_gen("P-256"));
  Certificate made = key == nullptr ? nullptr : NewCertificate(key.get(), wish.name, wish.days);
  X509* certificate = made.get();
  if (made == nullptr || X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) != 1 ||
      !AddExtension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(certificate, issuer, NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(certificate, issuer, NID_ext_key_usage, "serverAuth,clientAuth") ||
      !AddExtension(certificate, issuer, NID_subject_key_identifier, "hash") ||
      !AddExtension(certificate, issuer, NID_authority_key_identifier, "keyid") ||
      (!names->empty() && !AddExtension(certificate, issuer, NID_subject_alt_name, *names)) ||
      X509_sign(certificate, authority->key.get(), EVP_sha256()) == 0)
    return Failed("issue a certificate");
  return ToPem(certificate, key.get());
}

}  // namespace farcall
