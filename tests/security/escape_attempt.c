// SPDX-License-Identifier: Apache-2.0
// Preloaded into a server, this is code of an attacker in its helper processes: in each that has
// built its walls, it tries once to get out, and says on the standard error how that went.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static int IsConfined(void) {
  char text[4096] = {0};
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t bytes = read(file, text, sizeof(text) - 1);
  close(file);
  return bytes > 0 && strstr(text, "\nSeccomp:\t2") != NULL;
}

// 0: it went through.
static int Fails(long result) {
  return result < 0 ? errno : 0;
}

static void Try(void) {
  static int done;
  const char* canary = getenv("FARCALL_TEST_CANARY");
  if (canary == NULL || done || !IsConfined()) return;
  done = 1;
  char command[256] = {0};
  const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t bytes = file < 0 ? 0 : read(file, command, sizeof(command) - 1);
  for (ssize_t i = 0; i + 1 < bytes; ++i)
    if (command[i] == 0) command[i] = ' ';
  const int opened = Fails(open(canary, O_RDONLY | O_CLOEXEC));
  const int written = Fails(open("/dev/shm/farcall-escape", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const int traced = Fails(syscall(SYS_ptrace, 16 /* attach */, getppid(), 0, 0));
  int forked = 0, executed = 0;
  if (getenv("FARCALL_TEST_STAYS") == NULL) {  // where these would go through
    const long child = syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
    if (child == 0) _exit(0);
    forked = Fails(child);
    char* const arguments[] = {"true", NULL};
    executed = Fails(execv("/bin/true", arguments));
  }
  char line[512];
  const int length =
      snprintf(line, sizeof(line), "escape open %d write %d ptrace %d fork %d exec %d by %s\n",
               opened, written, traced, forked, executed, command);
  (void)!write(STDERR_FILENO, line, (size_t)length);
}

// What each of them calls again and again.
int poll(struct pollfd* watched, nfds_t count, int timeout_ms) {
  Try();
  return (int)syscall(SYS_poll, watched, count, timeout_ms);
}

ssize_t sendmsg(int socket, const struct msghdr* message, int flags) {
  Try();
  return syscall(SYS_sendmsg, socket, message, flags);
}
