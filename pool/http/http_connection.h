// SPDX-License-Identifier: Apache-2.0
// One HTTP connection, plain or by TLS: its bytes, and where its request ends. It is read without
// waiting, until the request is whole; only answers wait for the peer.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "transport/channel.h"

namespace farcall::pool {

class HttpConnection {
 public:
  struct Bounds {
    size_t head_bytes = 16u << 10, body_bytes = 64u << 10;
  };
  // Takes the socket, which does not block. `tls`: of the port; nullptr: plain.
  HttpConnection(int fd, std::shared_ptr<SSL_CTX> tls);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int fd() const { return fd_; }
  const SSL* ssl() const { return ssl_.get(); }
  // What the peer holds of us, in bytes.
  size_t bytes() const;

  enum class State { kHead, kBody, kWhole, kGone };
  // Takes what has come. kGone: it has ended, or what it said is refused already.
  State Read(const Bounds& bounds);
  // Whether Read is to be called when the socket can be written.
  bool wants_write() const { return wants_write_; }

  // Of a whole request.
  std::string_view request() const { return std::string_view(in_).substr(0, total_); }
  // Sends all of it by then.
  bool Write(const char* bytes, size_t size, Clock::time_point deadline);
  bool IsThere() const;
  // The next request begins; how many there were.
  size_t Next();

 private:
  enum class Moved { kSome, kNone, kEnd };
  Moved ReadSome();
  Moved ReadTls(char* into, size_t size, size_t* got);
  State Frame(const Bounds& bounds);
  State Refuse(const char* status);

  const int fd_;
  const std::shared_ptr<SSL_CTX> tls_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, &SSL_free};  // from its first byte on
  bool wants_write_ = false;
  std::string in_;
  size_t head_ = 0, total_ = 0;  // where head and request end; 0: not known yet
  size_t served_ = 0;
};

}  // namespace farcall::pool
