// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/identity.h"

#include <openssl/x509v3.h>

namespace farcall {

namespace {

std::string TextOf(const ASN1_STRING* text) {
  unsigned char* utf8 = nullptr;
  const int bytes = ASN1_STRING_to_UTF8(&utf8, text);
  std::string result(reinterpret_cast<const char*>(utf8),
                     bytes > 0 ? static_cast<size_t>(bytes) : 0);
  OPENSSL_free(utf8);
  return result;
}

std::string FirstUri(const X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string uri;
  for (int i = 0; names != nullptr && uri.empty() && i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_URI) uri = TextOf(name->d.uniformResourceIdentifier);
  }
  GENERAL_NAMES_free(names);
  return uri;
}

std::string CommonName(const X509* certificate) {
  const X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? std::string()
                : TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

}  // namespace

std::string CertificateIdentity(const X509* certificate) {
  std::string identity = FirstUri(certificate);
  if (identity.empty()) identity = CommonName(certificate);
  const bool is_whole =
      identity.size() <= kMaxIdentityBytes && identity.find('\0') == std::string::npos;
  return is_whole ? identity : std::string();
}

}  // namespace farcall
