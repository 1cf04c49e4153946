// SPDX-License-Identifier: Apache-2.0
// The server of one session, as the tests of this folder see it.
#pragma once

#include <string>

#include "proto/status.h"

namespace farcall::inproc_test {

class TestServer {
 public:
  virtual ~TestServer() = default;
  virtual std::string url() const = 0;
  // Breaks every connection of the session, the log's and the lanes'; the client has to resume.
  virtual void Cut() = 0;
  virtual int resumes() = 0;
  // Waits for the session to end and destroys it; what went wrong with it.
  virtual Status Join() = 0;
};

}  // namespace farcall::inproc_test
