// SPDX-License-Identifier: Apache-2.0
// HTTP clients of one server whose connections stay open from one request to the next: to set one
// up costs more than most requests do.
#pragma once

#include <httplib.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace farcall::pool {

// `Client` is httplib::Client or httplib::SSLClient.
//   Thread  any
template <typename Client>
class KeptClients final {
 public:
  using Clock = std::chrono::steady_clock;
  // A pool closes a connection after 5 s without a request.
  static constexpr std::chrono::seconds kLongestIdle{3};
  // `longest_idle`: the server keeps a connection that long at least.
  explicit KeptClients(std::function<std::unique_ptr<Client>()> make,
                       std::chrono::seconds longest_idle = kLongestIdle)
      : make_(std::move(make)), longest_idle_(longest_idle) {}

  // One request, on a connection that no other request uses meanwhile. If the server has closed a
  // connection that was kept, `ask` is called once more, with a new one: it has to begin anew then.
  //   may_repeat  whether it does no harm if the server gets the request twice
  httplib::Result Send(const std::function<httplib::Result(Client&)>& ask, bool may_repeat) {
    Kept kept = Take();
    const bool was_used = kept.requests != 0;
    httplib::Result result = ask(*kept.client);
    if (!result && was_used && may_repeat && IsCut(result.error())) {
      kept = New();
      result = ask(*kept.client);
    }
    if (result) Give(std::move(kept));
    return result;
  }

 private:
  static constexpr int kMaxRequests = 90;  // a pool closes a connection after 100
  static constexpr size_t kMaxIdle = 8;
  struct Kept {
    std::unique_ptr<Client> client;
    int requests = 0;
    Clock::time_point since;
  };

  static bool IsCut(httplib::Error error) {
    return error == httplib::Error::Read || error == httplib::Error::Write ||
           error == httplib::Error::Unknown;
  }
  Kept New() const {
    Kept made{make_(), 0, {}};
    made.client->set_keep_alive(true);
    // A head and its body are two writes: the second would wait 40 ms for the first one's receipt.
    made.client->set_tcp_nodelay(true);
    return made;
  }
  Kept Take() {
    std::vector<Kept> late;  // closed without the lock
    std::lock_guard lock(mutex_);
    if (!idle_.empty() && Clock::now() - idle_.back().since > longest_idle_) late.swap(idle_);
    if (idle_.empty()) return New();
    Kept last = std::move(idle_.back());  // the youngest
    idle_.pop_back();
    return last;
  }
  void Give(Kept kept) {
    if (++kept.requests >= kMaxRequests) return;
    kept.since = Clock::now();
    std::lock_guard lock(mutex_);
    if (idle_.size() < kMaxIdle) idle_.push_back(std::move(kept));
  }

  const std::function<std::unique_ptr<Client>()> make_;
  const std::chrono::seconds longest_idle_;
  std::mutex mutex_;
  std::vector<Kept> idle_;  // by when they were used last
};

}  // namespace farcall::pool
