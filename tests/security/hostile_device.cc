// SPDX-License-Identifier: Apache-2.0
// A worker that was taken over: the CPU device under another name, whose constructor runs inside
// the worker, behind all its walls. In the one process that takes the file `go` of the folder
// FARCALL_TEST_HOSTILE, it never returns: it speaks to the supervisor as the file says.
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "server/session/control.h"

namespace {

using farcall::server::ControlMessage;
using farcall::server::ControlType;

constexpr int kControl = 3;

std::string folder;

void Say(const std::string& text) {
  const std::string path = folder + "/said";
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string line = text + "\n";
  (void)!write(file, line.data(), line.size());
  close(file);
}

// True: it went. A full queue is waited for a moment; an end of the socket ends the process.
bool Send(const ControlMessage& message, const std::vector<int>& descriptors = {}) {
  iovec part{const_cast<ControlMessage*>(&message), sizeof(message)};
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

// What the supervisor says, while there is something.
bool Receive(ControlMessage* message) {
  return recv(kControl, message, sizeof(*message), MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof(*message));
}

[[noreturn]] void Stay() {
  Say("done");
  for (;;) pause();
}

ControlMessage Of(ControlType type, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0) {
  ControlMessage message;
  message.type = type;
  message.a = a;
  message.b = b;
  message.c = c;
  return message;
}

constexpr ControlType kOurs[] = {
    ControlType::kCharge,   ControlType::kRefund,       ControlType::kAskUsage,
    ControlType::kPeak,     ControlType::kAskProcesses, ControlType::kUnspent,
    ControlType::kRedeem,   ControlType::kDrop,         ControlType::kWantLease,
    ControlType::kLeaseUse, ControlType::kLeaseRuns,    ControlType::kLeaseDone,
    ControlType::kIdle,     ControlType::kWantNetBytes, ControlType::kNetUse,
    ControlType::kWantIn,   ControlType::kMoved,        ControlType::kSwapDone,
    ControlType::kSkipped,  ControlType::kDeviceFull};

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

// Anything a worker may say, with any content, as fast as it goes; answers are read.
[[noreturn]] void Flood() {
  std::mt19937_64 random(7);
  for (;;) {
    ControlMessage message =
        Of(kOurs[random() % std::size(kOurs)], Hostile(random), Hostile(random), Hostile(random));
    message.device = static_cast<int32_t>(random() % 4) - 2;
    message.id = random();
    for (char& letter : message.text) letter = static_cast<char>(random());
    Send(message);
    ControlMessage answer;
    while (Receive(&answer)) {
    }
  }
}

// A table that would grow for ever.
[[noreturn]] void FloodNames() {
  for (uint64_t i = 0;; ++i) {
    ControlMessage message = Of(ControlType::kSkipped, 1);
    std::snprintf(message.text, sizeof(message.text), "kernel\x1b[31m%0200llu",
                  static_cast<unsigned long long>(i));
    Send(message);
  }
}

[[noreturn]] void AskWithoutReading() {
  for (;;) Send(Of(ControlType::kAskUsage));
}

std::vector<int> Sockets() {
  std::vector<int> found;
  for (int fd = kControl + 1; fd < 256; ++fd) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0 &&
        (peer.ss_family == AF_INET || peer.ss_family == AF_INET6)) {
      found.push_back(fd);
    }
  }
  return found;
}

// The client's socket, with something in it that its peer does not read: closing it waits.
void SendLingering(ControlType type) {
  while (access((folder + "/stopped").c_str(), F_OK) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::vector<int> sockets = Sockets();
  Say("sockets " + std::to_string(sockets.size()));
  for (int fd : sockets) {
    linger lingers{1, 60};
    const bool set = setsockopt(fd, SOL_SOCKET, SO_LINGER, &lingers, sizeof(lingers)) == 0;
    std::vector<char> bytes(1 << 20);
    ssize_t went = 0, all = 0;
    while ((went = send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL)) > 0) {
      all += went;
    }
    Say("lingers " + std::to_string(set) + ", " + std::to_string(all) + " bytes");
    Send(Of(type, 0), {fd});
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
    Send(Of(ControlType::kShare), {file});
    close(file);
    ControlMessage answer;
    while (Receive(&answer)) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Stay();
}

void SendDescriptors(ControlType type, size_t count, bool pipes) {
  std::vector<int> files;
  for (size_t i = 0; i < count; ++i) {
    int ends[2] = {-1, -1};
    if (pipes) (void)!pipe(ends);
    files.push_back(pipes ? ends[0] : MemoryFile());
  }
  Send(Of(type), files);
  Send(Of(ControlType::kIdle, 1));
  Stay();
}

// Takes the device whenever it can, says all the time that it used next to nothing of it, and gives
// it back long after it was told to.
[[noreturn]] void HoldLeases(uint64_t used) {
  constexpr int kStays = 75;  // of 20 ms
  for (int told_since = 0;;) {
    Send(Of(ControlType::kWantLease));
    Send(Of(ControlType::kLeaseUse, used, 0, 0));
    ControlMessage told;
    while (Receive(&told)) {
      if (told.type == ControlType::kLeaseLimit && told_since == 0) told_since = 1;
    }
    if (told_since != 0 && ++told_since > kStays) {
      Send(Of(ControlType::kLeaseDone, 1));  // and again at once
      told_since = 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

[[noreturn]] void SayFull() {
  for (;;) {
    Send(Of(ControlType::kDeviceFull, uint64_t{1} << 30));
    Send(Of(ControlType::kMoved, uint64_t{1} << 40));
    Send(Of(ControlType::kSwapDone, 0, ~uint64_t{0} >> 3, uint64_t{1} << 30));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Act(const std::string& what) {
  if (what == "flood") Flood();
  if (what == "names") FloodNames();
  if (what == "deaf") AskWithoutReading();
  if (what == "linger") SendLingering(ControlType::kIdle);
  if (what == "linger-share") SendLingering(ControlType::kShare);
  if (what == "share") ShareMany();
  if (what == "many-descriptors") SendDescriptors(ControlType::kShare, 253, false);
  if (what == "pipe") SendDescriptors(ControlType::kShare, 1, true);
  if (what == "needless-descriptor") SendDescriptors(ControlType::kIdle, 1, false);
  if (what == "lease-zero") HoldLeases(0);
  if (what == "lease-little") HoldLeases(1);
  if (what == "full") SayFull();
  if (what == "supervisors-type") {
    Send(Of(ControlType::kStop));
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
  const char* named = std::getenv("FARCALL_TEST_HOSTILE");
  if (named == nullptr) return;
  folder = named;
  const std::string go = folder + "/go", taken = folder + "/taken";
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
