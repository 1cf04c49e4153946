// SPDX-License-Identifier: Apache-2.0
// One request of a command to its pool.
#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "cli/pool/base/pool_options.h"

namespace farcall::cli {

// Prints the answer's JSON where --json is given; else the caller shows `out`. The exit code: an
// error has been told then.
int Call(const PoolOptions& pool, const std::string& method, const std::string& path,
         const google::protobuf::Message* in, google::protobuf::Message* out);
// "1.5", of GiB.
std::string Gib(uint64_t bytes);
// "40 TFLOPS"
std::string TflopsText(double tflops);

}  // namespace farcall::cli
