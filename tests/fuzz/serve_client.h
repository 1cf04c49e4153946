// SPDX-License-Identifier: Apache-2.0
// The hostile client of fuzz_serve: the session's channel, fed by an input.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "proto/codec.h"
#include "proto/status.h"
#include "proto/wire.h"
#include "server/session/session_loop.h"
#include "tests/fuzz/serve_items.h"
#include "transport/channel.h"

namespace farcall::fuzz {

constexpr std::string_view kGoodbyeText = "the input is over";

// What was asked and what was answered. Outlives the session.
//   Thread  any
class Conversation {
 public:
  // `look` sees all that the session says.
  explicit Conversation(bool is_raw, void (*look)(std::span<const std::byte>) = nullptr)
      : is_raw_(is_raw), look_(look) {}

  uint32_t Ask(uint16_t call);  // the record's serial
  bool IsAnswered(uint32_t serial);
  // Bytes of the session's log. What it says is sound, whatever it was asked.
  void Receive(std::span<const std::byte> bytes);
  // After the session's end: tells which handlers were reached.
  void NoteServed(const Status& end);

 private:
  struct Question {
    uint16_t call = 0;
    bool answered = false;
    bool failed = false;
  };
  void OnFrame(std::span<const std::byte> records);
  void OnReply(const RecordHeader& header, Reader body);
  void OnError(Reader body);

  const bool is_raw_;  // its records are not of our making: their serials are not known
  void (*const look_)(std::span<const std::byte>);
  std::mutex mutex_;
  std::vector<Question> questions_;  // by serial, from 1
  std::vector<std::byte> heard_;     // of a frame not yet whole
};

// Turns items into frames as the session reads. At the input's end it asks one more thing, whose
// answer says that everything before has been served, and says goodbye.
class Client final : public Channel {
 public:
  Client(server::SessionLoop& loop, Conversation& conversation, std::span<const uint8_t> input,
         bool is_raw);

  // A raw frame whose records do not fit each other: must be refused.
  bool sizes_lie() const { return sizes_lie_; }

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override;
  Result<size_t> TryReceive(std::span<std::byte> into) override;
  bool WaitReadable(Clock::time_point deadline, int wake_fd) override;
  bool WaitWritable(Clock::time_point) override { return true; }
  void Close() override {}
  void Abandon() override {}
  int Descriptor() const override { return -1; }
  std::string PeerName() const override { return "fuzzer"; }
  // Every fourth does not arrive.
  bool CarriesDescriptors() const override { return true; }
  Status SendDescriptor(int /*descriptor*/) override {
    return ++descriptors_ % 4 != 0 ? Status() : Status(Code::kUnavailable, "no room");
  }

 private:
  void WaitUntilQuiet();
  void AppendFrame(std::span<const std::byte> records, uint16_t count);
  void TakeRawFrame();
  void NextFrame();
  uint16_t AppendItems(std::vector<std::byte>* records);
  uint16_t AppendEnd(std::vector<std::byte>* records);
  void Direct(const ItemHeader& item, std::span<const std::byte> body);
  uint32_t Append(const ItemHeader& item, std::span<const std::byte> body,
                  std::vector<std::byte>* records);
  void Land(std::span<const std::byte> body);

  server::SessionLoop& loop_;
  Conversation& conversation_;
  std::span<const uint8_t> left_;
  std::vector<std::byte> frame_;
  size_t sent_ = 0;
  size_t items_ = 0;
  std::atomic<uint32_t> descriptors_{0};
  uint64_t seq_ = 0;
  uint64_t chunks_ = 0;
  bool sizes_lie_ = false;
  bool is_busy_ = false;
  uint32_t probe_ = 0;  // the last question's serial
  Clock::time_point probe_deadline_;
};

}  // namespace farcall::fuzz
