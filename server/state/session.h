// SPDX-License-Identifier: Apache-2.0
// What one session holds, as the functions that serve its records see it: handles, contexts and
// streams, memory, threads, the way to the client. Who reads the log: server/session/.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "generated/proto/call_info.h"
#include "proto/handshake/handshake.h"
#include "proto/records.h"
#include "server/device/completion.h"
#include "server/device/helper.h"
#include "server/memory/device_memory.h"
#include "server/memory/memory_swap.h"
#include "server/memory/mirrors.h"
#include "server/memory/user_memory.h"
#include "server/state/objects/context_state.h"
#include "server/state/objects/contexts.h"
#include "server/state/objects/handle_table.h"
#include "server/state/objects/image_store.h"
#include "server/state/objects/retained_objects.h"
#include "server/state/objects/side_queue.h"
#include "server/state/objects/streams.h"
#include "server/state/objects/texture_objects.h"
#include "server/state/queues/credit.h"
#include "server/state/queues/device_output.h"
#include "server/state/queues/host_calls.h"
#include "server/state/queues/landing.h"
#include "server/state/queues/mirror_reports.h"
#include "server/state/queues/outbox.h"
#include "server/state/serve.h"
#include "server/state/session_options.h"
#include "transport/link.h"

namespace farcall::server {

class Session final {
 public:
  Session(const DriverApi& api, const SessionOptions& options, MemoryBroker& broker, Link& link);
  ~Session();

  // No thread of the session's works afterwards.
  void StopThreads();

  // ---- its parts
  Link& link() { return link_; }
  Outbox& outbox() { return outbox_; }
  Completion& completion() { return completion_; }
  DeviceMemory& memory() { return memory_; }
  UserMemory& user_memory() { return user_memory_; }
  MemoryBroker& broker() { return broker_; }
  Mirrors& mirrors() { return mirrors_; }
  MirrorReports& mirror_reports() { return mirror_reports_; }
  Landing& landing() { return landing_; }
  SlotPool& readback() { return readback_; }
  SlotPool& small_readback() { return small_readback_; }
  ImageStore& images() { return images_; }
  TextureObjects& objects() { return objects_; }
  Credit& credit() { return credit_; }
  DeviceOutput& output() { return output_; }
  HostCalls& host_calls() { return host_calls_; }
  RetainedObjects& retained() { return retained_; }
  SideQueue& side_queue() { return side_; }
  Streams& streams() { return streams_; }
  Contexts& contexts() { return contexts_; }
  const SessionOptions& options() const { return options_; }
  HandleTable& table(HandleKind kind) { return tables_[static_cast<size_t>(kind)]; }

  // ---- memory
  // Takes the first offer it can, for credit and the application's own mappings; its index, or -1.
  int ReserveWindow(const std::vector<Window>& offers);
  // Whether the whole range is the session's, allocated or mapped by the application.
  bool OwnsMemory(uint64_t address, uint64_t bytes) const {
    return memory_.Contains(address, bytes) || user_memory_.Contains(address, bytes) ||
           mirrors_.Contains(address, bytes);
  }
  // Whether a device function may be handed the range: what of it is not the session's is nobody's
  // (its window's addresses are taken for it alone), or was taken of the device by its libraries.
  bool MayReach(uint64_t address, uint64_t bytes) const;
  // Where a device meets nothing, as far from a page's start as `address`; 0: the driver has no
  // such place.   Thread  any
  uint64_t GuardAddress(uint64_t address);
  // What was refused may be granted now: chunks have given back what was not in use of them. Waits
  // for the session's work.   Thread  the memory helper
  bool MakeRoom(int device, uint64_t bytes);
  // A context has come to life on the device: its program will want memory.
  void GrantFirstCredit(int device);
  void FinishFree(CUcontext context, const DeviceMemory::Freed& freed);

  // ---- contexts
  // The native context is about to go, and all that we keep in it.   Thread  the helper
  void ForgetContext(CUcontext context);
  // Others keep something in contexts too.   Before the session runs
  void OnForgetContext(std::function<void(CUcontext)> forget) { on_forget_ = std::move(forget); }

  // ---- order
  // So much of the log waits that no more of it is read.
  bool backlog_full() const { return backlog_full_; }
  void SetBacklogFull(bool full) { backlog_full_ = full; }
  bool holds_records() const { return !side_.empty(); }
  // What the record being served must not overtake.
  const Footprint& ahead() const { return side_.ahead(); }

  // ---- threads
  // Machine code does not run on the device.
  bool prefers_ptx() const { return options_.code_taste != cuda_abi::CodeTaste::kMachineCodeFirst; }
  // The session ends: what runs long must stop.
  bool leaving() const { return leaving_.load(); }
  bool helper_busy() const { return helper_.busy(); }
  // An object of a library may be in the making.
  bool libraries_busy() const { return library_helper_.busy(); }
  // Something goes on outside the issue thread.
  bool busy_beside_log() const {
    return library_helper_.busy() || toolchain_helper_.busy() || helper_.busy() ||
           memory_helper_.busy() || !completion_.idle();
  }
  // No other thread of the session's works with device memory, and no capture is under way.
  bool Quiet() const;
  // A helper has as much to do as the session may have waiting: no record is served.
  bool HelperFull() const {
    return helper_.full() || memory_helper_.full() || library_helper_.full() ||
           toolchain_helper_.full() || (helper_.busy() && retained_.full());
  }
  // `bytes`: what the task holds of its record.
  void OnHelper(std::function<void()> task, size_t bytes = 0) {
    helper_.Submit(std::move(task), bytes);
  }
  void OnMemoryHelper(std::function<void()> task) { memory_helper_.Submit(std::move(task)); }
  void OnLibraryHelper(std::function<void()> task, size_t bytes = 0) {
    library_helper_.Submit(std::move(task), bytes);
  }
  void OnToolchainHelper(std::function<void()> task, size_t bytes = 0) {
    toolchain_helper_.Submit(std::move(task), bytes);
  }
  // Behind all slow library calls so far: what they use natively may end now.
  void BehindLibraries(std::function<void()> task);
  // The issue thread looks again.   Thread  any
  void Wake();
  int wake_fd() const { return wake_fd_; }
  void ClearWake();

  // ---- answers
  // Answers a call that was parked, or reports its failure if it was a post.   Thread  any
  void Answer(const RecordHeader& header, CUresult result, std::span<const std::byte> out,
              const std::string& detail = "");
  // The same of a call that is not parked.
  void Finish(const ServeCall& call);

 private:
  void DeleteExtras();

  const DriverApi& api_;
  const SessionOptions options_;
  Link& link_;
  Outbox outbox_;
  int wake_fd_ = -1;
  std::atomic<bool> may_be_woken_{false};  // set behind the descriptor
  MemoryBroker& broker_;
  DeviceMemory memory_;
  UserMemory user_memory_;
  Mirrors mirrors_;
  MirrorReports mirror_reports_;
  mutable std::mutex guard_mutex_;
  Window guard_;  // addresses that are taken and stay empty
  Landing landing_;
  SlotPool readback_;
  SlotPool small_readback_;
  ImageStore images_;
  TextureObjects objects_;
  Credit credit_;
  DeviceOutput output_;
  HostCalls host_calls_;
  RetainedObjects retained_;
  std::array<HandleTable, static_cast<size_t>(HandleKind::kLast) + 1> tables_;
  Streams streams_;
  Contexts contexts_;
  std::function<void(CUcontext)> on_forget_ = [](CUcontext) {};
  bool backlog_full_ = false;
  SideQueue side_;

  // Last: their threads use all of the above.
  Completion completion_;
  Helper helper_;
  Helper memory_helper_;
  Helper library_helper_;
  Helper toolchain_helper_;
  std::atomic<bool> leaving_{false};
};

}  // namespace farcall::server
