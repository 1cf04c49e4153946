// SPDX-License-Identifier: Apache-2.0
#include "pool/http/http_connection.h"

#include <openssl/err.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

namespace farcall::pool {

namespace {

constexpr size_t kReadBytes = 16u << 10;
constexpr size_t kTlsBytes = 28u << 10;  // what OpenSSL holds of a connection, about
constexpr std::string_view kHeadEnd = "\r\n\r\n";

// A field of the head; nullopt: it is not there. `*count`: how often it is.
std::optional<std::string_view> Field(std::string_view head, std::string_view name, int* count) {
  std::optional<std::string_view> found;
  for (size_t line = head.find("\r\n"); line != head.npos; line = head.find("\r\n", line)) {
    line += 2;
    std::string_view text = head.substr(line, head.find("\r\n", line) - line);
    if (text.size() <= name.size() || text[name.size()] != ':' ||
        strncasecmp(text.data(), name.data(), name.size()) != 0)
      continue;
    text.remove_prefix(name.size() + 1);
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
    found = text;
    ++*count;
  }
  return found;
}

// Bodies are JSON, whatever a client calls them: `curl -d` calls all of them a form. The library
// would take a form apart, and none of more than 8 KiB, so it does not see the word.
//   Returns  false: it is a body of several parts, or of two types
bool CallBodyJson(std::string_view head, std::string* in) {
  constexpr std::string_view kJson = "application/json", kParts = "multipart/",
                             kForm = "application/x-www-form-urlencoded";
  static_assert(kForm.size() >= kJson.size());
  int types = 0;
  const std::optional<std::string_view> type = Field(head, "Content-Type", &types);
  if (types == 0) return true;
  if (types > 1 || strncasecmp(type->data(), kParts.data(), kParts.size()) == 0) return false;
  if (strncasecmp(type->data(), kForm.data(), kForm.size()) != 0) return true;
  const size_t at = static_cast<size_t>(type->data() - head.data());
  in->replace(at, kForm.size(), std::string(kJson) + std::string(kForm.size() - kJson.size(), ' '));
  return true;
}

bool Wait(int fd, short what, Clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  pollfd ready{fd, what, 0};
  return left.count() > 0 && poll(&ready, 1, static_cast<int>(left.count())) > 0;
}

}  // namespace

HttpConnection::HttpConnection(int fd, std::shared_ptr<SSL_CTX> tls)
    : fd_(fd), tls_(std::move(tls)) {}

HttpConnection::~HttpConnection() {
  if (ssl_ != nullptr) SSL_shutdown(ssl_.get());
  ERR_clear_error();
  ssl_.reset();
  close(fd_);
}

size_t HttpConnection::bytes() const {
  return sizeof(*this) + in_.capacity() + (ssl_ != nullptr ? kTlsBytes : 0);
}

HttpConnection::Moved HttpConnection::ReadTls(char* into, size_t size, size_t* got) {
  ERR_clear_error();
  if (ssl_ == nullptr) {
    ssl_.reset(SSL_new(tls_.get()));
    if (ssl_ == nullptr || SSL_set_fd(ssl_.get(), fd_) != 1) return Moved::kEnd;
    SSL_set_accept_state(ssl_.get());
  }
  wants_write_ = false;
  int result = SSL_read_ex(ssl_.get(), into, size, got);
  if (result == 1) return Moved::kSome;
  int error = SSL_get_error(ssl_.get(), result);
  wants_write_ = error == SSL_ERROR_WANT_WRITE;
  return wants_write_ || error == SSL_ERROR_WANT_READ ? Moved::kNone : Moved::kEnd;
}

HttpConnection::Moved HttpConnection::ReadSome() {
  char bytes[kReadBytes];
  size_t got = 0;
  if (tls_ != nullptr) {
    Moved moved = ReadTls(bytes, sizeof(bytes), &got);
    if (moved == Moved::kSome) in_.append(bytes, got);
    return moved;
  }
  ssize_t read = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (read < 0) return errno == EAGAIN || errno == EINTR ? Moved::kNone : Moved::kEnd;
  if (read == 0) return Moved::kEnd;
  in_.append(bytes, static_cast<size_t>(read));
  return Moved::kSome;
}

HttpConnection::State HttpConnection::Read(const Bounds& bounds) {
  while (true) {
    State state = Frame(bounds);
    if (state == State::kWhole || state == State::kGone) return state;
    Moved moved = ReadSome();
    if (moved == Moved::kNone) return state;
    if (moved == Moved::kEnd) return State::kGone;
  }
}

// What is not taken is refused here: a worker never waits for the rest of a request.
HttpConnection::State HttpConnection::Frame(const Bounds& bounds) {
  if (total_ == 0) {
    head_ = in_.find(kHeadEnd);
    if (head_ == in_.npos) {
      head_ = 0;
      return in_.size() > bounds.head_bytes ? Refuse("431 Request Header Fields Too Large")
                                            : State::kHead;
    }
    head_ += kHeadEnd.size();
    if (head_ > bounds.head_bytes) return Refuse("431 Request Header Fields Too Large");
    std::string_view head = std::string_view(in_).substr(0, head_);
    int lengths = 0, encodings = 0, expects = 0;
    std::optional<std::string_view> length = Field(head, "Content-Length", &lengths);
    if (Field(head, "Transfer-Encoding", &encodings)) return Refuse("411 Length Required");
    // The library would unpack a body without a bound, before anybody has shown a token.
    if (Field(head, "Content-Encoding", &encodings)) return Refuse("415 Unsupported Media Type");
    // It would send an answer once for each range: a head has room for thousands.
    if (Field(head, "Range", &encodings)) return Refuse("416 Range Not Satisfiable");
    size_t body = 0;
    if (length) {
      auto [end, error] = std::from_chars(length->data(), length->data() + length->size(), body);
      if (lengths != 1 || error != std::errc() || end != length->data() + length->size())
        return Refuse("400 Bad Request");
    }
    if (body > bounds.body_bytes) return Refuse("413 Payload Too Large");
    if (!CallBodyJson(head, &in_)) return Refuse("415 Unsupported Media Type");
    total_ = head_ + body;
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    if (total_ > in_.size() && Field(head, "Expect", &expects))
      (void)Write(kContinue.data(), kContinue.size(), Clock::now());
  }
  return in_.size() >= total_ ? State::kWhole : State::kBody;
}

HttpConnection::State HttpConnection::Refuse(const char* status) {
  std::string text =
      "HTTP/1.1 " + std::string(status) + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  (void)Write(text.data(), text.size(), Clock::now());
  return State::kGone;
}

bool HttpConnection::Write(const char* bytes, size_t size, Clock::time_point deadline) {
  while (size != 0) {
    size_t sent = 0;
    short wanted = POLLOUT;
    if (ssl_ != nullptr) {
      ERR_clear_error();
      int result = SSL_write_ex(ssl_.get(), bytes, size, &sent);
      int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result);
      if (error == SSL_ERROR_WANT_READ) wanted = POLLIN;
      if (error != SSL_ERROR_NONE && error != SSL_ERROR_WANT_WRITE && error != SSL_ERROR_WANT_READ)
        return false;
      if (error != SSL_ERROR_NONE) sent = 0;
    } else {
      ssize_t result = send(fd_, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (result < 0 && errno != EAGAIN && errno != EINTR) return false;
      sent = result > 0 ? static_cast<size_t>(result) : 0;
    }
    bytes += sent;
    size -= sent;
    if (size != 0 && sent == 0 && !Wait(fd_, wanted, deadline)) return false;
  }
  return true;
}

bool HttpConnection::IsThere() const {
  char byte;
  ssize_t read = recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return read > 0 || (read < 0 && (errno == EAGAIN || errno == EINTR));
}

size_t HttpConnection::Next() {
  in_.erase(0, total_);
  in_.shrink_to_fit();
  head_ = total_ = 0;
  return ++served_;
}

}  // namespace farcall::pool
