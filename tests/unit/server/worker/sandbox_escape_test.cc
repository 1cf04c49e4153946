// SPDX-License-Identifier: Apache-2.0
// A program in the worker's place, in the sandbox that needs no privilege, tries to get out. Each
// layer is tried alone as well.
#include <arpa/inet.h>
#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "server/confine/landlock.h"
#include "server/worker/sandbox/helper_sandbox.h"
#include "server/worker/sandbox/sandbox.h"
#include "server/worker/sandbox/system_calls.h"
#include "server/worker/warm_worker.h"
#include "tests/unit/server/worker/in_child.h"

namespace farcall::server {
namespace {

namespace fs = std::filesystem;

class SandboxEscapeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/farcall-escape-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    fs::create_directories(folder_ + "/own");
    fs::create_directories(folder_ + "/images");
    std::ofstream(folder_ + "/images/image") << "an image";
    fs::create_directories(folder_ + "/other");
    fs::create_directories(folder_ + "/shared");
    std::ofstream(folder_ + "/secret") << "canary";
    std::ofstream(folder_ + "/other/image") << "canary";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // As a worker gets them: the tenant's by descriptors.
  WorkerFiles Files() const {
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    WorkerFiles files;
    files.readable = ReadableFiles("");
    files.images = open((folder_ + "/images").c_str(), flags);
    files.kernels = open((folder_ + "/own").c_str(), flags);
    files.shared_folder = folder_ + "/shared";
    return files;
  }

  std::string folder_;
};

// It reads the images, and that is all.
std::string TryImages(int images) {
  const std::string again = "/proc/self/fd/" + std::to_string(images);
  std::string said;
  char text[16] = {};
  const int image = openat(images, "image", O_RDONLY | O_NOFOLLOW);
  if (read(image, text, sizeof(text)) != 8) said += "an image cannot be read; ";
  for (const std::string& folder : {std::string("."), again}) {
    const std::string at = folder == "." ? "" : folder + "/";
    auto path = [&](const char* name) { return at + name; };
    said +=
        Fails("a new image", openat(images, path("new").c_str(), O_WRONLY | O_CREAT, 0600), EACCES);
    said += Fails("write to an image", openat(images, path("image").c_str(), O_RDWR), EACCES);
    said +=
        Fails("empty an image", openat(images, path("image").c_str(), O_WRONLY | O_TRUNC), EACCES);
    said += Fails("delete an image", unlinkat(images, path("image").c_str(), 0), EACCES);
    said += Fails("rename an image",
                  renameat(images, path("image").c_str(), images, path("other").c_str()), EACCES);
    said += Fails("a folder", mkdirat(images, path("folder").c_str(), 0700), EACCES);
    said += Fails("leave the folder", openat(images, path("../secret").c_str(), O_RDONLY), EACCES);
  }
  if (linkat(images, "image", images, "link", 0) == 0) said += "an image was linked; ";
  return said;
}

// The kernel sends a descriptor's owner signals: SIGIO, or one that is chosen.
std::string TryOwners(pid_t parent) {
  struct {
    int type = 1;  // F_OWNER_PID
    pid_t pid;
  } owner{.pid = parent};
  int ends[2], async = 1;
  if (pipe(ends) != 0) return "no pipe; ";
  std::string said;
  said += Fails("F_SETOWN", fcntl(ends[0], F_SETOWN, parent), ENOSYS);
  said += Fails("F_SETOWN_EX", fcntl(ends[0], F_SETOWN_EX, &owner), ENOSYS);
  said += Fails("F_SETSIG", fcntl(ends[0], F_SETSIG, SIGKILL), ENOSYS);
  said += Fails("O_ASYNC", fcntl(ends[0], F_SETFL, O_NONBLOCK | O_ASYNC), ENOSYS);
  said += Fails("FIOASYNC", ioctl(ends[0], FIOASYNC, &async), ENOSYS);
  said += Fails("FIOSETOWN", ioctl(ends[0], FIOSETOWN, &parent), ENOSYS);
  said += Fails("SIOCSPGRP", ioctl(ends[0], SIOCSPGRP, &parent), ENOSYS);
  // The kernel looks at the lower half of a request alone.
  said += Fails("FIOASYNC with more",
                syscall(SYS_ioctl, ends[0], uint64_t{1} << 32 | FIOASYNC, &async), ENOSYS);
  said += fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0 && fcntl(ends[0], F_GETFL) == O_NONBLOCK
              ? ""
              : "flags cannot be set; ";
  int bytes = -1;
  said += ioctl(ends[0], FIONREAD, &bytes) == 0 && bytes == 0 ? "" : "no ioctl; ";
  close(ends[0]);
  close(ends[1]);
  return said;
}

#if defined(__x86_64__)
// By the system call entry of 32-bit programs; the answer as the kernel gives it, -errno.
long Call386(int number) {
  long answer = number;
  asm volatile("int $0x80"
               : "+a"(answer)
               : "b"(0), "c"(0), "d"(0)
               : "r8", "r9", "r10", "r11", "memory");
  return static_cast<int>(answer);
}

// The numbers of other ABIs mean other calls: what the list of this one allows says nothing.
std::string TryForeignCalls() {
  constexpr int kMkdir386 = 39;      // here getpid, which is allowed
  constexpr int kGetpid386 = 20;     // here writev
  constexpr long kX32 = 0x40000000;  // and the number
  std::string said;
  for (int number : {kMkdir386, kGetpid386, 0, -1})
    if (long answer = Call386(number); answer != -ENOSYS)
      said += "i386 call " + std::to_string(number) + ": " + std::to_string(answer) + "; ";
  said += Fails("x32 getpid", syscall(kX32 | SYS_getpid), ENOSYS);
  said += Fails("x32 execve", syscall(kX32 | 520, "/bin/true", 0, 0), ENOSYS);
  return said;
}
#else
std::string TryForeignCalls() {
  return "";
}
#endif

std::string TryProcesses(pid_t parent) {
  std::string said;
  said += Fails("fork", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), ENOSYS);
  said += Fails("clone3", syscall(435, nullptr, 0), ENOSYS);
  said += Fails("new user namespace",
                syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0), ENOSYS);
  said += Fails("unshare", syscall(SYS_unshare, CLONE_NEWUSER), ENOSYS);
  said += Fails("setns", syscall(SYS_setns, 0, 0), ENOSYS);
  said += Fails("execve", execl("/bin/true", "true", nullptr), ENOSYS);
  said += Fails("ptrace", syscall(SYS_ptrace, 16, parent, 0, 0), ENOSYS);
  said += Fails("process_vm_writev", syscall(SYS_process_vm_writev, parent, 0, 0, 0, 0, 0), ENOSYS);
  said += Fails("pidfd_open", syscall(434, parent, 0), ENOSYS);
  said += Fails("pidfd_getfd", syscall(438, 0, 0, 0), ENOSYS);
  said += Fails("kill the supervisor", kill(parent, SIGTERM), ENOSYS);
  said += Fails("kill all", kill(-1, SIGTERM), ENOSYS);
  said += Fails("tgkill", syscall(SYS_tgkill, parent, parent, SIGTERM), ENOSYS);
  said += Fails("rt_sigqueueinfo", syscall(SYS_rt_sigqueueinfo, parent, 0, 0), ENOSYS);
  rlimit limit{};
  said += Fails("prlimit64", syscall(SYS_prlimit64, parent, RLIMIT_NOFILE, 0, &limit), ENOSYS);
  said += Fails("io_uring_setup", syscall(425, 1, nullptr), ENOSYS);
  said += Fails("userfaultfd", syscall(SYS_userfaultfd, 0), ENOSYS);
  said += Fails("bpf", syscall(SYS_bpf, 0, 0, 0), ENOSYS);
  said += Fails("perf_event_open", syscall(SYS_perf_event_open, 0, 0, 0, 0, 0), ENOSYS);
  said += Fails("keyctl", syscall(SYS_keyctl, 0, 0, 0), ENOSYS);
  said += Fails("mount", syscall(SYS_mount, "a", "b", "c", 0, 0), ENOSYS);
  said += Fails("fsopen", syscall(430, "tmpfs", 0), ENOSYS);
  said += Fails("open_tree", syscall(428, -1, "/", 0), ENOSYS);
  said += Fails("chmod", syscall(SYS_fchmodat, AT_FDCWD, "/tmp", 0777), ENOSYS);
  said += Fails("chown", syscall(SYS_fchownat, AT_FDCWD, "/tmp", 0, 0, 0), ENOSYS);
  said += Fails("shmget", syscall(SYS_shmget, 1, 1, 0), ENOSYS);
  said += Fails("setuid", syscall(SYS_setuid, 0), ENOSYS);
  said += Fails("dumpable", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), ENOSYS);
  said += Fails("outlive its parent", prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0), ENOSYS);
  said += Fails("renice all", setpriority(PRIO_USER, 0, 10), ENOSYS);
  return said + TryOwners(parent);
}

std::string TryNoSockets() {
  std::string said;
  for (int family : {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK})
    said += Fails("socket", socket(family, SOCK_STREAM, 0), ENOSYS);
  return said + Fails("connect", syscall(SYS_connect, 0, nullptr, 0), ENOSYS);
}

int Bind(int socket, const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path, sizeof(address.sun_path));
  return bind(socket, reinterpret_cast<const sockaddr*>(&address),
              static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size()));
}

// What cuInit wants: a socket that it can listen on. Nothing can be sent by one.
std::string TryDeadSockets() {
  std::string said;
  for (int family : {AF_INET, AF_INET6, AF_NETLINK})
    said += Fails("socket", socket(family, SOCK_STREAM, 0), ENOSYS);
  said += Fails("datagrams", socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), ENOSYS);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const std::string name = std::string("\0farcall-test-", 14) + std::to_string(getpid());
  if (listener < 0 || Bind(listener, name) != 0 || listen(listener, 1) != 0)
    said += "it cannot listen; ";
  const int visitor = socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  said +=
      Fails("connect", connect(visitor, reinterpret_cast<sockaddr*>(&address), 8), ECONNREFUSED);
  said += Fails("accept", accept(listener, nullptr, nullptr), ENOSYS);
  close(listener);
  close(visitor);
  return said;
}

std::string TryNames(const std::string& folder) {
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string said = Fails("a socket's name", Bind(listener, folder + "/shared/listener"), EACCES);
  close(listener);
  return said + Fails("a link", symlink("/etc/passwd", (folder + "/shared/link").c_str()), EACCES);
}

std::string TryCalls(pid_t parent) {
  return TryProcesses(parent) + TryDeadSockets() + TryForeignCalls();
}

std::string TryFiles(const std::string& folder, pid_t parent) {
  std::string said;
  const std::string process = "/proc/" + std::to_string(parent);
  for (const std::string& file :
       {folder + "/secret", folder + "/other/image", process + "/mem", process + "/environ",
        process + "/maps", std::string("/etc/passwd"), std::string("/etc/shadow"),
        std::string("/dev/mem"), std::string("/var/log/dpkg.log")})
    if (int fd = open(file.c_str(), O_RDONLY); fd >= 0 || (errno != EACCES && errno != ENOENT))
      said += file + " can be read; ";
  said += Fails("write aside", open((folder + "/new").c_str(), O_WRONLY | O_CREAT, 0600), EACCES);
  said += Fails("write to a library", open("/usr/lib/farcall-escape", O_WRONLY | O_CREAT, 0600),
                EACCES);
  said += Fails("write to another's cache",
                open((folder + "/other/new").c_str(), O_WRONLY | O_CREAT, 0600), EACCES);
  said += Fails("list processes", open("/proc", O_RDONLY | O_DIRECTORY), EACCES);
  said += Fails("share with all", open("/dev/shm/farcall-escape", O_RDWR | O_CREAT, 0600), EACCES);
  said += Fails("list what others share", open("/dev/shm", O_RDONLY | O_DIRECTORY), EACCES);
  if (int fd = open((folder + "/own/new").c_str(), O_WRONLY | O_CREAT, 0600); fd < 0)
    said += "its own cache cannot be written; ";
  for (const char* file : {"/proc/self/maps", "/proc/meminfo", "/dev/null", "/etc/ld.so.cache"})
    if (open(file, O_RDONLY) < 0) said += std::string(file) + " cannot be read; ";
  return said;
}

std::string TryShared(const std::string& folder) {
  std::string said =
      Fails("a folder where it shares", mkdir((folder + "/shared/deep").c_str(), 0700), EACCES);
  if (open((folder + "/shared/new").c_str(), O_RDWR | O_CREAT, 0600) < 0 ||
      unlink((folder + "/shared/new").c_str()) != 0)
    said += "it cannot share; ";
  return said;
}

TEST_F(SandboxEscapeTest, SystemCallsAloneKeepItIn) {
  const pid_t parent = getpid();
  EXPECT_EQ(InChild([&]() -> std::string {
              prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
              Status filtered = FilterSystemCalls({});
              return filtered.ok() ? TryCalls(parent) : filtered.message();
            }),
            "");
}

TEST_F(SandboxEscapeTest, RulesOfFilesAloneKeepItIn) {
  if (LandlockRules::Version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const pid_t parent = getpid();
  EXPECT_EQ(InChild([&]() -> std::string {
              const WorkerFiles files = Files();
              Status confined = ConfineFiles(files);
              return confined.ok()
                         ? TryFiles(folder_, parent) + TryImages(files.images) + TryShared(folder_)
                         : confined.message();
            }),
            "");
}

// What a session over UCX needs, and no more: sockets of IP, none of this machine's once the driver
// has started.
TEST_F(SandboxEscapeTest, AUcxWorkerReachesTheNetworkAndNoUnixSocket) {
  EXPECT_EQ(InChild([&]() -> std::string {
              prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
              CallRules rules;
              rules.sockets = CallRules::Sockets::kUcx;
              if (Status filtered = FilterSystemCalls(rules); !filtered.ok())
                return filtered.message();
              std::string said = socket(AF_UNIX, SOCK_STREAM, 0) >= 0 ? "" : "no driver's socket; ";
              std::thread late([&] {
                // Of all threads, also of those that are there already.
                if (!RefuseUnixSockets().ok()) said += "not refused; ";
              });
              late.join();
              const int other = socket(AF_UNIX, SOCK_STREAM, 0);
              said += other < 0 && errno == EACCES ? "" : "a UNIX socket; ";
              const int own = socket(AF_INET, SOCK_STREAM, 0);
              sockaddr_in address{};
              address.sin_family = AF_INET;
              address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
              socklen_t bytes = sizeof(address);
              const bool listens =
                  bind(own, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
                  listen(own, 1) == 0 &&
                  getsockname(own, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
              const int peer = socket(AF_INET, SOCK_STREAM, 0);
              said += listens && connect(peer, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
                              accept(own, nullptr, nullptr) >= 0
                          ? ""
                          : "no network; ";
              said += Fails("start a process", syscall(SYS_fork), ENOSYS);
              return said;
            }),
            "");
}

TEST_F(SandboxEscapeTest, BothTogetherLeaveThreadsAndOwnFiles) {
  if (LandlockRules::Version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const pid_t parent = getpid();
  EXPECT_EQ(InChild([&]() -> std::string {
              Confine();
              SandboxRules rules;
              rules.files = Files();
              Status entered = EnterSandbox(rules);
              if (!entered.ok()) return entered.message();
              int ran = 0;
              std::thread([&] { ran = 1; }).join();
              std::string said = ran == 1 ? "" : "no thread; ";
              said += raise(0) == 0 ? "" : "no signal to itself; ";
              said += prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? "" : "its memory is open; ";
              said += TryFiles(folder_, parent) + TryImages(rules.files.images);
              said += Fails("change an image's mode", fchmod(rules.files.images, 0777), ENOSYS);
              return said + TryCalls(parent) + TryNames(folder_) + TryShared(folder_);
            }),
            "");
}

// Before its tenant is known it reaches all tenants' folders, and nothing else; then its own alone.
TEST_F(SandboxEscapeTest, AWarmWorkerIsNarrowedToItsTenant) {
  if (LandlockRules::Version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const pid_t parent = getpid();
  EXPECT_EQ(InChild([&]() -> std::string {
              Confine();
              const WorkerFiles tenant = Files();
              SandboxRules common;
              common.files.readable = ReadableFiles("");
              common.files.shared_folder = tenant.shared_folder;
              for (const char* cache : {"/images", "/own", "/other"})
                common.files.caches.push_back(open((folder_ + cache).c_str(), O_PATH | O_CLOEXEC));
              if (Status entered = EnterSandbox(common); !entered.ok()) return entered.message();
              std::string said = TryCalls(parent);
              said += open((folder_ + "/other/image").c_str(), O_RDONLY) < 0 ? "no caches; " : "";
              said += Fails("read aside", open((folder_ + "/secret").c_str(), O_RDONLY), EACCES);
              if (Status narrowed = NarrowTo(tenant); !narrowed.ok()) return narrowed.message();
              char name[16] = {};
              prctl(PR_GET_NAME, name, 0, 0, 0);
              said += std::string(name) == "farcall-worker" ? "" : "its name is not a session's; ";
              return said + TryFiles(folder_, parent) + TryImages(tenant.images) +
                     TryCalls(parent) + TryShared(folder_);
            }),
            "");
}

// cuInit comes after that, where the device's library starts threads.
TEST_F(SandboxEscapeTest, ANarrowedWorkerStillReachesNvidiasNodes) {
  if (LandlockRules::Version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  const std::string node = "/dev/nvidia-farcall-test-" + std::to_string(getpid());
  if (!std::ofstream(node)) GTEST_SKIP() << "no file can be made in /dev";
  EXPECT_EQ(InChild([&]() -> std::string {
              SandboxRules common;
              common.files.readable = ReadableFiles("");
              if (Status entered = EnterSandbox(common); !entered.ok()) return entered.message();
              if (Status narrowed = NarrowTo(Files()); !narrowed.ok()) return narrowed.message();
              return open(node.c_str(), O_RDWR) < 0 ? strerror(errno) : "";
            }),
            "");
  std::filesystem::remove(node);
}

// Landlock would leave the other thread out.
TEST_F(SandboxEscapeTest, AWarmWorkerWithThreadsGetsNoTenant) {
  if (LandlockRules::Version() == 0) GTEST_SKIP() << "this kernel has no Landlock";
  EXPECT_EQ(InChild([&]() -> std::string {
              std::thread([] { pause(); }).detach();
              return NarrowTo(Files()).message();
            }),
            kHasThreads);
}

// A connection over the loopback, from a socket of its own to one that it listens on.
std::string TryNetwork() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0), visitor = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof(address);
  auto* named = reinterpret_cast<sockaddr*>(&address);
  const bool met = bind(listener, named, bytes) == 0 && listen(listener, 1) == 0 &&
                   getsockname(listener, named, &bytes) == 0 &&
                   connect(visitor, named, bytes) == 0 && accept(listener, nullptr, nullptr) >= 0;
  return met ? "" : std::string("no network: ") + strerror(errno) + "; ";
}

TEST_F(SandboxEscapeTest, AHelperHasItsSocketsAndFilesAlone) {
  const pid_t parent = getpid();
  const bool has_rules = LandlockRules::Version() > 0;
  for (const bool uses_network : {false, true}) {
    EXPECT_EQ(InChild([&]() -> std::string {
                HelperRules rules;
                rules.uses_network = uses_network;
                rules.writable = folder_ + "/own";
                rules.readable = {folder_ + "/authority"};
                std::ofstream(rules.readable[0]) << "certificate";
                if (Status confined = ConfineHelper(rules); !confined.ok())
                  return confined.message();
                std::string said = uses_network ? TryNetwork() : TryNoSockets();
                said += Fails("AF_UNIX", socket(AF_UNIX, SOCK_STREAM, 0), ENOSYS);
                if (open(rules.readable[0].c_str(), O_RDONLY) < 0) said += "no authority; ";
                said += CanReadStill(rules.readable) ? "" : "its files are said to be new; ";
                if (has_rules) {
                  said += TryFiles(folder_, parent);
                  said += CanReadStill({folder_ + "/secret"}) ? "a new file is not noticed; " : "";
                }
                return said + TryProcesses(parent) + TryForeignCalls();
              }),
              "");
  }
}

TEST_F(SandboxEscapeTest, WhatIsReportedIsAllowed) {
  EXPECT_EQ(InChild([&]() -> std::string {
              prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
              Status filtered = FilterSystemCalls({CallRules::Sockets::kNone, true});
              if (!filtered.ok()) return filtered.message();
              if (syscall(SYS_fchmodat, AT_FDCWD, folder_.c_str(), 0700) != 0) return "refused";
              return TryForeignCalls();
            }),
            "");
}

TEST_F(SandboxEscapeTest, ItEndsWithTheThreadThatStartedIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  pid_t between = fork();
  if (between == 0) {
    pid_t child = fork();
    if (child == 0) {
      EndWithParent();
      (void)!write(ends[1], "x", 1);
      pause();
      _exit(0);
    }
    char ready = 0;
    (void)!read(ends[0], &ready, 1);
    _exit(0);
  }
  close(ends[1]);
  waitpid(between, nullptr, 0);
  char rest = 0;
  EXPECT_EQ(read(ends[0], &rest, 1), 0) << "its end of the pipe is closed: it was killed";
  close(ends[0]);
}

}  // namespace
}  // namespace farcall::server
