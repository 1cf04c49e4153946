// SPDX-License-Identifier: Apache-2.0
// Writes tenants' images to this machine's disk, on a thread of its own. Workers say what came and
// what they read; each may have been taken over, so that everything it says is checked here. All
// this is a cache: what does not fit in the queue is dropped.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "proto/handshake/crypto.h"
#include "sync/cond_var.h"

namespace farcall::server {

// What a worker says of an image.
enum class ImageNote {
  kNew,      // with its bytes, in a sealed memory file
  kRead,     // it was read from disk: it was used now
  kCorrupt,  // the file's bytes do not hash to its name
};

class ImageWriter final {
 public:
  struct Bounds {
    uint64_t disk_bytes = uint64_t{4} << 30;  // of a tenant's images
    // Of notes that wait: from one session, and in all.
    size_t session_notes = 32, notes = 256;
    // Of memory files that wait: one tenant's, or one larger image of its; and in all.
    uint64_t tenant_bytes = uint64_t{512} << 20, bytes = uint64_t{3} << 30;
  };

  // Below `base` as tenant_folders.h has it; "": nothing is kept.
  explicit ImageWriter(std::string base) : ImageWriter(std::move(base), Bounds()) {}
  // `before_each`: called on the thread before it does what a note says.
  ImageWriter(std::string base, Bounds bounds, std::function<void()> before_each = {});
  // Writes what it has been given, for kLastPatience at most.
  ~ImageWriter();
  ImageWriter(const ImageWriter&) = delete;
  ImageWriter& operator=(const ImageWriter&) = delete;

  // `session`: which worker of the tenant says so. A session that said what is not so is not heard
  // again, and what waits of it is dropped. `file` (kNew) is taken, and then -1; else it is the
  // caller's to close.
  //   Returns  false: dropped
  //   Thread   any, which does not wait for the disk
  bool Take(ImageNote note, const std::string& tenant, uint64_t session, const Hash256& hash,
            int* file = nullptr);
  // The session has ended.
  void Forget(uint64_t session);
  // Waits until all that was taken is done.
  void Drain();

 private:
  struct Task {
    ImageNote note;
    uint64_t session = 0;
    Hash256 hash{};
    int file = -1;
    uint64_t bytes = 0;
  };
  struct Tenant {
    std::deque<Task> tasks;
    uint64_t bytes = 0;  // of their files, and of the one under way
  };
  struct Session {
    size_t notes = 0;  // that wait, and the one under way
    bool is_disbelieved = false, has_ended = false;
  };
  bool FitsLocked(const std::string& tenant, uint64_t session, uint64_t bytes) const;
  void DisbelieveLocked(const std::string& tenant, uint64_t session);
  // After a note of it is done or dropped.
  void DropNoteLocked(uint64_t session, uint64_t bytes, Tenant* all);
  void Run();
  // One task of the next tenant's.
  void RunOne(std::unique_lock<std::mutex>& lock);
  // False: the session said what is not so.
  bool Do(const Task& task, const std::string& tenant);
  bool Write(const Task& task, const std::string& tenant, int folder);
  bool CopyChecked(const Task& task, int to) const;
  bool MakeRoom(const std::string& tenant, int folder, uint64_t bytes);
  bool gives_up();

  static constexpr std::chrono::seconds kLastPatience{2};
  const std::string base_;
  const Bounds bounds_;
  const std::function<void()> before_each_;
  std::map<std::string, uint64_t> on_disk_;  // the thread's: bytes of tenants' images, at most
  std::mutex mutex_;                         // all below
  CondVar changed_;
  std::map<std::string, Tenant> tenants_;  // those with tasks
  std::string last_;                       // whose turn it was
  std::map<uint64_t, Session> sessions_;   // those with notes, and those disbelieved that go on
  size_t notes_ = 0;
  uint64_t bytes_ = 0;
  bool busy_ = false, stopping_ = false, gives_up_ = false;
  std::thread thread_;
};

}  // namespace farcall::server
