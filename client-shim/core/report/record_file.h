// SPDX-License-Identifier: Apache-2.0
// A file of small records that processes append to side by side: {u32 bytes, u32 crc32c, u8 kind, 7
// spare, body}. A torn, damaged or foreign tail is ignored, as is a file that others may write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace farcall::client {

inline constexpr size_t kMaxRecordFileBytes = 64u << 20;

// The folder a path lies in, and those above it, for the user alone.
void MakeFoldersOf(const std::string& path);

// Each whole record, in order. False: what follows them is damaged.
using TakeRecord = std::function<void(uint8_t kind, std::span<const std::byte> body)>;
bool ReadRecords(const std::string& path, const TakeRecord& take);

// False: the file cannot be written; errno says why.
bool AppendRecord(const std::string& path, uint8_t kind, std::span<const std::byte> body);

}  // namespace farcall::client
