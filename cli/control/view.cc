// SPDX-License-Identifier: Apache-2.0
#include "cli/control/view.h"

#include <google/protobuf/util/json_util.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "proto/printable.h"
#include "settings/byte_rate.h"

namespace farcall::cli {

namespace {

constexpr size_t kMaxJob = 28, kMaxUser = 24, kMaxWhy = 80, kSparkWidth = 16, kBarWidth = 20;
constexpr uint64_t kFullPercent = 95;

// What a row is about. Of a vGPU's row `session` is its first.
struct Subject {
  const VgpuRow& row;
  const pb::Session* session;
  const ViewOptions& options;
};

struct Field {
  Column column;
  std::function<Cell(const Subject&)> cell;
};

// The program's name, without its folder.
std::string NameOf(const std::string& program) {
  return program.substr(program.rfind('/') + 1);
}

bool IsFull(uint64_t used, uint64_t quota) {
  return quota != 0 && used >= quota / 100 * kFullPercent;
}

std::string StateOf(const pb::VgpuDevice& device) {
  if (device.runs()) return "runs";
  return device.waits_for().empty() ? "idle" : "waits: " + device.waits_for();
}

Cell StateCell(const Subject& subject, bool of_session) {
  const pb::VgpuDevice& device = *subject.row.device;
  std::string state = StateOf(device);
  if (of_session && subject.session != nullptr) {
    const std::string& memory = subject.session->memory_state();
    if (subject.session->waits_for_memory())
      state = "waits: swap";
    else if (!memory.empty() && memory != "resident")
      state = memory;
  }
  const bool waits = state.compare(0, 5, "waits") == 0;
  return {state, state == "runs" ? Color::kGreen : waits ? Color::kYellow : Color::kDim};
}

// When a pool takes the claim's place, and why.
Cell LeavesCell(const Subject& subject) {
  const pool::v1::LeavingClaim* leaves = subject.row.leaves;
  if (leaves == nullptr) return {"-", Color::kDim};
  const std::string when =
      leaves->state() == "parked" ? "parked"
      : leaves->leaves_in_ms() == 0
          ? "now"
          : "in " + std::to_string((leaves->leaves_in_ms() + 999) / 1000) + " s";
  return {when + (leaves->why().empty() ? "" : ": " + Printable(leaves->why(), kMaxWhy)),
          Color::kRed};
}

Cell MemoryCell(const pb::VgpuDevice& device) {
  return {BytesText(device.used_bytes()) + "/" + BytesText(device.quota_bytes()),
          IsFull(device.used_bytes(), device.quota_bytes()) ? Color::kRed : Color::kNone};
}

Cell NetCell(const Subject& subject) {
  const pb::Vgpu& vgpu = *subject.row.vgpu;
  const History* history = subject.options.history;
  std::string text = history == nullptr
                         ? BytesText(vgpu.net_bytes_in() + vgpu.net_bytes_out())
                         : ByteRateText(history->NetBytesPerSecond(subject.row.host, vgpu.id()));
  if (vgpu.net_bytes_per_s() != 0) text += " of " + ByteRateText(vgpu.net_bytes_per_s());
  return text;
}

Cell SparkCell(const Subject& subject) {
  const VgpuRow& row = subject.row;
  return SparkText(
      subject.options.history->SharesOf(row.host, row.vgpu->id(), row.device->device()),
      kSparkWidth);
}

std::string JobOf(const pb::Vgpu& vgpu, const pb::Session* session) {
  if (session == nullptr) return "-";
  const std::string name = NameOf(session->program());
  return vgpu.sessions_size() > 1 && session == &vgpu.sessions(0)
             ? name + " +" + std::to_string(vgpu.sessions_size() - 1)
             : name;
}

std::string OrDash(uint32_t milli) {
  return milli == 0 ? "-" : MilliText(milli);
}

// Of what is charged: where it is.
std::string OnDeviceAndOff(const pb::VgpuDevice& device) {
  return BytesText(device.charged_bytes() -
                   std::min(device.charged_bytes(), device.swapped_bytes())) +
         "+" + BytesText(device.swapped_bytes());
}

enum class Rows { kSessions, kVgpus };

// All columns there are, in their order; which of them a table has.
struct Has {
  bool hosts = false, swaps = false, leaving = false;
};
std::vector<Field> Fields(Rows table, const Has& has, const ViewOptions& options) {
  const bool of_sessions = table == Rows::kSessions, live = options.history != nullptr;
  std::vector<Field> fields;
  auto add = [&](bool is_there, Column column, std::function<Cell(const Subject&)> cell) {
    if (is_there) fields.push_back({std::move(column), std::move(cell)});
  };
  add(has.hosts, {"HOST", false, 0}, [](const Subject& s) { return Cell(s.row.host); });
  add(of_sessions, {"SESSION", true, 0},
      [](const Subject& s) { return Cell(std::to_string(s.session->number())); });
  add(true, {"JOB", false, 0}, [of_sessions](const Subject& s) {
    const std::string job =
        of_sessions ? NameOf(s.session->program()) : JobOf(*s.row.vgpu, s.session);
    return Cell(Printable(job, kMaxJob));
  });
  add(true, {"USER", false, 7}, [of_sessions](const Subject& s) {
    const std::string user =
        of_sessions ? s.session->user() + "@" + s.session->host() : s.row.vgpu->owner();
    return Cell(Printable(user, kMaxUser));
  });
  add(true, {"VGPU", false, of_sessions ? 0 : 5},
      [](const Subject& s) { return Cell(s.row.vgpu->id()); });
  add(of_sessions, {"PID", true, 3},
      [](const Subject& s) { return Cell(std::to_string(s.session->pid())); });
  add(of_sessions, {"AGE", true, 4},
      [](const Subject& s) { return Cell(AgeText(s.session->age_ms())); });
  add(true, {"DEV", true, 0},
      [](const Subject& s) { return Cell(std::to_string(s.row.device->device())); });
  add(true, {"NOW", true, 0},
      [](const Subject& s) { return Cell(MilliText(s.row.device->share_got_milli())); });
  add(true, {"DUE", true, 1},
      [](const Subject& s) { return Cell(MilliText(s.row.device->share_wanted_milli())); });
  add(!of_sessions && live, {"LAST", false, 2}, SparkCell);
  add(true, {"SHARE", true, 9},
      [](const Subject& s) { return Cell(OrDash(s.row.vgpu->share_milli())); });
  add(true, {"LIMIT", true, 6},
      [](const Subject& s) { return Cell(OrDash(s.row.vgpu->limit_milli())); });
  add(true, {"PRIORITY", false, 8}, [](const Subject& s) {
    return Cell(s.row.vgpu->priority().empty() ? "-" : s.row.vgpu->priority());
  });
  add(true, {"MEMORY", true, 0}, [](const Subject& s) { return MemoryCell(*s.row.device); });
  add(has.swaps, {"ON+OFF", true, 3},
      [](const Subject& s) { return Cell(OnDeviceAndOff(*s.row.device)); });
  add(true, {live ? "NET/S" : "NETWORK", true, of_sessions ? 10 : 4}, NetCell);
  add(true, {"GPU TIME", true, 10},
      [](const Subject& s) { return Cell(DeviceTimeText(s.row.device->device_ns())); });
  add(true, {"STATE", false, 0},
      [of_sessions](const Subject& s) { return StateCell(s, of_sessions); });
  add(has.leaving, {"LEAVES", false, 0}, LeavesCell);
  return fields;
}

Has WhatHas(const std::vector<VgpuRow>& rows) {
  Has has;
  for (const VgpuRow& row : rows) {
    has.hosts = has.hosts || !row.host.empty();
    has.swaps = has.swaps || row.status->has_swap();
    has.leaving = has.leaving || row.leaves != nullptr;
  }
  return has;
}

const pool::v1::LeavingClaim* LeavesOf(const Shown& shown, const std::string& claim) {
  if (shown.leaving == nullptr) return nullptr;
  for (const pool::v1::LeavingClaim& one : *shown.leaving)
    if (one.claim() == claim) return &one;
  return nullptr;
}

std::vector<Column> ColumnsOf(const std::vector<Field>& fields) {
  std::vector<Column> columns;
  columns.reserve(fields.size());
  for (const Field& field : fields) columns.push_back(field.column);
  return columns;
}

Cells CellsOf(const std::vector<Field>& fields, const Subject& subject) {
  Cells cells;
  for (const Field& field : fields) cells.push_back(field.cell(subject));
  return cells;
}

uint64_t Weight(const VgpuRow& row, const ViewOptions& options) {
  switch (options.sort) {
    case SortBy::kShare:
      return row.device->share_got_milli();
    case SortBy::kMemory:
      return row.device->used_bytes();
    case SortBy::kNetwork:
      return options.history == nullptr
                 ? row.vgpu->net_bytes_in() + row.vgpu->net_bytes_out()
                 : options.history->NetBytesPerSecond(row.host, row.vgpu->id());
    case SortBy::kJob:
      return 0;
  }
  return 0;
}

}  // namespace

const char* SortName(SortBy by) {
  static constexpr const char* kNames[] = {"share", "memory", "network", "job"};
  return kNames[static_cast<size_t>(by)];
}

SortBy NextSort(SortBy by) {
  return static_cast<SortBy>((static_cast<int>(by) + 1) % 4);
}

std::vector<VgpuRow> VgpuRows(const std::vector<Shown>& hosts, const ViewOptions& options) {
  std::vector<VgpuRow> rows;
  for (const Shown& shown : hosts)
    for (const pb::Vgpu& vgpu : shown.status->vgpus())
      for (const pb::VgpuDevice& device : vgpu.devices())
        rows.push_back({shown.host, shown.status, &vgpu, &device, LeavesOf(shown, vgpu.id())});
  std::stable_sort(rows.begin(), rows.end(), [&](const VgpuRow& a, const VgpuRow& b) {
    const uint64_t of_a = Weight(a, options), of_b = Weight(b, options);
    if (of_a != of_b) return of_a > of_b;
    return std::pair(a.host, a.vgpu->id()) < std::pair(b.host, b.vgpu->id());
  });
  return rows;
}

std::vector<std::string> VgpuLines(const std::vector<VgpuRow>& rows, const ViewOptions& options) {
  const std::vector<Field> fields = Fields(Rows::kVgpus, WhatHas(rows), options);
  std::vector<Cells> cells;
  for (const VgpuRow& row : rows) {
    const pb::Session* first = row.vgpu->sessions_size() == 0 ? nullptr : &row.vgpu->sessions(0);
    cells.push_back(CellsOf(fields, {row, first, options}));
  }
  return TableLines(ColumnsOf(fields), cells, options.width, options.colors);
}

std::string VgpuTable(const std::vector<Shown>& hosts, const ViewOptions& options) {
  const std::vector<VgpuRow> rows = VgpuRows(hosts, options);
  std::string text;
  for (const std::string& line : VgpuLines(rows, options)) text += line + "\n";
  return rows.empty() ? "no vGPUs\n" : text;
}

std::string SessionTable(const std::vector<Shown>& hosts, const ViewOptions& options) {
  const std::vector<VgpuRow> rows = VgpuRows(hosts, options);
  const std::vector<Field> fields = Fields(Rows::kSessions, WhatHas(rows), options);
  std::vector<Cells> cells;
  for (const VgpuRow& row : rows) {
    const bool is_used = row.device->charged_bytes() != 0 || row.vgpu->devices_size() == 1;
    if (!is_used) continue;
    for (const pb::Session& session : row.vgpu->sessions())
      cells.push_back(CellsOf(fields, {row, &session, options}));
  }
  return cells.empty() ? "no sessions\n"
                       : Table(ColumnsOf(fields), cells, options.width, options.colors);
}

std::vector<std::string> SessionLines(const pb::Vgpu& vgpu) {
  std::vector<Cells> rows;
  for (const pb::Session& session : vgpu.sessions())
    rows.push_back({"session " + std::to_string(session.number()),
                    "pid " + std::to_string(session.pid()), session.user() + "@" + session.host(),
                    AgeText(session.age_ms()), session.memory_state(), NameOf(session.program())});
  std::vector<std::string> lines = TableLines({{""}, {""}, {""}, {"", true}, {""}, {""}}, rows);
  lines.erase(lines.begin());  // no heads
  return lines;
}

std::string DeviceTable(const std::vector<Shown>& hosts, const ViewOptions& options) {
  const bool has_hosts = std::any_of(hosts.begin(), hosts.end(),
                                     [](const Shown& shown) { return !shown.host.empty(); });
  const bool swaps = std::any_of(hosts.begin(), hosts.end(),
                                 [](const Shown& shown) { return shown.status->has_swap(); });
  const bool live = options.history != nullptr;
  std::vector<Column> columns;
  if (has_hosts) columns.push_back({"HOST", false, 0});
  columns.insert(columns.end(), {{"DEVICE", true, 0},
                                 {"NAME", false, 3},
                                 {"MODE", false, 4},
                                 {"USE", false, 2},
                                 {"NOW", true, 0}});
  if (live) columns.push_back({"LAST", false, 1});
  columns.push_back({"MEMORY", true, 0});
  if (swaps) columns.insert(columns.end(), {{"RESIDENT", true, 5}, {"SWAP SPACE", true, 6}});
  std::vector<Cells> rows;
  for (const Shown& shown : hosts) {
    for (const pb::Device& device : shown.status->devices()) {
      const uint32_t used = MilliOf(*shown.status, device);
      Cells row;
      if (has_hosts) row.push_back(shown.host);
      row.insert(row.end(),
                 {std::to_string(device.index()), device.name(), device.mode(),
                  Cell(BarText(used, kBarWidth), used == 0 ? Color::kDim : Color::kGreen),
                  MilliText(used)});
      if (live)
        row.push_back(SparkText(options.history->UseOf(shown.host, device.index()), kSparkWidth));
      row.push_back(
          {BytesText(device.memory_charged_bytes()) + "/" + BytesText(device.memory_bytes()),
           IsFull(device.memory_charged_bytes(), device.memory_bytes()) ? Color::kRed
                                                                        : Color::kNone});
      if (swaps)
        row.insert(row.end(), {BytesText(device.memory_resident_bytes()),
                               BytesText(shown.status->swap().host_used_bytes()) + "/" +
                                   BytesText(shown.status->swap().host_bytes())});
      rows.push_back(std::move(row));
    }
  }
  return Table(columns, rows, options.width, options.colors);
}

std::string HostTable(const pool::v1::PoolStatus& status, const ViewOptions& options) {
  std::vector<Cells> rows;
  for (const pool::v1::HostStatus& host : status.hosts()) {
    int sessions = 0;
    for (const pb::Vgpu& vgpu : host.status().vgpus()) sessions += vgpu.sessions_size();
    rows.push_back({host.host(), host.state(), std::to_string(host.status().devices_size()),
                    std::to_string(sessions),
                    AgeText(static_cast<uint64_t>(std::max<int64_t>(host.age_ms(), 0))) + " ago"});
  }
  return rows.empty()
             ? "no hosts\n"
             : Table({{"HOST"}, {"STATE"}, {"DEVICES", true}, {"SESSIONS", true}, {"AS OF", true}},
                     rows, options.width, options.colors);
}

ViewOptions OptionsOfStdout() {
  ViewOptions options;
  options.colors = HasColors(stdout);
  winsize size{};
  if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 &&
      size.ws_col != 0)
    options.width = size.ws_col;
  return options;
}

std::string Json(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(message, &text, options);
  return AsciiJson(text);
}

}  // namespace farcall::cli
