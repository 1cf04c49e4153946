// SPDX-License-Identifier: Apache-2.0
#include "pool/record/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "pool/convert/convert.h"
#include "pool/convert/convert_accounts.h"
#include "proto/log_line.h"
#include "settings/version.h"

namespace farcall::pool {

namespace {

constexpr char kHead[] = "farcall-pool-record 1\n";
constexpr uint32_t kMaxMessage = 1u << 30;  // a snapshot of all claims that a pool may know
constexpr Ms kFlush = 1000;

void Fill(const Timing& timing, v1::RecordedTiming* to) {
  to->set_settle(timing.settle);
  to->set_suspect(timing.suspect);
  to->set_lost(timing.lost);
  to->set_reserved(timing.reserved);
  to->set_never_used(timing.never_used);
  to->set_renew(timing.renew);
  to->set_keep_over(timing.keep_over);
  to->set_refused_pause(timing.refused_pause);
  to->set_aging(timing.aging);
  to->set_min_run(timing.min_run);
  to->set_preempt_grace(timing.preempt_grace);
  to->set_park(timing.park);
}

Timing TimingOf(const v1::RecordedTiming& from) {
  Timing timing;
  timing.settle = from.settle();
  timing.suspect = from.suspect();
  timing.lost = from.lost();
  timing.reserved = from.reserved();
  timing.never_used = from.never_used();
  timing.renew = from.renew();
  timing.keep_over = from.keep_over();
  timing.refused_pause = from.refused_pause();
  timing.aging = from.aging();
  timing.min_run = from.min_run();
  timing.preempt_grace = from.preempt_grace();
  if (from.park() != 0) timing.park = from.park();
  return timing;
}

void Fill(const Limits& limits, v1::RecordedLimits* to) {
  to->set_tenant_claims(limits.tenant_claims);
  to->set_tenant_per_minute(limits.tenant_per_minute);
  to->set_claims(limits.claims);
  to->set_hosts(limits.hosts);
  to->set_adopted(limits.adopted);
  to->set_join_tokens(limits.join_tokens);
  to->set_projects(limits.projects);
  to->set_reservations(limits.reservations);
  to->set_groups(limits.groups);
}

Limits LimitsOf(const v1::RecordedLimits& from) {
  Limits limits;
  limits.tenant_claims = from.tenant_claims();
  limits.tenant_per_minute = from.tenant_per_minute();
  limits.claims = from.claims();
  limits.hosts = from.hosts();
  limits.adopted = from.adopted();
  limits.join_tokens = from.join_tokens();
  limits.projects = from.projects();
  if (from.reservations() != 0) limits.reservations = from.reservations();
  if (from.groups() != 0) limits.groups = from.groups();
  return limits;
}

v1::Snapshot Settings(const Timing& timing, const Limits& limits, const SequencerPolicy& sequencer,
                      Ms now) {
  v1::Snapshot snapshot;
  snapshot.set_now_ms(now);
  snapshot.set_version(kServerVersion);
  snapshot.set_sequencer(sequencer.name);
  snapshot.set_half_life_ms(sequencer.half_life);
  snapshot.set_placer(std::string(ToText(sequencer.placer)));
  Fill(timing, snapshot.mutable_timing());
  Fill(limits, snapshot.mutable_limits());
  return snapshot;
}

std::string Reason() {
  return std::strerror(errno);
}

}  // namespace

v1::Snapshot SnapshotOf(const Loaded& loaded, const Timing& timing, const Limits& limits,
                        const SequencerPolicy& sequencer, Ms now) {
  v1::Snapshot snapshot = Settings(timing, limits, sequencer, now);
  for (const std::string& value : loaded.claims) snapshot.add_claims(value);
  for (const std::string& value : loaded.hosts) snapshot.add_hosts(value);
  for (const std::string& value : loaded.join_tokens) snapshot.add_join_tokens(value);
  for (const std::string& value : loaded.projects) snapshot.add_projects(value);
  for (const std::string& value : loaded.reservations) snapshot.add_reservations(value);
  for (const std::string& value : loaded.groups) snapshot.add_groups(value);
  for (const std::string& value : loaded.users) snapshot.add_users(value);
  for (const std::string& value : loaded.tokens) snapshot.add_tokens(value);
  return snapshot;
}

v1::Snapshot SnapshotOf(const Core& core, Ms now) {
  v1::Snapshot snapshot = Settings(core.timing(), core.limits(), core.sequencer_policy(), now);
  for (const auto& [id, claim] : core.claims())
    snapshot.add_claims(ToProto(claim, nullptr).SerializeAsString());
  for (const auto& [name, host] : core.hosts())
    snapshot.add_hosts(ToProto(host, now).SerializeAsString());
  for (const auto& [name, state] : core.projects())
    snapshot.add_projects(ToStored(state).SerializeAsString());
  for (const auto& [name, reservation] : core.reservations())
    snapshot.add_reservations(ToProto(reservation).SerializeAsString());
  for (const auto& [name, state] : core.groups())
    snapshot.add_groups(ToProto(state.group).SerializeAsString());
  return snapshot;
}

Status IsGood(const v1::Snapshot& snapshot) {
  if (MakeSequencer(snapshot.sequencer()) == nullptr)
    return {Code::kInvalid, "the record is of a pool with the sequencer '" + snapshot.sequencer() +
                                "', which this version does not have"};
  return {};
}

Core CoreOf(const v1::Snapshot& snapshot, const std::string& sequencer) {
  std::vector<Claim> claims;
  std::vector<Host> hosts;
  for (const std::string& value : snapshot.claims()) {
    pb::Claim claim;
    if (claim.ParseFromString(value)) claims.push_back(FromProto(claim));
  }
  for (const std::string& value : snapshot.hosts()) {
    pb::Host host;
    if (host.ParseFromString(value)) hosts.push_back(FromProto(host));
  }
  std::map<std::string, JoinToken> join_tokens;
  for (const std::string& value : snapshot.join_tokens()) {
    pb::StoredJoinToken token;
    if (token.ParseFromString(value)) join_tokens.insert(FromProto(token));
  }
  std::vector<Project> projects;
  for (const std::string& value : snapshot.projects()) {
    pb::Project project;
    if (project.ParseFromString(value)) projects.push_back(FromProto(project));
  }
  std::vector<Reservation> reservations;
  for (const std::string& value : snapshot.reservations()) {
    pb::Reservation reservation;
    if (reservation.ParseFromString(value)) reservations.push_back(ReservationOf(reservation));
  }
  std::vector<Group> groups;
  for (const std::string& value : snapshot.groups()) {
    pb::Group group;
    if (!group.ParseFromString(value)) continue;
    if (!sequencer.empty()) group.clear_sequencer();
    groups.push_back(GroupOf(group));
  }
  std::vector<User> users;
  for (const std::string& value : snapshot.users())
    if (std::optional<User> user = UserOf(value)) users.push_back(std::move(*user));
  std::vector<AccessToken> tokens;
  for (const std::string& value : snapshot.tokens())
    if (std::optional<AccessToken> token = TokenOf(value)) tokens.push_back(std::move(*token));
  Core core(TimingOf(snapshot.timing()), LimitsOf(snapshot.limits()),
            {sequencer.empty() ? snapshot.sequencer() : sequencer, snapshot.half_life_ms(),
             PlacerOf(snapshot.placer()).value_or(Placer::kPack)});
  core.Load(std::move(claims), std::move(hosts), snapshot.now_ms(), std::move(join_tokens),
            std::move(projects), std::move(reservations), std::move(groups));
  core.LoadAccounts(std::move(users), std::move(tokens));
  return core;
}

Result<std::unique_ptr<RecordWriter>> RecordWriter::Open(const std::string& path,
                                                         const v1::Snapshot& snapshot) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  std::FILE* file = fd < 0 ? nullptr : fdopen(fd, "wb");
  if (file == nullptr)
    return Status(Code::kUnavailable, "record '" + path + "': " + Reason() +
                                          (errno == EEXIST ? "; name a new file" : ""));
  std::unique_ptr<RecordWriter> writer(new RecordWriter(file, path));
  if (std::fputs(kHead, file) < 0)
    return Status(Code::kUnavailable, "record '" + path + "': " + Reason());
  FARCALL_TRY(writer->Put(snapshot));
  return writer;
}

RecordWriter::~RecordWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

Status RecordWriter::Put(const google::protobuf::Message& message) {
  const std::string bytes = message.SerializeAsString();
  std::array<unsigned char, 4> size{};
  for (size_t i = 0; i < size.size(); ++i)
    size[i] = static_cast<unsigned char>(bytes.size() >> (8 * i));
  if (std::fwrite(size.data(), 1, size.size(), file_) != size.size() ||
      std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
    return {Code::kUnavailable, "record '" + path_ + "': " + Reason()};
  return {};
}

Status RecordWriter::Close() {
  if (file_ == nullptr || std::fclose(std::exchange(file_, nullptr)) == 0) return {};
  return {Code::kUnavailable, "record '" + path_ + "': " + Reason()};
}

void RecordWriter::Write(const Event& event, const Effects& effects, const Core& core, Ms now) {
  if (file_ == nullptr) return;
  v1::RecordedEvent recorded = ToProto(event, now);
  recorded.set_effects(RecordedBytes(effects, core, now));
  Status put = Put(recorded);
  if (put.ok() && now - flushed_ >= kFlush) {
    flushed_ = now;
    if (std::fflush(file_) != 0) put = {Code::kUnavailable, "record '" + path_ + "': " + Reason()};
  }
  if (put.ok()) return;
  LogLine(LogSeverity::kError, "pool", put.message() + "; nothing more is recorded");
  std::fclose(std::exchange(file_, nullptr));
}

Result<std::unique_ptr<RecordReader>> RecordReader::Open(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return Status(Code::kUnavailable, "record '" + path + "': " + Reason());
  std::unique_ptr<RecordReader> reader(new RecordReader(file));
  std::array<char, sizeof(kHead)> head{};
  const bool is_record = std::fread(head.data(), 1, sizeof(kHead) - 1, file) == sizeof(kHead) - 1 &&
                         std::strcmp(head.data(), kHead) == 0;
  const Result<bool> taken = is_record ? reader->Take(&reader->snapshot_) : Result<bool>(false);
  if (!taken.ok() || !*taken)
    return Status(Code::kInvalid, "'" + path + "': no record of `farcall pool serve --record`");
  FARCALL_TRY(IsGood(reader->snapshot_));
  return reader;
}

RecordReader::~RecordReader() {
  std::fclose(file_);
}

Result<bool> RecordReader::Take(google::protobuf::Message* message) {
  std::array<unsigned char, 4> head{};
  const size_t got = std::fread(head.data(), 1, head.size(), file_);
  if (got == 0) return false;
  uint32_t size = 0;
  for (size_t i = 0; i < head.size(); ++i) size |= static_cast<uint32_t>(head[i]) << (8 * i);
  if (got == head.size() && size > kMaxMessage)
    return Status(Code::kInvalid, "the record has an event of " + std::to_string(size) + " bytes");
  // In pieces: a size that lies takes no more memory than the file has bytes.
  std::string bytes;
  while (got == head.size() && bytes.size() < size) {
    std::array<char, 65536> piece{};
    const size_t want = std::min<size_t>(piece.size(), size - bytes.size());
    const size_t read = std::fread(piece.data(), 1, want, file_);
    bytes.append(piece.data(), read);
    if (read < want) break;
  }
  if (got != head.size() || bytes.size() < size) {
    is_cut_off_ = true;
    return false;
  }
  if (!message->ParseFromString(bytes))
    return Status(Code::kInvalid, "the record has bytes that are no event");
  return true;
}

Result<bool> RecordReader::Next(v1::RecordedEvent* event) {
  return Take(event);
}

}  // namespace farcall::pool
