// SPDX-License-Identifier: Apache-2.0
// A server's status as tables for people and as JSON for machines.
#pragma once

#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "proto/pool.pb.h"

namespace farcall::cli {

namespace pb = farcall::control::v1;

// Columns are as wide as their widest cell; the first row is the heads.
std::string Table(std::vector<std::vector<std::string>> rows);

// "1.5GiB", "12.5%", "1h02m", "3.2s".
std::string BytesText(uint64_t bytes);
std::string MilliText(uint32_t milli);
std::string AgeText(uint64_t ms);
std::string DeviceTimeText(uint64_t ns);

// A row a session and device it uses.
std::string SessionTable(const pb::ServerStatus& status);
// A row a device, and one a vGPU on it.
std::string DeviceTable(const pb::ServerStatus& status);
std::string VgpuTable(const pb::ServerStatus& status);

// The same of all hosts of a pool, and a row each.
std::string HostTable(const pool::v1::PoolStatus& status);
std::string SessionTable(const pool::v1::PoolStatus& status);
std::string DeviceTable(const pool::v1::PoolStatus& status);
std::string VgpuTable(const pool::v1::PoolStatus& status);

// With all fields, by the names of control.proto.
std::string Json(const google::protobuf::Message& message);

}  // namespace farcall::cli
