// SPDX-License-Identifier: Apache-2.0
// A record of all that a pool's core was told, and what followed from it (proto/pool_record.proto).
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "generated/proto/pool_record.pb.h"
#include "pool/core/core.h"
#include "pool/store/store.h"
#include "proto/status.h"

namespace farcall::pool {

// The state that a controller starts with, and how its core is set.
v1::Snapshot SnapshotOf(const Loaded& loaded, const Timing& timing, const Limits& limits,
                        const SequencerPolicy& sequencer, Ms now);
// The state of a core that runs. What is not stored (sessions, how long a claim has waited) is not
// in it.
v1::Snapshot SnapshotOf(const Core& core, Ms now);
// A core of that state. `sequencer`: instead of its own, and of its groups'.
//   Before  IsGood
Core CoreOf(const v1::Snapshot& snapshot, const std::string& sequencer = "");
// Whether a core can be made of it.   Errors  kInvalid
Status IsGood(const v1::Snapshot& snapshot);

v1::RecordedEvent ToProto(const Event& event, Ms now);
//   Errors  kInvalid: none that a core takes
Result<Event> FromProto(const v1::RecordedEvent& recorded);
// RecordedEffects, with what `core`, which has just told them, would have stored.
std::string RecordedBytes(const Effects& effects, const Core& core, Ms now);

//   Thread  one
class RecordWriter {
 public:
  // A new file, for its user alone.   Errors  kUnavailable
  static Result<std::unique_ptr<RecordWriter>> Open(const std::string& path,
                                                    const v1::Snapshot& snapshot);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  // A disk that is full ends the record, and says so once; the pool goes on.
  void Write(const Event& event, const Effects& effects, const Core& core, Ms now);
  //   Errors  kUnavailable: it is not whole
  Status Close();

 private:
  explicit RecordWriter(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  Status Put(const google::protobuf::Message& message);

  std::FILE* file_;
  const std::string path_;
  Ms flushed_ = 0;
};

//   Thread  one
class RecordReader {
 public:
  //   Errors  kUnavailable (no such file), kInvalid (no record)
  static Result<std::unique_ptr<RecordReader>> Open(const std::string& path);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  const v1::Snapshot& snapshot() const { return snapshot_; }
  // The next event; false: it was the last one.   Errors  kInvalid
  Result<bool> Next(v1::RecordedEvent* event);
  // The file ends within an event, as that of a controller which was killed may.
  bool is_cut_off() const { return is_cut_off_; }

 private:
  explicit RecordReader(std::FILE* file) : file_(file) {}
  Result<bool> Take(google::protobuf::Message* message);

  std::FILE* file_;
  v1::Snapshot snapshot_;
  bool is_cut_off_ = false;
};

}  // namespace farcall::pool
