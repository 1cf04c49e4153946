// SPDX-License-Identifier: Apache-2.0
// Our own error plane: did *we* work? The API's codes travel as payload and meet these in one file,
// error_map.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace farcall {

enum class Code : uint8_t {
  kOk = 0,
  kInvalid,        // a caller's argument
  kMalformed,      // a peer's bytes break the protocol: ends that session
  kDisconnected,   // the link is gone and its grace is over, or the session has ended
  kQuotaExceeded,  // a ledger refused
  kRefused,        // the peer answered the handshake with a refusal; the message is its reason
  kUnavailable,    // cannot be had now: nothing listens, a library is missing
  kUnsupported,    // known and deliberately absent
  kTimeout,
  kInternal,
};

// A code and the one-line message of whoever detected the failure. A null pointer when ok: each
// call of an application passes a dozen functions that return one.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : said_(MakeSaid(code, std::move(message))) {}
  Status(const Status& other) {
    if (other.said_ != nullptr) said_ = MakeSaid(other.said_->code, other.said_->message);
  }
  Status& operator=(const Status& other) {
    if (this != &other) *this = Status(other);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  ~Status() = default;

  bool ok() const { return said_ == nullptr || said_->code == Code::kOk; }
  Code code() const { return said_ == nullptr ? Code::kOk : said_->code; }
  const std::string& message() const {
    const Said* said = said_.get();
    return said == nullptr ? NoMessage() : said->message;
  }

 private:
  struct Said {
    Code code;
    std::string message;
  };
  // Out of line: code that fails is kept out of the way of code that does not.
  [[gnu::cold]] static std::unique_ptr<Said> MakeSaid(Code code, std::string message);
  static const std::string& NoMessage();
  std::unique_ptr<Said> said_;  // null: ok, and nothing to say
};

// A value or the Status that explains its absence.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT
  Result(Status status) : status_(std::move(status)) {}  // NOLINT

  bool ok() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  Status status() const { return status_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace farcall

// Returns the failed Status of `expr` from the enclosing function.
#define FARCALL_TRY(expr)                                                        \
  do {                                                                           \
    if (::farcall::Status farcall_try_status = (expr); !farcall_try_status.ok()) \
      return farcall_try_status;                                                 \
  } while (0)
