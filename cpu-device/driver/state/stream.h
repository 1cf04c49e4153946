// SPDX-License-Identifier: Apache-2.0
// A stream: work in order, done by a thread of its own that exists while there is work.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cpu-device/driver/base/api.h"
#include "cpu-device/driver/state/issue_order.h"
#include "sync/cond_var.h"

namespace farcall::cpu_device {

class Capture;
class Context;

using Work = std::function<CUresult()>;

enum class How {
  kQueue,         // returns at once
  kInlineIfIdle,  // does it on the calling thread if nothing is before it, else queues: for work
                  // that takes no time
  kWait,          // returns when it is done
};

// What its work is to that of other streams.
enum class Share {
  kNone,    // it ends by itself, soon
  kWaits,   // perhaps for another stream's, or for the host
  kDevice,  // takes the device for itself: it begins as IssueOrder says
};

// Hints a program may set on a stream and read back; none changes what this device does.
class StreamAttributes {
 public:
  bool Get(CUstreamAttrID attribute, CUstreamAttrValue* value) const;
  bool Set(CUstreamAttrID attribute, const CUstreamAttrValue& value);
  void CopyFrom(const StreamAttributes& other);

 private:
  mutable std::mutex mutex_;
  std::map<int, CUstreamAttrValue> values_;
};

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  enum class Kind { kLegacy, kPerThread, kBlocking, kNonBlocking };

  Stream(Context& context, Kind kind, int priority);

  Context& context() const { return context_; }
  Kind kind() const { return kind_; }
  unsigned flags() const {
    return kind_ == Kind::kNonBlocking ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;
  }
  int priority() const { return priority_; }
  uint64_t id() const { return id_; }
  CUstream handle() { return reinterpret_cast<CUstream>(this); }

  // Queues work behind all that is already in this stream and, for the default stream and the
  // streams it synchronises with, behind what they hold. `always` work runs in a broken context
  // too.
  //   share   kWaits where in doubt
  //   Errors  kWait: what the work returned; else CUDA_SUCCESS, a later failure breaks the context
  CUresult Submit(Work work, How how, bool always = false, Share share = Share::kWaits);

  StreamAttributes& attributes() { return attributes_; }

  bool Idle() const;
  void WaitIdle();

  // Set while the stream is capturing (or its capture is invalidated).
  std::shared_ptr<Capture> capture() const;
  void set_capture(std::shared_ptr<Capture> capture);

 private:
  struct Ticket {
    std::shared_ptr<Stream> stream;
    uint64_t sequence;
  };
  struct Item {
    Work work;
    bool always;
    Share share;
    std::vector<Ticket> after;
    uint64_t issued = 0;  // of kDevice: its number there
  };

  std::vector<Ticket> Before();
  void WaitFor(uint64_t sequence);
  static bool MayWait(const Item& item) {
    return item.share == Share::kWaits || !item.after.empty();
  }
  void Issue(Item* item);
  CUresult Run(Item& item);
  void Finish(const Item& item);
  void WorkLoop();
  void StartThread();

  Context& context_;
  const Kind kind_;
  const int priority_;
  const uint64_t id_;

  mutable std::mutex mutex_;
  CondVar work_ready_;
  CondVar work_done_;
  std::deque<Item> queue_;
  uint64_t submitted_ = 0;
  uint64_t completed_ = 0;
  bool running_ = false;
  uint32_t may_wait_ = 0;  // submitted and not completed, of Share::kWaits or behind other streams
  uint64_t issued_ = 0;    // the last of kDevice
  bool has_thread_ = false;
  std::shared_ptr<Capture> capture_;
  StreamAttributes attributes_;
};

// Which device work this thread does, in what order; none: `order` is nullptr.
struct Turn {
  IssueOrder* order = nullptr;
  uint64_t issued = 0;
};
Turn CurrentTurn();

// True on a thread that is inside a host function or stream callback, where CUDA calls are not
// permitted.
bool InsideCallback();
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
};

}  // namespace farcall::cpu_device
