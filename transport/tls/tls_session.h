// SPDX-License-Identifier: Apache-2.0
// The handshake of TLS 1.3 by OpenSSL, on both sides, up to the keys with which a TlsChannel
// carries on. OpenSSL sees no record of data.
#pragma once

#include <memory>
#include <string>

#include "transport/channel.h"
#include "transport/tls/tls_keys.h"

struct ssl_ctx_st;
struct ssl_st;

namespace farcall {

// PEM files; empty: none.
struct TlsFiles {
  std::string certificate;  // a chain, the own one first
  std::string key;
  std::string authorities;  // who may have signed the peer; a client without: the system's
  std::string revoked;      // a list of certificates: the peer's must not be on it
  bool given() const { return !certificate.empty() || !key.empty(); }
};

// What one side presents and believes. Immutable: files that changed make another one.
//   Thread  any
class TlsContext {
 public:
  enum class Side { kClient, kServer };
  // A server with `authorities` wants a certificate of each client.
  //   Errors  kInvalid, naming the file and what is wrong with it
  static Result<std::shared_ptr<TlsContext>> Make(Side side, const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  ssl_ctx_st* native() const { return context_; }
  Side side() const { return side_; }

 private:
  TlsContext(Side side, ssl_ctx_st* context) : side_(side), context_(context) {}
  const Side side_;
  ssl_ctx_st* const context_;
};

// One handshake over a channel that stays the caller's. It takes no byte more from it than its own
// records.
//   Thread  one at a time
class TlsHandshake {
 public:
  // `host`: of a client, whom the certificate must name: a DNS name or an address.
  TlsHandshake(std::shared_ptr<TlsContext> context, Channel& channel, const std::string& host = "");
  ~TlsHandshake();
  TlsHandshake(const TlsHandshake&) = delete;
  TlsHandshake& operator=(const TlsHandshake&) = delete;

  enum class Progress { kDone, kWantsRead, kWantsWrite };
  //   Errors  kRefused (one side does not accept the other; why), kMalformed (the peer does not
  //           speak TLS 1.3), kDisconnected, kInternal
  Result<Progress> Step();

  // After kDone.
  const TlsKeys& keys() const { return keys_; }
  // Of the peer's certificate (identity.h); empty: it has shown none, or one that names nobody.
  std::string PeerIdentity() const;

 private:
  friend void TakeTlsSecret(const ssl_st* ssl, const char* line);
  Status WhyNot();
  Result<bool> Send();
  Result<bool> ReceiveRecord();
  Result<Progress> Finish();

  std::shared_ptr<TlsContext> context_;
  Channel& channel_;
  ssl_st* ssl_ = nullptr;
  TlsKeys keys_;
  bool is_done_ = false;           // OpenSSL has nothing more to do; what it said may wait
  std::vector<std::byte> out_;     // that the socket has not taken
  std::vector<std::byte> record_;  // of the peer's, as it comes
  size_t taken_bytes_ = 0;         // of the peer's, in all
};

}  // namespace farcall
