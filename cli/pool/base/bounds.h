// SPDX-License-Identifier: Apache-2.0
// Quotas of projects as people write them: "mem=80GiB,share=200%,gpus=2,model=H100".
#pragma once

#include <string>

#include "generated/proto/pool.pb.h"

namespace farcall::cli {

inline constexpr char kBoundsForm[] =
    "write mem=80GiB,share=250%,gpus=2 or a part of it, with model=NAME for one model, or none";

struct GivenBounds {
  std::string model;  // empty: all
  pool::v1::ResourceBounds bounds;
};

// False if it is none. "none": no bounds.
bool ParseBounds(const std::string& text, GivenBounds* given);
// For CLI::Option::check.
std::string CheckBounds(const std::string& text);
// What one alternative of a claim asks for: "gpus=2,mem=40GiB,share=50%,model=A100". Without mem it
// is whole GPUs. False if it is none.
bool ParseSize(const std::string& text, pool::v1::ClaimSize* size);
std::string CheckSize(const std::string& text);
std::string SizeText(const pool::v1::ClaimSize& size);
// The other way, for tables; "-" of none.
std::string BoundsText(const pool::v1::ResourceBounds& bounds);

}  // namespace farcall::cli
