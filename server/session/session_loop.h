// SPDX-License-Identifier: Apache-2.0
// One session in its worker: reads the log, serves record after record, and never waits on the
// issue thread.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "server/session/call_records.h"
#include "server/session/library_records.h"
#include "server/session/log_reader.h"
#include "server/session/record_pipeline.h"
#include "server/session/work_gate.h"
#include "server/state/session.h"
#include "transport/link.h"
#include "transport/spin.h"

namespace farcall::server {

class SessionLoop final : public LinkObserver, private SwapGround {
 public:
  SessionLoop(const DriverApi& api, const SessionOptions& options, MemoryBroker& broker);
  ~SessionLoop() override;

  Session& session() { return *session_; }
  Link& link() { return *link_; }
  // Serves until the link ends for good; the reason.   Thread  becomes the issue thread
  Status Run();
  // Ends the session from outside with a goodbye.   Thread  any
  void Stop(const Status& why);
  // Something goes on outside the issue thread.   Thread  any
  bool busy_beside_log() const { return nvml_helper_.busy() || session_->busy_beside_log(); }

  // ---- LinkObserver
  Status OnFrame(const FrameView& frame) override;
  std::span<std::byte> ChunkDestination(const ChunkHeader& header) override;
  void OnChunk(const ChunkHeader& header) override;
  void OnDetached(const Status& why) override;
  void OnReattached() override;
  void OnClosed(const Status& why) override;

 private:
  static constexpr size_t kMaxBacklogBytes = 64u << 20;
  static constexpr int kMaxNvmlAsked = 64;  // a client waits for each answer
  struct Waiting {                          // a record whose turn has not come
    std::vector<std::byte> bytes;
    size_t served_bytes = 0;
    uint64_t chunks_sent = 0;
  };

  // ---- beside the issue thread: log_reader.h
  // Whether host functions are in streams, and the issue thread reads the log still.
  bool ShouldHandOver() const { return session_->host_calls().expected() && !reader_.active(); }
  // Reads and serves for a while, or serves what the reader read.
  Status ReadLog(Clock::time_point deadline);
  LogReader::Early ServeEarly(const RecordView& record);

  // ---- order: record_order.cc
  // Serves until a record stalls; how many bytes of `records` were served.
  Status ServeRecords(std::span<const std::byte> records, uint64_t chunks_sent,
                      size_t* served_bytes);
  void PutBack(std::vector<std::byte> records, uint64_t chunks_sent);
  Status ServeBacklog();
  Status ServeSideQueue();
  bool MoveAside(const RecordView& record);
  Status ServeRecord(const RecordView& record, Served* served);
  // Whether the record may be served while the session's memory is where it is.
  bool AdmitsMemory(const RecordHeader& header);

  // ---- the session's own messages: session_records.cc, mirror_records.cc, nvml_records.cc
  Status ServeSessionCall(const RecordView& record, Turn& turn, Served* served);
  Status ServeNvml(const RecordView& record);
  Status ServeNamedImage(const RecordView& record, Served* served);
  Status ServeNeedCredit(const RecordHeader& header, Reader& in);
  Status ServeReturnCredit(const RecordHeader& header, Reader& in);
  Status ServeFenceFrees(const RecordHeader& header, Reader& in, Served* served);
  Status ServeHostDone(const RecordHeader& header, Reader& in);
  Status ServeHostMemory(const RecordHeader& header, Reader& in, bool is_shared, Served* served);
  void ShareHost(const RecordHeader& header, uint64_t address, uint64_t bytes, int device);
  Status ServeHostWindowEnd(const RecordHeader& header, Reader& in, Served* served);
  Status ServeMirrorUp(const RecordHeader& header, Reader& in, Served* served);
  Status ServeMirrorDown(const RecordHeader& header, Reader& in);
  Status Malformed(const RecordHeader& header, const std::string& what);
  // What comes before it may be among what stands in the side queue: it waits for all of that.
  bool WaitsForSideQueue(Served* served);

  void EndOfFrame();
  void SpinForCompletions();
  Clock::time_point NextDeadline();
  // ---- SwapGround
  void FenceAll(std::function<void()> done) override;
  bool Quiet() override { return session_->Quiet(); }
  std::map<int, CUcontext> Contexts() override { return session_->contexts().Live(); }
  DeviceMemory& SwappedMemory() override { return session_->memory(); }

  const DriverApi& api_;
  const SessionOptions options_;
  std::unique_ptr<Link> link_;
  std::unique_ptr<Session> session_;  // ends with the loop, before what follows
  WorkGate gate_;
  RecordPipeline pipeline_;
  CallRecords calls_;
  LibraryRecords libraries_;
  LogReader reader_;

  std::deque<Waiting> backlog_;
  size_t backlog_bytes_ = 0;
  Turn head_;  // of the log's next record

  std::atomic<bool> ended_{false};
  std::mutex end_mutex_;
  Status end_reason_;
  Status stop_request_;
  std::atomic<bool> stop_requested_{false};

  SpinPolicy spin_{std::chrono::microseconds(options_.spin_us)};  // of SpinForCompletions
  uint64_t kicked_order_ = 0;  // the polling thread was woken for watches up to this one
  Helper nvml_helper_;         // a driver may measure for a while before it answers
  std::atomic<int> nvml_asked_{0};
};

}  // namespace farcall::server
