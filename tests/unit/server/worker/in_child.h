// SPDX-License-Identifier: Apache-2.0
// Attempts that a process does not come back from: each is made in a child.
#pragma once

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>

namespace farcall::server {

// What `attempt` says in a child of its own: empty is well.
inline std::string InChild(const std::function<std::string()>& attempt) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  pid_t child = fork();
  if (child == 0) {
    const std::string said = attempt();
    (void)!write(ends[1], said.data(), said.size());
    _exit(0);
  }
  close(ends[1]);
  std::string said(4096, 0);
  ssize_t got = read(ends[0], said.data(), said.size());
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  said.resize(got < 0 ? 0 : static_cast<size_t>(got));
  return WIFEXITED(status) ? said : "it ended by signal " + std::to_string(WTERMSIG(status));
}

// "" if the call failed so.
inline std::string Fails(const char* what, long result, int error) {
  const int got = errno;
  return result < 0 && got == error
             ? ""
             : std::string(what) + ": " + (result < 0 ? strerror(got) : "it went through") + "; ";
}

}  // namespace farcall::server
