// SPDX-License-Identifier: Apache-2.0
#include "server/worker/sandbox/system_calls.h"

#include <asm/sockios.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "server/worker/connection/call_reporter.h"

namespace farcall::server {

namespace {

#if defined(__x86_64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#endif
constexpr uint32_t kX32Bit = 0x40000000;  // the other ABI of x86-64 numbers its calls from here
constexpr uint32_t Refusal(int error) {
  return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error);
}
constexpr uint32_t kUnknown = Refusal(ENOSYS);
constexpr long kLandlock[] = {444, 445, 446};  // newer than some build hosts' headers
constexpr long kAccess2 = 439;                 // faccessat2

// The worker's own needs, NVIDIA's driver's as published sandboxes list them, and glibc's. What
// opens or changes files is under Landlock's rules as well; what these do not cover (owners, modes,
// attributes and times of files; System V and POSIX queues) is not here. `--worker-calls report`
// showed what driver 580.159 asks for beside them.
constexpr int kAllowed[] = {
    // memory
    SYS_mmap,
    SYS_munmap,
    SYS_mprotect,
    SYS_mremap,
    SYS_madvise,
    SYS_brk,
    SYS_msync,
    SYS_mincore,
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    SYS_mlockall,
    SYS_munlockall,
    SYS_memfd_create,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_membarrier,
    // files and descriptors
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_openat,
    SYS_close,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_readlinkat,
    SYS_getdents64,
    SYS_getcwd,
    SYS_dup,
    SYS_dup3,
    SYS_pipe2,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_flock,
    SYS_unlinkat,
    SYS_mkdirat,
    SYS_renameat,
    SYS_renameat2,
    SYS_fadvise64,
    SYS_umask,
    SYS_sendfile,
    SYS_eventfd2,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_ppoll,
    SYS_pselect6,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_linkat,
#if defined(__x86_64__)
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_readlink,
    SYS_dup2,
    SYS_pipe,
    SYS_unlink,
    SYS_mkdir,
    SYS_rmdir,
    SYS_rename,
    SYS_epoll_wait,
    SYS_poll,
    SYS_select,
    SYS_eventfd,
    SYS_getdents,
    SYS_link,
    SYS_arch_prctl,
    SYS_time,
#endif
    // what is connected already
    SYS_sendto,
    SYS_recvfrom,
    SYS_sendmsg,
    SYS_recvmsg,
    SYS_sendmmsg,
    SYS_recvmmsg,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_setsockopt,
    SYS_getsockopt,
    // threads and time
    SYS_futex,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_set_tid_address,
    SYS_rseq,
    SYS_gettid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_getpriority,
    SYS_getcpu,
    SYS_nanosleep,
    SYS_clock_nanosleep,
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_gettimeofday,
    SYS_times,
    SYS_getitimer,
    SYS_setitimer,
    SYS_timer_create,
    SYS_timer_settime,
    SYS_timer_gettime,
    SYS_timer_delete,
    SYS_timer_getoverrun,
    // itself
    SYS_exit,
    SYS_exit_group,
    SYS_restart_syscall,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend,
    SYS_rt_sigpending,
    SYS_sigaltstack,
    SYS_getpid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_getresuid,
    SYS_getresgid,
    SYS_getgroups,
    SYS_getpgrp,
    SYS_getrusage,
    SYS_getrlimit,
    SYS_setrlimit,
    SYS_sysinfo,
    SYS_uname,
    SYS_getrandom,
    SYS_wait4,
    SYS_waitid,
};
#if defined(__aarch64__)
#error "kAllowed: SYS_getpgrp, SYS_getrlimit and SYS_setrlimit are x86-64's; check the list"
#endif

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
// Their runtimes look at themselves and at what a pointer leads to.
constexpr int kSanitizers[] = {SYS_process_vm_readv, SYS_personality, SYS_capget};
#endif

class Program {
 public:
  // A call of another architecture or ABI is answered here: the same numbers mean other calls
  // there, so that the list below must never judge it, nor may a report let it be made.
  Program() {
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    Jump(BPF_JEQ, kArchitecture, 1, 0);
    Add(BPF_RET | BPF_K, kUnknown);
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
#if defined(__x86_64__)
    Jump(BPF_JGE, kX32Bit, 0, 1);
    Add(BPF_RET | BPF_K, kUnknown);
#endif
  }
  void Allow(long call) {
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, 1);
    Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  // If the lower half of the argument is one of these; the kernel reads no more of such arguments.
  void AllowIf(long call, int argument, std::initializer_list<uint32_t> values) {
    const auto count = static_cast<uint8_t>(values.size());
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, static_cast<uint8_t>(2 * count + 2));
    LoadArgument(argument);
    for (uint32_t value : values) {
      Jump(BPF_JEQ, value, 0, 1);
      Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  // If the lower half of the argument is none of these.
  void AllowUnless(long call, int argument, std::initializer_list<uint32_t> values) {
    const auto count = static_cast<uint8_t>(values.size());
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, static_cast<uint8_t>(count + 3));
    LoadArgument(argument);
    uint8_t left = count;
    for (uint32_t value : values) Jump(BPF_JEQ, value, left--, 0);
    Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  // A descriptor's owner is sent signals by the kernel, whoever that is: no owner, no signal
  // chosen, none asked for.
  void AllowFcntl() {
    constexpr int kSetSignal = 10, kSetOwnerEx = 15;  // F_SETSIG, F_SETOWN_EX: glibc hides them
    Jump(BPF_JEQ, SYS_fcntl, 0, 9);
    LoadArgument(1);
    Jump(BPF_JEQ, F_SETOWN, 6, 0);
    Jump(BPF_JEQ, kSetOwnerEx, 5, 0);
    Jump(BPF_JEQ, kSetSignal, 4, 0);
    Jump(BPF_JEQ, F_SETFL, 0, 2);
    LoadArgument(2);
    Jump(BPF_JSET, O_ASYNC, 1, 0);
    Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  // Of UNIX sockets those that send nothing before they are connected.
  void AllowUnixStreams() {
    Jump(BPF_JEQ, SYS_socket, 0, 8);
    LoadArgument(0);
    Jump(BPF_JEQ, AF_UNIX, 0, 5);
    LoadArgument(1);
    Add(BPF_ALU | BPF_AND | BPF_K, ~static_cast<uint32_t>(SOCK_CLOEXEC | SOCK_NONBLOCK));
    Jump(BPF_JEQ, SOCK_SEQPACKET, 1, 0);
    Jump(BPF_JEQ, SOCK_STREAM, 0, 1);
    Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  // A thread of this process, in its namespaces.
  void AllowThreads() {
    constexpr uint32_t kNamespaces = 0x00000080 /* time */ | CLONE_NEWNS | 0x02000000 /* cgroup */ |
                                     CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |
                                     CLONE_NEWNET;
    Jump(BPF_JEQ, SYS_clone, 0, 5);
    LoadArgument(0);
    Jump(BPF_JSET, kNamespaces, 2, 0);
    Jump(BPF_JSET, CLONE_THREAD, 0, 1);
    Add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  // If the lower half of the argument is this.
  void RefuseIf(long call, int argument, uint32_t value, uint32_t answer) {
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, 4);
    LoadArgument(argument);
    Jump(BPF_JEQ, value, 0, 1);
    Add(BPF_RET | BPF_K, answer);
    Add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  }
  void Answer(long call, uint32_t answer) {
    Jump(BPF_JEQ, static_cast<uint32_t>(call), 0, 1);
    Add(BPF_RET | BPF_K, answer);
  }
  void Rest(uint32_t answer) {
    Add(BPF_RET | BPF_K, answer);
  }
  sock_fprog filter() {
    return {static_cast<unsigned short>(program_.size()), program_.data()};
  }

 private:
  void Add(int code, uint32_t value) {
    program_.push_back(BPF_STMT(static_cast<unsigned short>(code), value));
  }
  void Jump(int how, uint32_t value, uint8_t if_true, uint8_t if_false) {
    program_.push_back(
        BPF_JUMP(static_cast<unsigned short>(BPF_JMP | how | BPF_K), value, if_true, if_false));
  }
  void LoadArgument(int argument) {
    Add(BPF_LD | BPF_W | BPF_ABS,
        static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * static_cast<size_t>(argument)));
  }
  std::vector<sock_filter> program_;
};

void AllowSockets(Program* program, CallRules::Sockets sockets) {
  switch (sockets) {
    case CallRules::Sockets::kNone:
      // cuInit looks for an MPS daemon and listens on an abstract name, for processes that share
      // memory with this one; it fails where it gets no socket. Nobody is there for either.
      // Landlock lets no socket have a name in a folder.
      program->AllowUnixStreams();
      program->Allow(SYS_bind);
      program->Allow(SYS_listen);
      return program->Answer(SYS_connect, Refusal(ECONNREFUSED));
    case CallRules::Sockets::kUnix:
      program->AllowIf(SYS_socket, 0, {AF_UNIX});
      return program->Allow(SYS_connect);
    case CallRules::Sockets::kUcx:
      program->AllowUnixStreams();
      program->AllowIf(SYS_seccomp, 0, {SECCOMP_SET_MODE_FILTER});  // RefuseUnixSockets: less yet
#if defined(__x86_64__)
      program->Allow(SYS_epoll_create);  // as UCX's event sets have it
#endif
      [[fallthrough]];
    case CallRules::Sockets::kNetwork:
      program->AllowIf(SYS_socket, 0,
                       {AF_INET, AF_INET6, AF_NETLINK /* which addresses are here */});
      for (int call : {SYS_connect, SYS_bind, SYS_listen}) program->Allow(call);
      [[fallthrough]];
    case CallRules::Sockets::kAccept:
      program->Allow(SYS_accept);
      return program->Allow(SYS_accept4);
  }
}

Program MakeProgram(const CallRules& rules) {
  Program program;
  for (int call : kAllowed) program.Allow(call);
  for (long call : kLandlock) program.Allow(call);
  program.Allow(kAccess2);
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  for (int call : kSanitizers) program.Allow(call);
#endif
  const auto self = static_cast<uint32_t>(getpid());
  program.AllowThreads();
  program.AllowFcntl();
  // The generic requests that would do the same; a driver's own are not looked at.
  program.AllowUnless(SYS_ioctl, 1, {FIOASYNC, FIOSETOWN, SIOCSPGRP});
  program.AllowIf(SYS_kill, 0, {self});
  program.AllowIf(SYS_tgkill, 0, {self});
  program.AllowIf(SYS_rt_tgsigqueueinfo, 0, {self});
  program.AllowIf(SYS_prlimit64, 0, {0, self});
  program.AllowIf(SYS_sched_setaffinity, 0, {0});
  program.AllowIf(SYS_sched_setscheduler, 0, {0});
  // Not what would make it dumpable again, or let it outlive its supervisor.
  program.AllowIf(SYS_prctl, 0,
                  {PR_SET_NAME, PR_GET_NAME, PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS,
                   PR_GET_DUMPABLE, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, PR_CAPBSET_READ,
                   0x53564d41 /* PR_SET_VMA: names of mappings */});
  AllowSockets(&program, rules.sockets);
  // Those for which libraries look first: no report of each thread that begins.
  program.Answer(435 /* clone3 */, kUnknown);
#if defined(__x86_64__)
  program.Answer(SYS_symlink, Refusal(EACCES));  // as Landlock answers it; cuInit tries one
#endif
  program.Rest(rules.reports ? SECCOMP_RET_USER_NOTIF : kUnknown);
  return program;
}

}  // namespace

bool ReportsCalls() {
  const char* text = std::getenv(kReportsCallsVariable);
  return text != nullptr && std::strcmp(text, "report") == 0;
}

Status RefuseUnixSockets() {
  Program program;
  program.RefuseIf(SYS_socket, 0, AF_UNIX, Refusal(EACCES));
  program.Rest(SECCOMP_RET_ALLOW);
  sock_fprog filter = program.filter();
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) != 0)
    return {Code::kUnavailable, std::string("seccomp: ") + strerror(errno)};
  return {};
}

Status FilterSystemCalls(const CallRules& rules) {
  Program program = MakeProgram(rules);
  sock_fprog filter = program.filter();
  const unsigned flags = rules.reports ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0;
  const long listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &filter);
  if (listener < 0) return {Code::kUnavailable, std::string("seccomp: ") + strerror(errno)};
  return rules.reports ? ReportSystemCalls(static_cast<int>(listener)) : Status();
}

}  // namespace farcall::server
