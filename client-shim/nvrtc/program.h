// SPDX-License-Identifier: Apache-2.0
// A program is the client's own: its sources until it is compiled, and what came of that.
#pragma once

#include <nvrtc.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client-shim/nvrtc/includes.h"

namespace farcall::nvrtc_client {

struct Image {
  nvrtcResult status = NVRTC_SUCCESS;
  std::string bytes;
};
enum ImageKind { kPtx, kCubin, kLtoIr, kOptixIr, kImageKinds };

struct LoweredName {
  nvrtcResult status = NVRTC_SUCCESS;
  std::string name;
};

// What compiling came to. Programs of the same content share one.
struct Outcome {
  nvrtcResult status = NVRTC_SUCCESS;
  std::string log;
  Image images[kImageKinds];
  std::map<std::string, LoweredName> lowered;
};

struct Program {
  std::string source, name;
  std::vector<Header> headers;  // the program's own
  std::vector<std::string> expressions;
  int (*flow)(void*, void*) = nullptr;
  void* flow_payload = nullptr;

  std::shared_ptr<const Outcome> outcome;  // null: not compiled. Under the lock of all programs.
};

// Null: no live program. It lives while someone holds it.
std::shared_ptr<Program> FindProgram(nvrtcProgram handle);

// nvrtcCompileProgram's work: what files the options and sources name is read here, the server
// compiles.
std::shared_ptr<const Outcome> Compile(const Program& program,
                                       const std::vector<std::string>& options);

}  // namespace farcall::nvrtc_client
