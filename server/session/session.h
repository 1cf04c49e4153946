// SPDX-License-Identifier: Apache-2.0
// One session in its worker: reads the log, serves record after record, and never waits on the
// issue thread.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda-abi/image.h"
#include "proto/call_info.h"
#include "proto/handshake.h"
#include "proto/library_call.h"
#include "proto/records.h"
#include "server/calls/context.h"
#include "server/calls/texture_objects.h"
#include "server/memory/device_memory.h"
#include "server/memory/memory_swap.h"
#include "server/memory/user_memory.h"
#include "server/session/completion.h"
#include "server/session/handle_table.h"
#include "server/session/helper.h"
#include "server/session/image_store.h"
#include "server/session/landing.h"
#include "server/session/mirror_work.h"
#include "server/session/mirrors.h"
#include "server/session/outbox.h"
#include "server/session/serve.h"
#include "server/session/side_queue.h"
#include "transport/link.h"
#include "transport/spin.h"

namespace farcall::server {

class ComputeGate;
class EventClock;
class LibraryCall;
class LibraryDesk;
class NvmlDesk;
struct LibraryRow;
struct LibraryTable;

struct SessionOptions {
  int devices = 0;
  std::vector<uint32_t>
      compute_capabilities;  // by device: 130 for 13.0; what is missing counts as 0
  uint32_t grace_ms = 60000;
  uint32_t heartbeat_ms = 1000;
  uint32_t lanes = 2;
  uint32_t spin_us = 50;
  size_t landing_slots = 64;  // 1 MiB each
  size_t readback_slots = 32;
  size_t max_landing_heap_bytes = 1u << 30;
  uint64_t first_credit_bytes = 32u << 20;
  int image_folder = -1;  // as ImageStore has them
  ImageKeeper* image_keeper = nullptr;
  int output_fd = -1;  // the read end of the worker's stdout
  bool client_takes_mirrors = true;
  std::shared_ptr<NvmlDesk> nvml;  // null: NVML's questions are not answered
  ComputeGate* gate = nullptr;     // null: no work is held; outlives the session
  EventClock* clock = nullptr;     // null: nobody measures device time by events; outlives it
  cuda_abi::CodeTaste code_taste = cuda_abi::CodeTaste::kMachineCodeFirst;
  bool trust_tenants = false;  // without Landlock, compilers may read what the worker may
  MemorySwap* swap = nullptr;  // null: its memory never leaves the device; outlives the session
};

class Session final : public LinkObserver, private SwapGround {
 public:
  Session(const DriverApi& api, const SessionOptions& options, MemoryBroker& broker);
  ~Session() override;

  // Serves until the link ends for good; the reason.   Thread  becomes the issue thread
  Status Run();
  // Ends the session from outside with a goodbye.   Thread  any
  void Stop(const Status& why);

  // ---- LinkObserver
  Status OnFrame(const FrameView& frame) override;
  std::span<std::byte> ChunkDestination(const ChunkHeader& header) override;
  void OnChunk(const ChunkHeader& header) override;
  void OnDetached(const Status& why) override;
  void OnReattached() override;
  void OnClosed(const Status& why) override;

  // ---- for the serve functions
  Link& link() { return *link_; }
  Outbox& outbox() { return outbox_; }
  Completion& completion() { return completion_; }
  DeviceMemory& memory() { return memory_; }
  UserMemory& user_memory() { return user_memory_; }
  // Takes the first offer it can, for credit and the application's own mappings; its index, or -1.
  int ReserveWindow(const std::vector<Window>& offers);
  MemoryBroker& broker() { return broker_; }
  Mirrors& mirrors() { return mirrors_; }
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
  Landing& landing() { return landing_; }
  SlotPool& readback() { return readback_; }
  SlotPool& small_readback() { return small_readback_; }
  ImageStore& images() { return images_; }
  TextureObjects& objects() { return objects_; }
  const SessionOptions& options() const { return options_; }
  HandleTable& table(HandleKind kind) { return tables_[static_cast<size_t>(kind)]; }

  // The context in `slot`, whatever its state; null if there never was one.
  ContextState* context(uint16_t slot) const { return contexts_[slot]; }
  ContextState& MakeContext(uint16_t slot);
  void MakeCurrent(ContextState* context);

  StreamState* LegacyStream(ContextState& context) { return &context.legacy; }
  StreamState* PerThreadStream(ContextState& context, uint16_t thread, CUresult* result);
  uint64_t NewStreamKey() { return ++last_stream_key_; }
  void MarkActive(StreamState& stream);
  // Work that may write mirrored memory was put on the stream.
  void NoteWork(const StreamState& stream) {
    if (mirrors_.bytes() != 0) {
      mirror_work_.Submitted(stream.key, completion_.last_order());
    }
  }
  // The stream has no work left.
  void NoteIdle(const StreamState& stream) { mirror_work_.Reached(stream.key, ~uint64_t{0}); }
  // What the device wrote to mirrored memory. Ahead of each word to the client that work is done.
  //   Thread  any
  void TellMirrored();
  // The stream is about to be destroyed: what is on it still counts for the context's waits.
  void Orphan(StreamState& stream);

  // Whether a copy put on the stream now would begin at once: neither it nor what it is ordered
  // with has work left. The context is current. False where the device's time is lent, too: then a
  // wait for the device may be one for a neighbour.
  bool StartsAtOnce(const StreamState& stream);

  // Runs `done` once all work now on the context's streams has completed, with the first error.
  // Parks even if idle while something passed is still to be told of. Returns false, `done` not
  // run, if there was nothing to wait for.
  bool Fence(ContextState& context, std::function<void(CUresult)> done, CUresult* result);
  // The same for one stream.
  bool FenceStream(StreamState& stream, std::function<void(CUresult)> done, CUresult* result);
  // Submits the fence of the frees noted so far.
  void FenceFrees(ContextState& context);
  void NoteFree(ContextState& context, uint64_t epoch, std::function<void()> free);
  // Credit for a program that has not asked for any. On device 0 ahead of any context, for WELCOME:
  // empty if there is no room, or others may have to leave for it.   Thread  before Run
  Window WelcomeCredit();
  // On another device, or without the former, pushed once a context is there.
  void GrantFirstCredit(int device);
  void FinishFree(CUcontext context, const DeviceMemory::Freed& freed);

  bool capturing(CUstream stream);
  bool backlog_full() const { return backlog_bytes_ > kMaxBacklogBytes; }
  bool holds_records() const { return !side_.empty(); }
  // What the record being served must not overtake.
  const Footprint& ahead() const { return side_.ahead(); }
  // Machine code does not run on the device.
  bool prefers_ptx() const { return options_.code_taste != cuda_abi::CodeTaste::kMachineCodeFirst; }
  // The session ends: what runs long must stop.
  bool leaving() const { return leaving_.load(); }
  bool helper_busy() const { return helper_.busy(); }
  // An object of a library may be in the making.
  bool libraries_busy() const { return library_helper_.busy(); }
  // Something goes on outside the issue thread.
  bool busy_beside_log() const {
    return nvml_helper_.busy() || library_helper_.busy() || toolchain_helper_.busy() ||
           helper_.busy() || memory_helper_.busy() || !completion_.idle();
  }
  // A helper has as much to do as the session may have waiting: no record is served.
  bool HelperFull() const {
    return helper_.full() || memory_helper_.full() || library_helper_.full() ||
           toolchain_helper_.full() || (helper_.busy() && replaced_count_.load() >= kMaxReplaced);
  }
  void OnHelper(std::function<void()> task) { helper_.Submit(std::move(task)); }
  // Behind all slow library calls so far: what they use natively may end now.
  void BehindLibraries(std::function<void()> task);
  void OnMemoryHelper(std::function<void()> task) { memory_helper_.Submit(std::move(task)); }
  // What was refused may be granted now: chunks have given back what was not in use of them. Waits
  // for the session's work.   Thread  the memory helper
  bool MakeRoom(int device, uint64_t bytes);
  void Wake();
  // Moves what device code printed to the client. Before a reply that a program may take as "it has
  // printed".
  void DrainOutput();

  // Host functions in flight: token -> what to call when the client has run it.
  uint64_t AddHostCall(std::function<void()> done);
  void EndHostCalls();

  // Memory that lives as long as the session: sources of captured copies.
  std::byte* KeepBytes(std::span<const std::byte> bytes);
  void Keep(std::shared_ptr<void> object);

  // What another thread may still be looking at goes with the session.   Thread  any
  void Bury(HandleKind kind, void* extra);
  // The same of a handle that another life has taken: it goes once neither the log nor a slow call
  // can be looking at it.   Thread  any
  void NoteReplaced(HandleKind kind, void* extra);

  // Answers a call that was parked, or reports its failure if it was a post.   Thread  any
  void Answer(const RecordHeader& header, CUresult result, std::span<const std::byte> out,
              const std::string& detail = "");
  // Device code of this session prints: waits flush the driver's buffer before they answer.
  void NotePrintf() { prints_ = true; }
  void FlushPrintf(CUcontext context);
  // The native context is about to go, and all that we keep in it.   Thread  the helper
  void ForgetContext(CUcontext context);

 private:
  static constexpr size_t kMaxBacklogBytes = 64u << 20;
  static constexpr int kMaxNvmlAsked = 64;  // a client waits for each answer
  static constexpr size_t kMaxReplaced = 4096;
  enum class Served { kDone, kStalled };
  struct Waiting {  // a record whose turn has not come
    std::vector<std::byte> bytes;
    size_t served_bytes = 0;
    uint64_t chunks_sent = 0;
  };

  // Serves until a record stalls; how many bytes of `records` were served.
  Status ServeRecords(std::span<const std::byte> records, uint64_t chunks_sent,
                      size_t* served_bytes);
  Status ServeBacklog();
  Status ServeSideQueue();
  bool MoveAside(const RecordView& record);
  Status ServeRecord(const RecordView& record, Served* served);
  Status ServeCallRecord(const RecordView& record, Turn& turn, Served* served);
  Status ServeSessionCall(const RecordView& record, Turn& turn, Served* served);
  Status ServeNvml(const RecordView& record);
  Status ServeLibrary(const RecordView& record, Turn& turn, Served* served);
  Status RunLibrary(ServeCall& call, const LibraryHeader& header, const LibraryRow& row,
                    std::span<const std::byte> body, Served* served);
  Status SubmitApart(const RecordView& record, const LibraryHeader& header, const LibraryRow& row);
  void ServeLibraryBlob(ServeCall& call, const LibraryHeader& header);
  Status SubmitLibrary(ServeCall& call, const RecordView& record, const LibraryHeader& header,
                       const LibraryRow& row, Served* served);
  Status HoldObjects(const RecordView& record, const LibraryHeader& header, const LibraryRow& row,
                     ContextState* context, std::shared_ptr<void>* held);
  void OpenLibrary(ServeCall& call, const LibraryHeader& header, const LibraryTable& table);
  void AnswerLibrary(LibraryCall& library, const LibraryHeader& header);
  bool IsIdle(ServeCall& call, uint64_t wire_stream);
  // What of a slow call that puts work on the device was submitted and has ended since.
  void NoteEndedWork();
  Status ServeNamedImage(const RecordView& record, Served* served);
  Status ServeHostWindow(const RecordHeader& header, Reader& in);
  Status ServeHostWindowEnd(const RecordHeader& header, Reader& in, Served* served);
  Status ServeMirrorUp(const RecordHeader& header, Reader& in, Served* served);
  Status ServeMirrorDown(const RecordHeader& header, Reader& in);
  void ServeNeedCredit(const RecordHeader& header, int device, uint64_t bytes);
  Status ServeFenceFrees(const RecordHeader& header, uint64_t epoch);
  Status ServeHostDone(uint64_t token);
  void PushGrant(int device, const Window& range);
  Window FirstCredit(int device);
  void WaitForOrphans(CUcontext context, std::vector<std::shared_ptr<Watch>> orphans,
                      std::function<void()> done);
  void NoteCapture(CallCapture capture, CUresult result);
  void SubmitToHelper(const RecordView& record, const DispatchRow& row);
  CUresult PrepareContext(const RecordHeader& header, ContextState** context, bool* stalled);
  void Finish(ServeCall& call);
  Status Malformed(const RecordHeader& header, const std::string& what);
  void EndOfFrame();
  void ServeGate();
  void FenceDevice(int device, std::function<void()> done);
  // Whether the record may be served while the session's memory is where it is.
  bool AdmitsMemory(const RecordHeader& header);
  // ---- SwapGround
  void FenceAll(std::function<void()> done) override;
  bool Quiet() override;
  std::map<int, CUcontext> Contexts() override;
  DeviceMemory& SwappedMemory() override { return memory_; }
  // The gate's key of work that it has to admit; 0: none, or nothing is gated.
  uint64_t GatedWork(const RecordView& record, const ContextState* context) const;
  // Whether gated work may go; what became of it then.
  bool AdmitWork(ContextState& context, uint64_t work);
  void NoteStalledWork(int device);
  void NoteSubmittedWork(int device, uint64_t work);
  void DeleteExtras();
  void DeleteReplaced();
  void SpinForCompletions();
  // Those of a context that have work; the others are no longer active.
  std::vector<StreamState*> BusyStreams(ContextState& context, CUresult* result);
  Clock::time_point NextDeadline() const;

  const DriverApi& api_;
  const SessionOptions options_;
  std::unique_ptr<Link> link_;
  Outbox outbox_;
  int wake_fd_ = -1;
  MemoryBroker& broker_;
  DeviceMemory memory_;
  UserMemory user_memory_;
  Mirrors mirrors_;
  mutable std::mutex guard_mutex_;
  Window guard_;  // addresses that are taken and stay empty
  MirrorWork mirror_work_;
  std::mutex tell_mutex_;  // of kMirrored: found and sent
  Landing landing_;
  SlotPool readback_;
  SlotPool small_readback_;
  ImageStore images_;
  TextureObjects objects_;
  std::array<HandleTable, static_cast<size_t>(HandleKind::kLast) + 1> tables_;
  std::unique_ptr<LibraryDesk> libraries_;
  std::vector<ContextState*> contexts_;                      // by slot
  std::vector<std::unique_ptr<ContextState>> all_contexts_;  // late answers may name gone ones
  std::vector<uint16_t> dirty_contexts_;                     // with frees noted in this frame
  std::atomic<uint64_t> last_stream_key_{0};
  std::atomic<int> captures_{0};
  std::atomic<bool> prints_{false};
  std::atomic<bool> welcomed_with_credit_{false};
  std::atomic<int> graphs_held_{0};  // by slow calls

  std::deque<Waiting> backlog_;
  size_t backlog_bytes_ = 0;
  Turn head_;  // of the log's next record
  SideQueue side_;

  std::mutex host_calls_mutex_;
  std::map<uint64_t, std::function<void()>> host_calls_;
  uint64_t last_host_token_ = 0;

  std::mutex output_mutex_;
  std::mutex flush_mutex_;
  std::map<CUcontext, CUstream> flush_streams_;
  std::mutex kept_mutex_;
  std::vector<std::unique_ptr<std::byte[]>> kept_;
  std::vector<std::shared_ptr<void>> kept_objects_;
  std::vector<std::pair<HandleKind, void*>> buried_;
  std::vector<std::pair<HandleKind, void*>> replaced_;
  std::atomic<size_t> replaced_count_{0};

  std::atomic<bool> ended_{false};
  std::mutex end_mutex_;
  Status end_reason_;
  Status stop_request_;
  std::atomic<bool> stop_requested_{false};

  SpinPolicy spin_{std::chrono::microseconds(options_.spin_us)};  // of SpinForCompletions
  // A slow library call whose work the gate has admitted: no other is, until it has ended.
  struct SlowWork {
    int device = 0;
    uint64_t key = 0;
    std::atomic<bool> ended{false};
  };
  std::shared_ptr<SlowWork> slow_work_;
  uint64_t kicked_order_ = 0;  // the polling thread was woken for watches up to this one

  // Last: their threads use all of the above.
  Completion completion_;
  Helper helper_;
  Helper memory_helper_;
  Helper library_helper_;
  Helper toolchain_helper_;
  std::atomic<bool> leaving_{false};
  Helper nvml_helper_;  // a driver may measure for a while before it answers
  std::atomic<int> nvml_asked_{0};
};

}  // namespace farcall::server
