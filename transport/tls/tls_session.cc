// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/tls_session.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <string_view>

#include "transport/tls/identity.h"
#include "transport/tls/openssl.h"
#include "transport/tls/record_cipher.h"

namespace farcall {

void TakeTlsSecret(const SSL* ssl, const char* line);

namespace {

constexpr size_t kMaxHandshakeBytes = 256 << 10;  // with chains of certificates

std::string LastError() {
  const unsigned long code = ERR_peek_last_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "unknown error " + std::to_string(code);
}

Status BadFile(const char* what, const std::string& file) {
  const std::string why = LastError();
  ERR_clear_error();
  return {Code::kInvalid, std::string("tls: ") + what + " \"" + file + "\" cannot be used: " + why};
}

Status LoadOwn(SSL_CTX* context, const TlsFiles& files) {
  if (files.certificate.empty() && files.key.empty()) return {};
  if (files.certificate.empty() || files.key.empty())
    return {Code::kInvalid, "tls: a certificate and its key belong together, one is missing"};
  if (SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str()) != 1)
    return BadFile("certificate", files.certificate);
  if (SSL_CTX_use_PrivateKey_file(context, files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return BadFile("key", files.key);
  if (SSL_CTX_check_private_key(context) != 1) return BadFile("key", files.key);
  return {};
}

Status LoadRevoked(SSL_CTX* context, const std::string& file) {
  if (file.empty()) return {};
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  X509_LOOKUP* lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file());
  if (lookup == nullptr || X509_load_crl_file(lookup, file.c_str(), X509_FILETYPE_PEM) < 1)
    return BadFile("revocation list", file);
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
  return {};
}

Status LoadAuthorities(SSL_CTX* context, TlsContext::Side side, const std::string& file) {
  const bool is_client = side == TlsContext::Side::kClient;
  if (file.empty()) {
    if (is_client && SSL_CTX_set_default_verify_paths(context) != 1)
      return BadFile("system's certificates", "");
  } else if (SSL_CTX_load_verify_file(context, file.c_str()) != 1) {
    return BadFile("authorities", file);
  } else if (!is_client) {
    SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(file.c_str()));
  }
  if (is_client || !file.empty())
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return {};
}

void Expect(SSL* ssl, const std::string& host) {
  if (IsAddress(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl, host.c_str());
    SSL_set1_host(ssl, host.c_str());
  }
}

int DigitOf(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::vector<std::byte> FromHex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    const int high = DigitOf(text[i]), low = DigitOf(text[i + 1]);
    if (high < 0 || low < 0) return {};
    bytes.push_back(static_cast<std::byte>(high * 16 + low));
  }
  return bytes;
}

}  // namespace

Result<std::shared_ptr<TlsContext>> TlsContext::Make(Side side, const TlsFiles& files) {
  StartOpenSsl();
  ERR_clear_error();
  SSL_CTX* native = SSL_CTX_new(side == Side::kClient ? TLS_client_method() : TLS_server_method());
  if (native == nullptr) return Status(Code::kInternal, "tls: OpenSSL has no TLS: " + LastError());
  std::shared_ptr<TlsContext> context(new TlsContext(side, native));
  SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(native, TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(
      native, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_session_cache_mode(native, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(native, 0);
  SSL_CTX_set_max_early_data(native, 0);
  SSL_CTX_set_read_ahead(native, 0);  // the channel reads what follows the handshake
  SSL_CTX_set_keylog_callback(native, &TakeTlsSecret);
  FARCALL_TRY(LoadOwn(native, files));
  if (side == Side::kServer && files.certificate.empty())
    return Status(Code::kInvalid, "tls: a server needs a certificate and its key");
  FARCALL_TRY(LoadAuthorities(native, side, files.authorities));
  FARCALL_TRY(LoadRevoked(native, files.revoked));
  return context;
}

TlsContext::~TlsContext() {
  SSL_CTX_free(context_);
}

TlsHandshake::TlsHandshake(std::shared_ptr<TlsContext> context, Channel& channel,
                           const std::string& host)
    : context_(std::move(context)), channel_(channel), ssl_(SSL_new(context_->native())) {
  BIO* in = BIO_new(BIO_s_mem());
  BIO* out = BIO_new(BIO_s_mem());
  if (ssl_ == nullptr || in == nullptr || out == nullptr) {
    BIO_free(in);
    BIO_free(out);
    SSL_free(ssl_);
    ssl_ = nullptr;
    return;
  }
  BIO_set_mem_eof_return(in, -1);  // nothing yet, which is no end
  SSL_set_bio(ssl_, in, out);
  SSL_set_app_data(ssl_, this);
  if (context_->side() == TlsContext::Side::kClient) {
    Expect(ssl_, host);
    SSL_set_connect_state(ssl_);
  } else {
    SSL_set_accept_state(ssl_);
  }
}

TlsHandshake::~TlsHandshake() {
  SSL_free(ssl_);
  OPENSSL_cleanse(keys_.read.secret.data(), keys_.read.secret.size());
  OPENSSL_cleanse(keys_.write.secret.data(), keys_.write.secret.size());
}

// A line of NSS's key log: "LABEL client-random secret", the latter two in hex.
void TakeTlsSecret(const SSL* ssl, const char* line) {
  auto* self = static_cast<TlsHandshake*>(SSL_get_app_data(ssl));
  const std::string_view text = line;
  const size_t end = text.find(' '), last = text.rfind(' ');
  if (self == nullptr || end == last) return;
  const std::string_view label = text.substr(0, end);
  const bool of_client = label == "CLIENT_TRAFFIC_SECRET_0";
  if (!of_client && label != "SERVER_TRAFFIC_SECRET_0") return;
  const bool is_client = self->context_->side() == TlsContext::Side::kClient;
  TlsTraffic& traffic = of_client == is_client ? self->keys_.write : self->keys_.read;
  traffic.secret = FromHex(text.substr(last + 1));
}

// False: the socket is full.
Result<bool> TlsHandshake::Send() {
  char* data = nullptr;
  BIO* bio = SSL_get_wbio(ssl_);
  const long bytes = BIO_get_mem_data(bio, &data);
  if (bytes > 0) {
    const auto* begin = reinterpret_cast<const std::byte*>(data);
    out_.insert(out_.end(), begin, begin + bytes);
    (void)BIO_reset(bio);
  }
  while (!out_.empty()) {
    const std::span<const std::byte> rest = out_;
    Result<size_t> sent = channel_.TrySend({&rest, 1});
    if (!sent.ok()) return sent.status();
    if (*sent == 0) return false;
    out_.erase(out_.begin(), out_.begin() + static_cast<ptrdiff_t>(*sent));
  }
  return true;
}

// Gives OpenSSL the peer's next record. False: it is not all here.
Result<bool> TlsHandshake::ReceiveRecord() {
  for (;;) {
    const size_t bytes = record_.size() < kTlsHeaderBytes
                             ? 0
                             : kTlsHeaderBytes + (std::to_integer<size_t>(record_[3]) << 8 |
                                                  std::to_integer<size_t>(record_[4]));
    // All types of TLS's records, and its major version: a peer of another kind is told apart at
    // once.
    const bool is_tls = bytes == 0 || (record_[0] >= std::byte{20} && record_[0] <= std::byte{23} &&
                                       record_[1] == std::byte{3});
    if (!is_tls || bytes > kMaxTlsRecordBytes || taken_bytes_ > kMaxHandshakeBytes)
      return Status(Code::kMalformed, "tls: " + channel_.PeerName() + " speaks no TLS 1.3");
    if (bytes != 0 && record_.size() == bytes) {
      BIO_write(SSL_get_rbio(ssl_), record_.data(), static_cast<int>(bytes));
      record_.clear();
      return true;
    }
    const size_t had = record_.size(), wanted = bytes == 0 ? kTlsHeaderBytes : bytes;
    record_.resize(wanted);
    Result<size_t> got = channel_.TryReceive(std::span(record_).subspan(had));
    record_.resize(had + (got.ok() ? *got : 0));
    if (!got.ok()) {
      return Status(got.status().code(),
                    "tls: the peer ends the handshake: " + got.status().message());
    }
    if (*got == 0) return false;
    taken_bytes_ += *got;
  }
}

Result<TlsHandshake::Progress> TlsHandshake::Step() {
  if (ssl_ == nullptr) return Status(Code::kInternal, "tls: OpenSSL has no memory for a handshake");
  for (;;) {
    ERR_clear_error();
    const int result = is_done_ ? 1 : SSL_do_handshake(ssl_);
    is_done_ = result == 1;
    Result<bool> sent = Send();  // also the alert that says why it failed
    const int error = SSL_get_error(ssl_, result);
    if (!is_done_ && error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) return WhyNot();
    if (!sent.ok()) return sent.status();
    if (!*sent) return Progress::kWantsWrite;
    if (is_done_) return Finish();
    Result<bool> received = ReceiveRecord();
    if (!received.ok()) return received.status();
    if (!*received) return Progress::kWantsRead;
  }
}

Result<TlsHandshake::Progress> TlsHandshake::Finish() {
  const SSL_CIPHER* cipher = SSL_get_current_cipher(ssl_);
  const TlsSuite suite =
      cipher == nullptr ? TlsSuite{} : static_cast<TlsSuite>(SSL_CIPHER_get_protocol_id(cipher));
  keys_.read.suite = keys_.write.suite = suite;
  const size_t bytes = TlsSecretBytes(suite);
  if (bytes == 0 || keys_.read.secret.size() != bytes || keys_.write.secret.size() != bytes ||
      BIO_ctrl_pending(SSL_get_rbio(ssl_)) != 0)
    return Status(Code::kInternal, "tls: OpenSSL made no keys that can be used");
  return Progress::kDone;
}

Status TlsHandshake::WhyNot() {
  const long verified = SSL_get_verify_result(ssl_);
  const unsigned long code = ERR_peek_last_error();
  if (verified != X509_V_OK) {
    return {Code::kRefused, std::string("tls: the certificate of ") + channel_.PeerName() +
                                " is not accepted: " + X509_verify_cert_error_string(verified)};
  }
  // Alerts of the peer have reasons of their own.
  if (ERR_GET_REASON(code) >= SSL_AD_REASON_OFFSET)
    return {Code::kRefused, "tls: " + channel_.PeerName() + " refuses: " + LastError()};
  return {Code::kMalformed, "tls: " + channel_.PeerName() + " speaks no TLS 1.3: " + LastError()};
}

std::string TlsHandshake::PeerIdentity() const {
  const X509* certificate = SSL_get0_peer_certificate(ssl_);
  return certificate == nullptr ? std::string() : CertificateIdentity(certificate);
}

}  // namespace farcall
