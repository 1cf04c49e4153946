// SPDX-License-Identifier: Apache-2.0
// Signal handling of compiled kernels: sigaltstack per thread, longjmp out, everything else to the
// previous handler.
#include "cpu-device/exec/fault.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

namespace farcall::cpu_device {
namespace {

constexpr size_t kAltStackBytes = 64 << 10;

struct Guard {
  sigjmp_buf jump;
  ExecStatus status = ExecStatus::kOk;
  const char* kernel_name = "";
  char message[1024] = {};
};

// initial-exec: the handler must not allocate thread-local storage.
__attribute__((tls_model("initial-exec"))) thread_local Guard* current_guard = nullptr;
__attribute__((tls_model("initial-exec"))) thread_local uintptr_t stack_low = 0;

__attribute__((tls_model("initial-exec"))) thread_local uintptr_t shared_begin = 0;
__attribute__((tls_model("initial-exec"))) thread_local uint64_t shared_bytes = 0;

struct sigaction previous_segv, previous_bus, previous_fpe;

// An alternate stack for this thread, unless the application has given it one.
class AltStack {
 public:
  AltStack() {
    stack_t old = {};
    if (sigaltstack(nullptr, &old) == 0 && !(old.ss_flags & SS_DISABLE)) return;
    memory_ = mmap(nullptr, kAltStackBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) {
      memory_ = nullptr;
      return;
    }
    stack_t mine = {};
    mine.ss_sp = memory_;
    mine.ss_size = kAltStackBytes;
    sigaltstack(&mine, nullptr);
  }
  ~AltStack() {
    if (!memory_) return;
    stack_t off = {};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
    munmap(memory_, kAltStackBytes);
  }

 private:
  void* memory_ = nullptr;
};

void FindStackBounds() {
  if (stack_low) return;
  pthread_attr_t attributes;
  void* low = nullptr;
  size_t bytes = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
  }
  stack_low = low ? reinterpret_cast<uintptr_t>(low) : 1;
}

void Chain(int signal, siginfo_t* info, void* context, const struct sigaction& previous) {
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    // Returning runs the faulting instruction again, now with the default action.
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    if (info->si_code <= 0) raise(signal);  // sent by kill: it will not come again by itself
  }
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  Guard* guard = current_guard;
  if (!guard || info->si_code <= 0) {
    Chain(signal, info, context,
          signal == SIGSEGV  ? previous_segv
          : signal == SIGBUS ? previous_bus
                             : previous_fpe);
    return;
  }
  uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  guard->status = ExecStatus::kIllegalAddress;
  const char* what = "illegal address";
  if (signal == SIGFPE) {
    guard->status = ExecStatus::kTrap;
    what = "arithmetic trap at";
  } else if (signal == SIGBUS && info->si_code == BUS_ADRALN) {
    guard->status = ExecStatus::kMisaligned;
    what = "misaligned address";
  } else if (stack_low > 1 && address + (1 << 20) >= stack_low &&
             address < stack_low + (64 << 10)) {
    guard->status = ExecStatus::kStackOverflow;
    what = "stack overflow at";
  }
  uintptr_t shared_offset = address - shared_begin;
  if (signal == SIGSEGV && shared_begin && shared_offset < (uint64_t{4} << 30) + 4096) {
    snprintf(guard->message, sizeof(guard->message),
             "kernel %s: illegal access to shared offset 0x%llx, the shared window has %llu bytes",
             guard->kernel_name, static_cast<unsigned long long>(shared_offset),
             static_cast<unsigned long long>(shared_bytes));
    siglongjmp(guard->jump, 1);
  }
  // snprintf takes no lock and, for these conversions, no memory.
  snprintf(guard->message, sizeof(guard->message), "kernel %s: %s 0x%llx", guard->kernel_name, what,
           static_cast<unsigned long long>(address));
  siglongjmp(guard->jump, 1);
}

}  // namespace

void InstallFaultHandlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction ours = {};
    ours.sa_sigaction = OnSignal;
    // SA_NODEFER: the handler leaves by longjmp and must not leave the signal blocked.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, &previous_segv);
    sigaction(SIGBUS, &ours, &previous_bus);
    sigaction(SIGFPE, &ours, &previous_fpe);
  });
}

ExecResult RunGuarded(void (*body)(void*), void* argument, const char* kernel_name) {
  InstallFaultHandlers();
  static thread_local AltStack alt_stack;
  // Apart: a library that is opened late gets little room for its threads' static storage.
  static thread_local const std::unique_ptr<Guard> own = std::make_unique<Guard>();
  Guard& guard = *own;
  FindStackBounds();
  (void)&alt_stack;
  guard.status = ExecStatus::kOk;
  guard.message[0] = 0;
  guard.kernel_name = kernel_name;
  if (sigsetjmp(guard.jump, 0) == 0) {
    current_guard = &guard;
    body(argument);
  }
  current_guard = nullptr;
  return {guard.status, guard.message};
}

void SetSharedWindow(const void* begin, uint64_t bytes) {
  shared_begin = reinterpret_cast<uintptr_t>(begin);
  shared_bytes = bytes;
}

void RaiseFault(ExecStatus status, const char* format, ...) {
  Guard* guard = current_guard;
  guard->status = status;
  int used = snprintf(guard->message, sizeof(guard->message), "kernel %s: ", guard->kernel_name);
  if (used < 0 || used >= static_cast<int>(sizeof(guard->message))) used = 0;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(guard->message + used, sizeof(guard->message) - used, format, arguments);
  va_end(arguments);
  siglongjmp(guard->jump, 1);
}

void RaiseCancelled() {
  Guard* guard = current_guard;
  guard->status = ExecStatus::kTimeout;
  guard->message[0] = 0;
  siglongjmp(guard->jump, 1);
}

}  // namespace farcall::cpu_device
