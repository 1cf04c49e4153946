// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/images/image_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sodium.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "proto/hex.h"
#include "server/state/objects/image_store.h"
#include "server/supervisor/images/tenant_folders.h"

namespace farcall::server {

namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
constexpr size_t kStepBytes = size_t{1} << 20;
constexpr size_t kMaxTenants = 4096;  // whose bytes on disk are remembered
constexpr int kNice = 10;             // it has time; sessions have not
constexpr mode_t kImageMode = 0444;   // workers of other users read it

// The size of a memory file that nobody can change any more; 0: it is none.
uint64_t SealedBytes(int file) {
  struct stat status {};
  const int seals = fcntl(file, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || fstat(file, &status) != 0) return 0;
  const auto bytes = static_cast<uint64_t>(status.st_size);
  return bytes <= ImageStore::kMaxImageBytes ? bytes : 0;
}

bool WriteAll(int fd, const std::byte* data, size_t bytes) {
  while (bytes != 0) {
    const ssize_t wrote = write(fd, data, bytes);
    if (wrote <= 0) return false;
    data += wrote;
    bytes -= static_cast<size_t>(wrote);
  }
  return true;
}

// Reads in steps, so that a file full of holes takes no memory. `each` returns false to stop.
template <typename Each>
bool ReadSteps(int fd, uint64_t bytes, const Each& each) {
  std::vector<std::byte> step(static_cast<size_t>(std::min<uint64_t>(bytes, kStepBytes)));
  for (uint64_t at = 0; at < bytes;) {
    const size_t want = static_cast<size_t>(std::min<uint64_t>(step.size(), bytes - at));
    const ssize_t got = pread(fd, step.data(), want, static_cast<off_t>(at));
    if (got <= 0 || !each(step.data(), static_cast<size_t>(got))) return false;
    at += static_cast<uint64_t>(got);
  }
  return true;
}

class Hasher {
 public:
  Hasher() { crypto_hash_sha256_init(&state_); }
  void Add(const std::byte* data, size_t bytes) {
    crypto_hash_sha256_update(&state_, reinterpret_cast<const unsigned char*>(data), bytes);
  }
  Hash256 Finish() {
    Hash256 hash;
    crypto_hash_sha256_final(&state_, hash.data());
    return hash;
  }

 private:
  crypto_hash_sha256_state state_{};
};

struct File {
  timespec used{};
  uint64_t bytes = 0;
  std::string name;
};

// The tenant's images and what is left of unfinished ones; no folders.
std::vector<File> FilesOf(int folder) {
  std::vector<File> files;
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR*)> entries(copy < 0 ? nullptr : fdopendir(copy), closedir);
  while (entries != nullptr) {
    const dirent* entry = readdir(entries.get());
    if (entry == nullptr) break;
    struct stat status {};
    if (fstatat(folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        !S_ISDIR(status.st_mode))
      files.push_back({status.st_mtim, static_cast<uint64_t>(status.st_size), entry->d_name});
  }
  return files;
}

bool HasFile(int folder, const std::string& name) {
  struct stat status {};
  return fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode);
}

void Touch(int folder, const std::string& name) {
  utimensat(folder, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

}  // namespace

ImageWriter::ImageWriter(std::string base, Bounds bounds, std::function<void()> before_each)
    : base_(std::move(base)),
      bounds_(bounds),
      before_each_(std::move(before_each)),
      thread_([this] { Run(); }) {}

ImageWriter::~ImageWriter() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, kLastPatience, [this] { return notes_ == 0; });
  gives_up_ = true;
  lock.unlock();
  changed_.notify_all();
  thread_.join();
  for (const auto& [name, tenant] : tenants_) {
    for (const Task& task : tenant.tasks)
      if (task.file >= 0) close(task.file);
  }
}

bool ImageWriter::FitsLocked(const std::string& tenant, uint64_t session, uint64_t bytes) const {
  const auto own = sessions_.find(session);
  const auto all = tenants_.find(tenant);
  const uint64_t waiting = all == tenants_.end() ? 0 : all->second.bytes;
  return notes_ < bounds_.notes &&
         (own == sessions_.end() || own->second.notes < bounds_.session_notes) &&
         (bytes == 0 || bytes_ + bytes <= bounds_.bytes) &&
         (bytes == 0 || waiting == 0 || waiting + bytes <= bounds_.tenant_bytes);
}

bool ImageWriter::Take(ImageNote note, const std::string& tenant, uint64_t session,
                       const Hash256& hash, int* file) {
  const bool is_new = note == ImageNote::kNew;
  const uint64_t bytes = is_new && file != nullptr ? SealedBytes(*file) : 0;
  std::lock_guard lock(mutex_);
  const auto own = sessions_.find(session);
  if (base_.empty() || stopping_ || (own != sessions_.end() && own->second.is_disbelieved))
    return false;
  if (is_new && bytes == 0) {
    DisbelieveLocked(tenant, session);
    return false;
  }
  if (!FitsLocked(tenant, session, bytes)) return false;
  Tenant& all = tenants_[tenant];
  all.tasks.push_back({note, session, hash, is_new ? std::exchange(*file, -1) : -1, bytes});
  all.bytes += bytes;
  bytes_ += bytes;
  ++sessions_[session].notes;
  ++notes_;
  changed_.notify_all();
  return true;
}

void ImageWriter::DropNoteLocked(uint64_t session, uint64_t bytes, Tenant* all) {
  all->bytes -= bytes;
  bytes_ -= bytes;
  --notes_;
  const auto own = sessions_.find(session);
  if (--own->second.notes == 0 && (!own->second.is_disbelieved || own->second.has_ended))
    sessions_.erase(own);
}

void ImageWriter::DisbelieveLocked(const std::string& tenant, uint64_t session) {
  sessions_[session].is_disbelieved = true;
  const auto all = tenants_.find(tenant);
  if (all == tenants_.end()) return;
  std::deque<Task> kept;
  for (const Task& task : all->second.tasks) {
    if (task.session != session) {
      kept.push_back(task);
      continue;
    }
    if (task.file >= 0) close(task.file);
    DropNoteLocked(session, task.bytes, &all->second);
  }
  all->second.tasks = std::move(kept);
  changed_.notify_all();
}

void ImageWriter::Forget(uint64_t session) {
  std::lock_guard lock(mutex_);
  const auto own = sessions_.find(session);
  if (own == sessions_.end()) return;
  own->second.has_ended = true;
  if (own->second.notes == 0) sessions_.erase(own);
}

void ImageWriter::Drain() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return notes_ == 0; });
}

bool ImageWriter::gives_up() {
  std::lock_guard lock(mutex_);
  return gives_up_;
}

void ImageWriter::Run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), kNice);
  std::unique_lock lock(mutex_);
  while (!gives_up_)
    if (notes_ != 0)
      RunOne(lock);
    else if (stopping_)
      return;
    else
      changed_.wait(lock, [this] { return notes_ != 0 || stopping_; });
}

void ImageWriter::RunOne(std::unique_lock<std::mutex>& lock) {
  auto turn = tenants_.upper_bound(last_);  // one of each in turn: none waits behind another's many
  while (turn == tenants_.end() || turn->second.tasks.empty())
    turn = turn == tenants_.end() ? tenants_.begin() : std::next(turn);
  last_ = turn->first;
  const Task task = turn->second.tasks.front();
  turn->second.tasks.pop_front();
  lock.unlock();
  if (before_each_) before_each_();
  const bool is_so = Do(task, last_);
  if (task.file >= 0) close(task.file);
  lock.lock();
  if (!is_so) DisbelieveLocked(last_, task.session);
  DropNoteLocked(task.session, task.bytes, &turn->second);
  if (turn->second.tasks.empty()) tenants_.erase(turn);
  changed_.notify_all();
}

bool ImageWriter::Do(const Task& task, const std::string& tenant) {
  const OwnedDescriptor folder = OpenTenantImages(base_, tenant);
  if (folder.fd() < 0) return true;
  const std::string name = HexOf(task.hash);
  if (task.note == ImageNote::kNew) return Write(task, tenant, folder.fd());
  if (!HasFile(folder.fd(), name)) return true;  // swept meanwhile
  if (task.note == ImageNote::kRead) {
    Touch(folder.fd(), name);
    return true;
  }
  const OwnedDescriptor file(openat(folder.fd(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  Hasher hasher;
  const bool whole = file.fd() >= 0 && fstat(file.fd(), &status) == 0 &&
                     ReadSteps(file.fd(), static_cast<uint64_t>(status.st_size),
                               [&](const std::byte* data, size_t bytes) {
                                 hasher.Add(data, bytes);
                                 return !gives_up();
                               });
  if (whole && hasher.Finish() == task.hash) return false;
  if (!gives_up()) unlinkat(folder.fd(), name.c_str(), 0);
  return true;
}

// Written aside and renamed, so that a reader never sees half an image. A full disk only costs the
// cache.
bool ImageWriter::Write(const Task& task, const std::string& tenant, int folder) {
  const std::string name = HexOf(task.hash);
  if (HasFile(folder, name)) {
    // Whoever wrote it: every worker's user may read it.
    const OwnedDescriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    fchmod(file.fd(), kImageMode);
    Touch(folder, name);
    return true;
  }
  if (!MakeRoom(tenant, folder, task.bytes)) return true;
  std::array<uint8_t, 8> random;
  randombytes_buf(random.data(), random.size());
  const std::string aside = name + "." + HexOf(random);
  const OwnedDescriptor file(
      openat(folder, aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.fd() < 0) return true;
  Hasher hasher;
  bool wrote = true;
  const bool whole = ReadSteps(task.file, task.bytes, [&](const std::byte* data, size_t bytes) {
    hasher.Add(data, bytes);
    wrote = WriteAll(file.fd(), data, bytes);
    return wrote && !gives_up();
  });
  const bool is_so = !whole || hasher.Finish() == task.hash;
  if (!whole || !is_so || fchmod(file.fd(), kImageMode) != 0 ||
      renameat(folder, aside.c_str(), folder, name.c_str()) != 0)
    unlinkat(folder, aside.c_str(), 0);
  else
    on_disk_[tenant] += task.bytes;
  return is_so;
}

// False: it would not fit in an empty folder. What was used longest ago goes, unfinished images
// with it.
bool ImageWriter::MakeRoom(const std::string& tenant, int folder, uint64_t bytes) {
  if (bytes > bounds_.disk_bytes) return false;
  // The folder is read again only when it may be full: ImageSweep takes files away meanwhile, and
  // another server of this user may add some.
  if (auto known = on_disk_.find(tenant);
      known != on_disk_.end() && known->second + bytes <= bounds_.disk_bytes)
    return true;
  std::vector<File> files = FilesOf(folder);
  uint64_t total = 0;
  for (const File& file : files) total += file.bytes;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return std::pair(a.used.tv_sec, a.used.tv_nsec) < std::pair(b.used.tv_sec, b.used.tv_nsec);
  });
  for (const File& file : files) {
    if (total + bytes <= bounds_.disk_bytes) break;
    if (unlinkat(folder, file.name.c_str(), 0) == 0) total -= file.bytes;
  }
  if (on_disk_.size() >= kMaxTenants) on_disk_.clear();
  on_disk_[tenant] = total;
  return total + bytes <= bounds_.disk_bytes;
}

}  // namespace farcall::server
