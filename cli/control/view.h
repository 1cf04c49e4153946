// SPDX-License-Identifier: Apache-2.0
// What runs, as tables for people and as JSON for machines. `ps`, `top` and `quota` share the
// columns.
#pragma once

#include <string>
#include <vector>

#include "cli/control/history.h"
#include "cli/control/shown.h"
#include "cli/output/table.h"

namespace farcall::cli {

enum class SortBy { kShare, kMemory, kNetwork, kJob };
const char* SortName(SortBy by);
SortBy NextSort(SortBy by);

struct ViewOptions {
  size_t width = kAnyWidth;  // columns of the terminal
  bool colors = false;
  SortBy sort = SortBy::kJob;
  const History* history = nullptr;  // null: one view alone, without rates and sparklines
};

// A vGPU on one device, and where it is.
struct VgpuRow {
  std::string host;
  const pb::ServerStatus* status;
  const pb::Vgpu* vgpu;
  const pb::VgpuDevice* device;
  const pool::v1::LeavingClaim* leaves;  // nullptr: it stays
};
// In the order in which VgpuLines shows them.
std::vector<VgpuRow> VgpuRows(const std::vector<Shown>& hosts, const ViewOptions& options);
// The heads, then a line a row.
std::vector<std::string> VgpuLines(const std::vector<VgpuRow>& rows, const ViewOptions& options);

std::string DeviceTable(const std::vector<Shown>& hosts, const ViewOptions& options);
std::string VgpuTable(const std::vector<Shown>& hosts, const ViewOptions& options);
// A row a session and device it uses.
std::string SessionTable(const std::vector<Shown>& hosts, const ViewOptions& options);
std::string HostTable(const pool::v1::PoolStatus& status, const ViewOptions& options);
// Of one vGPU, a line each.
std::vector<std::string> SessionLines(const pb::Vgpu& vgpu);

// For stdout: the terminal's width and colors, or neither.
ViewOptions OptionsOfStdout();

// With all fields, by the names of control.proto.
std::string Json(const google::protobuf::Message& message);

}  // namespace farcall::cli
