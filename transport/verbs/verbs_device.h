// SPDX-License-Identifier: Apache-2.0
// A card that verbs:// uses: opened, with the port and GID that were chosen.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <string>

#include "proto/status.h"
#include "transport/verbs/verbs_api.h"
#include "transport/verbs/verbs_choice.h"

namespace farcall {

// What this process has posted to the card, by kind of operation. `*_bytes`: of streams.
struct VerbsCounts {
  std::atomic<uint64_t> sends{0}, send_bytes{0}, inline_sends{0};
  std::atomic<uint64_t> reads{0}, read_bytes{0};
  std::atomic<uint64_t> writes{0}, write_bytes{0};
};

class VerbsDevice {
 public:
  //   Errors  kUnavailable, one line with the remedy: no card, no such port or GID, none active, no
  //           permission
  static Result<std::unique_ptr<VerbsDevice>> Open(const VerbsApi& api, const VerbsChoice& choice);
  ~VerbsDevice();
  VerbsDevice(const VerbsDevice&) = delete;
  VerbsDevice& operator=(const VerbsDevice&) = delete;

  const VerbsApi& api() const { return api_; }
  ibv_context* context() const { return context_; }
  ibv_pd* domain() const { return domain_; }
  uint8_t port() const { return port_; }
  uint8_t gid_index() const { return gid_index_; }
  const ibv_gid& gid() const { return gid_; }
  const ibv_port_attr& port_attributes() const { return attributes_; }
  bool is_ethernet() const { return attributes_.link_layer == IBV_LINK_LAYER_ETHERNET; }
  // RDMA READs that this side answers at once, and that it may have under way.
  uint8_t reads() const { return reads_; }
  // "rxe0:1:1 (::ffff:10.0.0.1)".
  const std::string& text() const { return text_; }
  VerbsCounts& counts() const { return counts_; }

 private:
  explicit VerbsDevice(const VerbsApi& api);
  Status OpenNamed(const VerbsChoice& choice);
  Status ChoosePort(const VerbsChoice& choice);
  Status ChooseGid(const VerbsChoice& choice);

  const VerbsApi& api_;
  const pid_t owner_;
  ibv_context* context_ = nullptr;
  ibv_pd* domain_ = nullptr;
  uint8_t port_ = 0, gid_index_ = 0, reads_ = 1;
  ibv_port_attr attributes_{};
  ibv_gid gid_{};
  std::string name_, text_;
  mutable VerbsCounts counts_;
};

// Turns memory over to a card by no more than what the user may lock; tells how to get more.
Status CannotRegister(size_t bytes, int error);

}  // namespace farcall
