// SPDX-License-Identifier: Apache-2.0
// A worker that was taken over: the CPU device under another name, whose constructor runs inside
// the worker, in its whole sandbox. With FARCALL_TEST_HOSTILE, in the one process that takes the
// file `go` of its tenant's cache (CUDA_CACHE_PATH), it never returns: it speaks to the supervisor
// as the file says.
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include "server/control/codec.h"
#include "server/control/messages.h"

namespace {

namespace control = farcall::server::control;

constexpr int kControl = 3;

// Used before this library's own objects are made.
std::string& Folder() {
  static auto* folder = new std::string;
  return *folder;
}

void Say(const std::string& text) {
  const std::string path = Folder() + "/said";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string line = text + "\n";
  (void)!write(file, line.data(), line.size());
  close(file);
}

// True: it went. A full queue is waited for a moment; an end of the socket ends the process.
bool SendBytes(std::span<const std::byte> bytes, const std::vector<int>& descriptors = {}) {
  iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char rights[CMSG_SPACE(sizeof(int) * 253)] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    header.msg_control = rights;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * descriptors.size());
    cmsghdr* one = CMSG_FIRSTHDR(&header);
    one->cmsg_level = SOL_SOCKET;
    one->cmsg_type = SCM_RIGHTS;
    one->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(one), descriptors.data(), sizeof(int) * descriptors.size());
  }
  for (int i = 0; i < 1000; ++i) {
    if (sendmsg(kControl, &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return true;
    if (errno == EPIPE || errno == ECONNRESET) {
      Say("shut out");
      pause();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

template <control::Message M>
bool Send(const M& message, const std::vector<int>& descriptors = {}) {
  return SendBytes(control::Encoded<M>(message).bytes(), descriptors);
}

// The type of what the supervisor says, while there is something; it may be longer.
bool Receive(control::Type* type) {
  uint16_t header[2] = {};
  const ssize_t got = recv(kControl, header, sizeof(header), MSG_DONTWAIT);
  *type = static_cast<control::Type>(header[1]);
  return got == static_cast<ssize_t>(sizeof(header));
}

void ReadAll() {
  control::Type type;
  while (Receive(&type)) {
  }
}

[[noreturn]] void Stay() {
  Say("done");
  for (;;) pause();
}

uint64_t Hostile(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return 0;
    case 1:
      return ~uint64_t{0};
    case 2:
      return random() % 4;
    case 3:
      return uint64_t{1} << random() % 64;
    default:
      return random() >> random() % 64;
  }
}

// What the codec lets through: a device may still be none of the session's, an id one that was
// used.
void Fill(std::mt19937_64& random, bool* field) {
  *field = random() % 2 == 0;
}
void Fill(std::mt19937_64& random, int32_t* device) {
  *device = static_cast<int32_t>(random() % 4 != 0 ? random() % 3 : random() % 1024);
}
void Fill(std::mt19937_64& random, uint32_t* field) {
  *field = static_cast<uint32_t>(Hostile(random));
}
void Fill(std::mt19937_64& random, uint64_t* field) {
  *field = Hostile(random);
}
void Fill(std::mt19937_64& random, control::SwapOutcome* field) {
  *field = static_cast<control::SwapOutcome>(random() % 4);
}
template <size_t kBound>
void Fill(std::mt19937_64& random, control::Text<kBound>* field) {
  std::string text(random() % (kBound + 1), ' ');
  for (char& letter : text) letter = static_cast<char>(random());
  *field = text;
}

// One of each but Share and Ended, which attacks of their own send.
template <typename M>
void SendAny(std::mt19937_64& random) {
  M message;
  std::apply([&](auto&... field) { (Fill(random, &field), ...); }, M::Fields(message));
  if constexpr (requires { message.id; }) message.id = random() | 1;
  Send(message);
}

template <typename... Ms>
void SendOneOf(std::mt19937_64& random) {
  void (*const senders[])(std::mt19937_64&) = {SendAny<Ms>...};
  senders[random() % sizeof...(Ms)](random);
}

// Anything a worker may say, with any content, as fast as it goes; answers are read.
[[noreturn]] void Flood() {
  using namespace control;  // NOLINT
  std::mt19937_64 random(7);
  for (;;) {
    SendOneOf<Charge, Refund, AskUsage, Peak, AskProcesses, Unspent, Redeem, Drop, WantLease,
              LeaseUse, LeaseRuns, LeaseDone, Idle, WantNetBytes, NetUse, WantIn, Moved, SwapDone,
              Skipped, DeviceFull>(random);
    ReadAll();
  }
}

// A table that would grow for ever.
[[noreturn]] void FloodNames() {
  for (uint64_t i = 0;; ++i) {
    char name[240];
    std::snprintf(name, sizeof(name), "kernel\x1b[31m%0200llu", static_cast<unsigned long long>(i));
    Send(control::Skipped{.kernel = name, .launches = 1});
  }
}

[[noreturn]] void AskWithoutReading() {
  for (;;) Send(control::AskUsage{.id = 1});
}

std::vector<int> Sockets() {
  std::vector<int> found;
  for (int fd = kControl + 1; fd < 256; ++fd) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6))
      found.push_back(fd);
  }
  return found;
}

// The client's socket, with something in it that its peer does not read: closing it waits.
template <control::Message M>
void SendLingering(const M& message) {
  while (access((Folder() + "/stopped").c_str(), F_OK) != 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::vector<int> sockets = Sockets();
  Say("sockets " + std::to_string(sockets.size()));
  for (int fd : sockets) {
    linger lingers{1, 60};
    const bool set = setsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, sizeof(lingers)) == 0;
    std::vector<char> bytes(1 << 20);
    ssize_t went = 0, all = 0;
    while ((went = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0)
      all += went;
    Say("lingers " + std::to_string(set) + ", " + std::to_string(all) + " bytes");
    Send(message, {fd});
    close(fd);
  }
  Stay();
}

int MemoryFile() {
  return memfd_create("hostile", MFD_CLOEXEC);
}

// The worker's own thread reads some of the answers: what is granted, the test sees by the server's
// descriptors.
void ShareMany() {
  for (int i = 0; i < 400; ++i) {
    const int file = MemoryFile();
    Send(control::Share{.id = 1}, {file});
    close(file);
    ReadAll();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Stay();
}

template <control::Message M>
void SendDescriptors(const M& message, size_t count, bool pipes) {
  std::vector<int> files;
  for (size_t i = 0; i < count; ++i) {
    int ends[2] = {-1, -1};
    if (pipes) (void)!pipe(ends);
    files.push_back(pipes ? ends[0] : MemoryFile());
  }
  Send(message, files);
  Send(control::Idle{.is_idle = true});
  Stay();
}

// Takes the device whenever it can, says all the time that it used next to nothing of it, and gives
// it back long after it was told to.
[[noreturn]] void HoldLeases(uint64_t used) {
  constexpr int kStays = 75;  // of 20 ms
  for (int told_since = 0;;) {
    Send(control::WantLease{});
    Send(control::LeaseUse{.used_ns = used});
    control::Type told;
    while (Receive(&told))
      if (told == control::Type::kLeaseLimit && told_since == 0) told_since = 1;
    if (told_since != 0 && ++told_since > kStays) {
      Send(control::LeaseDone{.wants_next = true});  // and again at once
      told_since = 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

[[noreturn]] void SayFull() {
  for (;;) {
    Send(control::DeviceFull{.bytes = uint64_t{1} << 30});
    Send(control::Moved{.out_bytes = uint64_t{1} << 40});
    Send(control::SwapDone{.outcome = control::SwapOutcome::kOut,
                           .took_ns = ~uint64_t{0} >> 3,
                           .moved_bytes = uint64_t{1} << 30});
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// A message of a worker's, but for one thing.
void SendMalformed(const std::string& what) {
  const control::Encoded<control::SwapDone> good(control::SwapDone{});
  std::vector<std::byte> bytes(good.bytes().begin(), good.bytes().end());
  if (what == "other-version") bytes[0] = std::byte{2};
  if (what == "other-magic") bytes[1] = std::byte{0};
  if (what == "unknown-type") bytes[3] = std::byte{0x7F};
  if (what == "wrong-enum") bytes[control::kHeaderBytes] = std::byte{4};
  if (what == "cut") bytes.pop_back();
  if (what == "trailing") bytes.push_back(std::byte{0});
  if (what == "too-long") bytes.resize(control::kMaxMessageBytes + 1);
  SendBytes(bytes);
  Stay();
}

// Lines of others, a terminal's commands, a line without end, and 100 MB of it.
void WriteErrors() {
  std::string text = "\x1b]0;owned\x07\x1b[2J\n2026-01-01T00:00:00.000 info session 1: forged\r\n";
  text += std::string(8192, 'x') + "\n";
  size_t lines = 0;
  for (size_t bytes = 0; bytes < 100'000'000; bytes += text.size()) {
    (void)!write(STDERR_FILENO, text.data(), text.size());
    lines += 3;
  }
  Say("wrote " + std::to_string(lines) + " lines");
  Stay();
}

// As glibc ends a process whose heap is damaged.
void DamageHeap() {
  alignas(16) static char block[64];
  char* volatile nowhere = block + 8;
  free(nowhere);
}

// Charges, and dies; a child that it leaves keeps the control socket and the client's. Only a
// server with --worker-calls report lets it make one.
void LeaveChild() {
  Send(control::Charge{.id = 1, .bytes = uint64_t{100} << 20});
  // The worker's own thread reads the answer.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  // Not fork(): it holds the lock of stdio, which the thread that reports the call needs.
  const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    Say("child " + std::to_string(getpid()) + " keeps " + std::to_string(Sockets().size()) +
        " sockets");
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
  std::this_thread::sleep_for(std::chrono::seconds(child > 0 ? 1 : 0));
  raise(SIGKILL);
}

// The tenant's images: a descriptor of them lies somewhere. Its folder of compiled kernels, which
// is its own to write, is named so.
int ImageFolder() {
  for (int fd = kControl + 1; fd < 256; ++fd) {
    struct stat status {};
    char path[4096] = {};
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode) &&
        readlink(link.c_str(), path, sizeof(path) - 1) > 0 && strstr(path, "/server/") != nullptr &&
        strstr(path, "/of-") == nullptr)
      return fd;
  }
  return -1;
}

// Plants and deletes images by itself, and then has the supervisor do it: with bytes of another
// hash, with a file that can still change, by calling what is whole corrupt, and all the time.
[[noreturn]] void AttackImages() {
  const int images = ImageFolder();
  Say("images " + std::to_string(images));
  for (const std::string& before :
       {std::string(), "/proc/self/fd/" + std::to_string(images) + "/"}) {
    const std::string planted = before + std::string(64, 'a');
    if (openat(images, planted.c_str(), O_WRONLY | O_CREAT, 0600) >= 0) Say("planted");
    if (mkdirat(images, (before + "folder").c_str(), 0700) == 0) Say("planted a folder");
  }
  DIR* entries = fdopendir(dup(images));
  control::ImageRead corrupt;
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries)) {
    if (strlen(entry->d_name) != 64) continue;
    Say("sees an image");
    if (openat(images, entry->d_name, O_RDWR) >= 0) Say("opened for writing");
    if (unlinkat(images, entry->d_name, 0) == 0) Say("deleted");
    if (renameat(images, entry->d_name, images, "other") == 0) Say("renamed");
    for (int i = 0; i < 32; ++i) {
      corrupt.hash[static_cast<size_t>(i)] =
          static_cast<uint8_t>(std::stoi(std::string(entry->d_name + 2 * i, 2), nullptr, 16));
    }
  }
  Send(corrupt);
  Say("asked");
  std::mt19937_64 random(7);
  for (uint64_t i = 0;; ++i) {
    const int file = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    (void)!ftruncate(file, i % 2 == 0 ? off_t{1} << 30 : 1 << 10);
    if (i % 4 != 3) fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
    control::KeepImage keep;
    for (uint8_t& byte : keep.hash) byte = static_cast<uint8_t>(random());
    Send(keep, {file});
    close(file);
    Send(control::ImageRead{.hash = keep.hash});
  }
}

void Act(const std::string& what) {
  constexpr std::string_view kMalformed = "malformed-";
  if (what.rfind(kMalformed, 0) == 0) SendMalformed(what.substr(kMalformed.size()));
  if (what == "flood") Flood();
  if (what == "names") FloodNames();
  if (what == "deaf") AskWithoutReading();
  if (what == "linger") SendLingering(control::Idle{});
  if (what == "linger-share") SendLingering(control::Share{.id = 1});
  if (what == "share") ShareMany();
  if (what == "many-descriptors") SendDescriptors(control::Share{.id = 1}, 253, false);
  if (what == "pipe") SendDescriptors(control::Share{.id = 1}, 1, true);
  if (what == "needless-descriptor") SendDescriptors(control::Idle{}, 1, false);
  if (what == "lease-zero") HoldLeases(0);
  if (what == "lease-little") HoldLeases(1);
  if (what == "full") SayFull();
  if (what == "child") LeaveChild();
  if (what == "stderr") WriteErrors();
  if (what == "heap") DamageHeap();
  if (what == "images") AttackImages();
  if (what == "supervisors-type") {
    Send(control::Stop{});
    Stay();
  }
  if (what == "short") {
    (void)!send(kControl, "short", 5, MSG_NOSIGNAL);
    Stay();
  }
  if (what == "silent") Stay();
  Say("unknown: " + what);
}

__attribute__((constructor)) void Begin() {
  const char* named = std::getenv("CUDA_CACHE_PATH");
  if (named == nullptr || *named == 0 || std::getenv("FARCALL_TEST_HOSTILE") == nullptr) return;
  Folder() = named;
  const std::string go = Folder() + "/go", taken = Folder() + "/taken";
  char what[64] = {};
  const int file = open(go.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  const ssize_t bytes = read(file, what, sizeof(what) - 1);
  close(file);
  if (bytes <= 0 || rename(go.c_str(), taken.c_str()) != 0) return;
  Say("pid " + std::to_string(getpid()));
  Act(what);
}

}  // namespace
