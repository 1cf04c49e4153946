// SPDX-License-Identifier: Apache-2.0
// Our own error plane: did *we* work? The API's codes travel as payload and meet these in one file,
// error_map.
#pragma once

#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <variant>

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

// A code and the one-line message of whoever detected the failure. Cheap when ok.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

// A value or the Status that explains its absence.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}         // NOLINT
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  T& operator*() { return *std::get_if<0>(&state_); }
  const T& operator*() const { return *std::get_if<0>(&state_); }
  T* operator->() { return std::get_if<0>(&state_); }
  const T* operator->() const { return std::get_if<0>(&state_); }
  Status status() const { return ok() ? Status() : *std::get_if<1>(&state_); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace farcall

// Returns the failed Status of `expr` from the enclosing function.
#define FARCALL_TRY(expr)                                                          \
  do {                                                                             \
    if (::farcall::Status farcall_try_status = (expr); !farcall_try_status.ok()) { \
      return farcall_try_status;                                                   \
    }                                                                              \
  } while (0)
