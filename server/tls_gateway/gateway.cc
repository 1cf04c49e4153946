// SPDX-License-Identifier: Apache-2.0
#include "server/tls_gateway/gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "listener/source.h"
#include "listener/source_table.h"
#include "server/control/control_socket.h"
#include "server/control/messages.h"
#include "server/worker/helper_sandbox.h"
#include "server/worker/worker.h"
#include "transport/tls/tls_session.h"

namespace farcall::server {

namespace {

constexpr int kListener = kControlDescriptor + 1;
constexpr size_t kMaxHandshakes = 512;  // some 40 KiB each
constexpr int kAcceptsAtOnce = 64;
constexpr std::chrono::seconds kPatience(10);  // for a handshake
constexpr std::chrono::seconds kLookAgain(1);  // at the files, where somebody connects
// What epoll knows beside handshakes, by their number.
constexpr uint64_t kListenerName = ~uint64_t{0}, kControlName = kListenerName - 1;

struct FileStamp {
  timespec changed{};
  ino_t inode = 0;
  bool operator==(const FileStamp& other) const {
    return inode == other.inode && changed.tv_sec == other.changed.tv_sec &&
           changed.tv_nsec == other.changed.tv_nsec;
  }
};

// The files and the context made of them, which changes with them.
class Identity {
 public:
  explicit Identity(TlsFiles files) : files_(std::move(files)) {}

  Status Load() {
    const std::array<FileStamp, 4> stamps = Stamps();
    Result<std::shared_ptr<TlsContext>> made = TlsContext::Make(TlsContext::Side::kServer, files_);
    looked_at_ = Clock::now();
    stamps_ = stamps;  // also of files that are wrong: once is enough
    if (made.ok()) {
      context_ = *made;
    }
    return made.status();
  }
  // Handshakes that have begun keep theirs.   Errors  kInvalid: the previous ones stay
  Status LoadIfChanged() {
    if (Clock::now() < looked_at_ + kLookAgain) {
      return {};
    }
    looked_at_ = Clock::now();
    return Stamps() == stamps_ ? Status() : Load();
  }
  std::shared_ptr<TlsContext> context() const { return context_; }

 private:
  std::array<FileStamp, 4> Stamps() const {
    std::array<FileStamp, 4> stamps;
    const std::string* names[] = {&files_.certificate, &files_.key, &files_.authorities,
                                  &files_.revoked};
    for (size_t i = 0; i < stamps.size(); ++i) {
      struct stat status {};
      if (stat(names[i]->c_str(), &status) == 0) {
        stamps[i] = {status.st_mtim, status.st_ino};
      }
    }
    return stamps;
  }

  const TlsFiles files_;
  std::shared_ptr<TlsContext> context_;
  std::array<FileStamp, 4> stamps_{};
  Clock::time_point looked_at_{};
};

class Gateway {
 public:
  explicit Gateway(TlsFiles files) : identity_(std::move(files)) {}

  Status Open() {
    FARCALL_TRY(identity_.Load());
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) {
      return {Code::kUnavailable, "no descriptors"};
    }
    fcntl(kListener, F_SETFL, fcntl(kListener, F_GETFL) | O_NONBLOCK);
    Watch(EPOLL_CTL_ADD, kListener, EPOLLIN, kListenerName);
    Watch(EPOLL_CTL_ADD, kControlDescriptor, EPOLLIN, kControlName);
    return {};
  }

  // Until the supervisor is gone.
  void Run() {
    for (;;) {
      std::array<epoll_event, 64> events;
      const int count =
          epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), WaitMilliseconds());
      DropLate();
      for (int i = 0; i < count; ++i) {
        const uint64_t name = events[static_cast<size_t>(i)].data.u64;
        if (name == kControlName) {
          return;  // it says nothing: this is its end
        }
        if (name == kListenerName) {
          AcceptSome();
        } else {
          Step(name);
        }
      }
    }
  }

 private:
  struct Guest {
    Guest(std::unique_ptr<Channel> from, std::shared_ptr<TlsContext> context)
        : channel(std::move(from)), handshake(std::move(context), *channel) {}
    std::unique_ptr<Channel> channel;
    TlsHandshake handshake;
    Clock::time_point deadline = Clock::now() + kPatience;
    bool wants_write = false;
  };

  void Watch(int operation, int fd, uint32_t wanted, uint64_t name) {
    epoll_event event{};
    event.events = wanted;
    event.data.u64 = name;
    epoll_ctl(epoll_, operation, fd, &event);
  }

  int WaitMilliseconds() const {
    if (guests_.empty()) {
      return -1;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        guests_.begin()->second->deadline - Clock::now());
    return static_cast<int>(std::max<int64_t>(left.count(), 0)) + 1;
  }

  void AcceptSome() {
    if (Status loaded = identity_.LoadIfChanged(); !loaded.ok()) {
      (void)control::SendToSupervisor(kControlDescriptor,
                                      control::TlsWarning{.why = loaded.message()});
    }
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      const int fd = accept4(kListener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) {
        if ((errno == EMFILE || errno == ENFILE || errno == ENOMEM) && !guests_.empty()) {
          Drop(sources_.PickOfFullest());
          continue;
        }
        return;
      }
      while (guests_.size() >= kMaxHandshakes) {
        Drop(sources_.PickOfFullest());
      }
      const uint64_t number = next_number_++;
      sources_.Add(number, SourceOfSocket(fd), 1);
      guests_.emplace(number, std::make_unique<Guest>(AdoptSocket(fd), identity_.context()));
      Watch(EPOLL_CTL_ADD, fd, EPOLLIN, number);
    }
  }

  void Step(uint64_t number) {
    auto found = guests_.find(number);
    if (found == guests_.end()) {
      return;  // dropped since the event
    }
    Guest& guest = *found->second;
    Result<TlsHandshake::Progress> progress = guest.handshake.Step();
    if (!progress.ok()) {
      return Drop(number);
    }
    if (*progress == TlsHandshake::Progress::kDone) {
      return Pass(number, guest);
    }
    const bool wants_write = *progress == TlsHandshake::Progress::kWantsWrite;
    if (wants_write != guest.wants_write) {
      guest.wants_write = wants_write;
      Watch(EPOLL_CTL_MOD, guest.channel->Descriptor(), wants_write ? EPOLLOUT : EPOLLIN, number);
    }
  }

  void Pass(uint64_t number, Guest& guest) {
    const std::vector<std::byte> keys = EncodeTlsKeys(guest.handshake.keys());
    control::TlsConnected message;
    message.keys = std::string_view(reinterpret_cast<const char*>(keys.data()), keys.size());
    message.identity = guest.handshake.PeerIdentity();
    (void)control::SendToSupervisor(kControlDescriptor, message, {guest.channel->Descriptor()});
    Drop(number);
  }

  void Drop(uint64_t number) {
    auto found = guests_.find(number);
    if (found == guests_.end()) {
      return;
    }
    sources_.Remove(number);
    found->second->channel->Abandon();  // without a word: the supervisor may have it now
    guests_.erase(found);
  }

  void DropLate() {
    const Clock::time_point now = Clock::now();
    while (!guests_.empty() && guests_.begin()->second->deadline <= now) {
      Drop(guests_.begin()->first);
    }
  }

  Identity identity_;
  int epoll_ = -1;
  std::map<uint64_t, std::unique_ptr<Guest>> guests_;  // by number: the oldest first
  SourceTable sources_;
  uint64_t next_number_ = 0;
};

// The folders that hold the files: a file that is renamed into the place of another is seen.
std::vector<std::string> FoldersOf(const TlsFiles& files) {
  std::vector<std::string> folders;
  for (const std::string* file :
       {&files.certificate, &files.key, &files.authorities, &files.revoked}) {
    if (file->empty()) {
      continue;
    }
    std::error_code error;
    // What a link points at, as secrets are mounted in containers, and where the link is.
    const std::filesystem::path target = std::filesystem::canonical(*file, error);
    folders.push_back(std::filesystem::absolute(*file).parent_path());
    if (!error) {
      folders.push_back(target.parent_path());
    }
  }
  return folders;
}

}  // namespace

int TlsGatewayMain(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4 || fcntl(kControlDescriptor, F_GETFD) < 0 ||
      fcntl(kListener, F_GETFD) < 0) {
    return 2;  // not started by a supervisor
  }
  TlsFiles files{arguments[0], arguments[1], arguments[2], arguments[3]};
  fcntl(kControlDescriptor, F_SETFD, FD_CLOEXEC);
  fcntl(kListener, F_SETFD, FD_CLOEXEC);
  Status ready =
      ConfineHelper({.readable = FoldersOf(files), .writable = "", .uses_network = false});
  Gateway gateway(files);
  if (ready.ok()) {
    ready = gateway.Open();
  }
  if (!ready.ok()) {
    (void)control::SendToSupervisor(kControlDescriptor,
                                    control::TlsWarning{.why = ready.message()});
    return 1;
  }
  (void)control::SendToSupervisor(kControlDescriptor, control::TlsReady());
  gateway.Run();
  return 0;
}

}  // namespace farcall::server
