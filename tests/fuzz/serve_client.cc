// SPDX-License-Identifier: Apache-2.0
// Items to frames, and the session's frames to answers.
#include "tests/fuzz/serve_client.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "proto/codec.h"
#include "proto/records.h"
#include "tests/fuzz/serve_device.h"
#include "tests/fuzz/serve_reached.h"

namespace farcall::fuzz {

namespace {

constexpr size_t kMaxItems = 400;
constexpr int kMaxChunks = 16;
constexpr auto kPatience = std::chrono::milliseconds(100);

}  // namespace

uint32_t Conversation::Ask(uint16_t call) {
  std::lock_guard lock(mutex_);
  questions_.push_back({call});
  return static_cast<uint32_t>(questions_.size());
}

bool Conversation::IsAnswered(uint32_t serial) {
  std::lock_guard lock(mutex_);
  return questions_[serial - 1].answered;
}

void Conversation::Receive(std::span<const std::byte> bytes) {
  std::lock_guard lock(mutex_);
  heard_.insert(heard_.end(), bytes.begin(), bytes.end());
  size_t at = 0;
  FrameHeader header;
  while (heard_.size() - at >= sizeof(header)) {
    std::memcpy(&header, heard_.data() + at, sizeof(header));
    if (header.bytes < sizeof(header)) std::abort();
    if (header.bytes > heard_.size() - at) break;
    const auto records =
        std::span(heard_).subspan(at + sizeof(header), header.bytes - sizeof(header));
    if (look_ != nullptr) look_(records);
    OnFrame(records);
    at += header.bytes;
  }
  heard_.erase(heard_.begin(), heard_.begin() + static_cast<ptrdiff_t>(at));
}

void Conversation::OnFrame(std::span<const std::byte> records) {
  RecordCursor cursor(records);
  for (RecordView record; cursor.Next(record);)
    if ((record.header.flags & kReply) != 0)
      OnReply(record.header, Reader(record.body));
    else if (record.header.call == static_cast<uint16_t>(SessionCall::kError))
      OnError(Reader(record.body));
  if (!cursor.Done()) std::abort();
}

void Conversation::OnReply(const RecordHeader& header, Reader body) {
  auto status = body.Get<int32_t>();
  body.Get<uint32_t>();
  if (!body.ok()) std::abort();
  if (is_raw_) return;
  if (header.serial == 0 || header.serial > questions_.size()) std::abort();
  Question& question = questions_[header.serial - 1];
  if (question.answered || question.call != header.call) std::abort();  // one answer to a question
  question.answered = true;
  question.failed = status != CUDA_SUCCESS;
}

void Conversation::OnError(Reader body) {
  auto serial = body.Get<uint32_t>();
  if (!body.ok()) std::abort();
  if (serial != 0 && serial <= questions_.size()) questions_[serial - 1].failed = true;
}

// Records are served in order: what stands before an answered one has been taken.
void Conversation::NoteServed(const Status& end) {
  std::lock_guard lock(mutex_);
  bool is_taken = false;
  for (size_t i = questions_.size(); i-- > 0;) {
    const Question& question = questions_[i];
    is_taken = is_taken || question.answered;
    bool is_message = question.call >= kFirstSessionCall;
    if (is_taken && !question.failed && (!is_message || IsClientMessage(question.call)))
      fuzz::NoteServed(question.call);
  }
  bool to_its_end = end.message() == kGoodbyeText;
  if (to_its_end) fuzz::NoteServed(static_cast<uint16_t>(SessionCall::kGoodbye));
  NoteSession(to_its_end, end);
}

Client::Client(server::SessionLoop& loop, Conversation& conversation,
               std::span<const uint8_t> input, bool is_raw)
    : loop_(loop), conversation_(conversation), left_(input) {
  if (is_raw) TakeRawFrame();
}

void Client::TakeRawFrame() {
  size_t room = kMaxFrameBytes - sizeof(FrameHeader);
  auto bytes = std::as_bytes(left_.first(std::min(left_.size(), room)));
  RecordCursor cursor(bytes);
  RecordView record;
  while (cursor.Next(record)) {
  }
  sizes_lie_ = !cursor.Done() || cursor.count() > UINT16_MAX;
  AppendFrame(bytes, static_cast<uint16_t>(cursor.count()));
  left_ = {};
}

Result<size_t> Client::TrySend(std::span<const std::span<const std::byte>> parts) {
  size_t bytes = 0;
  for (auto part : parts) {
    conversation_.Receive(part);
    bytes += part.size();
  }
  return bytes;
}

bool Client::WaitReadable(Clock::time_point, int wake_fd) {
  pollfd wake{wake_fd, POLLIN, 0};
  return wake_fd < 0 || poll(&wake, 1, 1) == 0;
}

Result<size_t> Client::TryReceive(std::span<std::byte> into) {
  if (sent_ == frame_.size()) NextFrame();
  size_t bytes = std::min(into.size(), frame_.size() - sent_);
  std::memcpy(into.data(), frame_.data() + sent_, bytes);
  sent_ += bytes;
  return bytes;
}

// What the session does beside its log comes to rest first, so that an input means the same each
// time.
void Client::WaitUntilQuiet() {
  auto end = Clock::now() + kPatience;
  while (loop_.busy_beside_log() && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(20));
}

void Client::AppendFrame(std::span<const std::byte> records, uint16_t count) {
  FrameHeader header;
  header.bytes = static_cast<uint32_t>(sizeof(header) + records.size());
  header.seq = ++seq_;
  header.chunks_sent = chunks_;
  header.records = count;
  frame_.resize(header.bytes);
  std::memcpy(frame_.data(), &header, sizeof(header));
  if (!records.empty()) std::memcpy(frame_.data() + sizeof(header), records.data(), records.size());
  sent_ = 0;
}

// Leaves the frame as it is, all sent, while there is something to wait for.
void Client::NextFrame() {
  std::vector<std::byte> records;
  uint16_t count = AppendItems(&records);
  if (!is_busy_) WaitUntilQuiet();
  if (count == 0) count = AppendEnd(&records);
  if (count != 0) AppendFrame(records, count);
}

uint16_t Client::AppendItems(std::vector<std::byte>* records) {
  uint16_t count = 0;
  ItemHeader item;
  std::span<const uint8_t> body;
  is_busy_ = false;
  bool again = true;
  while (again && items_ < kMaxItems && NextItem(&left_, &item, &body)) {
    ++items_;
    is_busy_ = is_busy_ || (item.flags & kBusy) != 0;
    if (item.call == kChunkItem || item.call == kDeviceItem) {
      Direct(item, std::as_bytes(body));
      continue;
    }
    Append(item, std::as_bytes(body), records);
    ++count;
    again = (item.flags & kSameFrame) != 0 && records->size() < kMaxFrameBytes / 4;
  }
  return count;
}

// First the question, then, once it is answered, the goodbye.
uint16_t Client::AppendEnd(std::vector<std::byte>* records) {
  if (probe_ == 0) {
    ItemHeader probe{static_cast<uint16_t>(SessionCall::kMirrorDown), kWantReply, 0, 0, 0};
    Builder from;
    from.Put<uint64_t>(0);
    probe_ = Append(probe, from.bytes(), records);
    probe_deadline_ = Clock::now() + kPatience;
    return 1;
  }
  if (!conversation_.IsAnswered(probe_) && Clock::now() < probe_deadline_) return 0;
  ItemHeader goodbye{static_cast<uint16_t>(SessionCall::kGoodbye), 0, 0, 0, 0};
  Builder body;
  body.Put<int32_t>(0);
  body.PutString(kGoodbyeText);
  Append(goodbye, body.bytes(), records);
  return 1;
}

void Client::Direct(const ItemHeader& item, std::span<const std::byte> body) {
  if (item.call == kChunkItem) return Land(body);
  Reader in(body);
  auto name = in.Get<uint16_t>();
  auto times = in.Get<uint16_t>();
  auto result = in.Get<int32_t>();
  if (in.ok()) SetAnswer(name, times, static_cast<CUresult>(result));
}

uint32_t Client::Append(const ItemHeader& item, std::span<const std::byte> body,
                        std::vector<std::byte>* records) {
  RecordHeader header;
  header.bytes = static_cast<uint32_t>(sizeof(header) + AlignUp(body.size(), 8));
  header.call = ChooseCall(item.call);
  header.flags = item.flags & kWantReply;
  header.serial = conversation_.Ask(header.call);
  header.thread = item.thread;
  header.context = item.context;
  size_t at = records->size();
  records->resize(at + header.bytes);
  std::memcpy(records->data() + at, &header, sizeof(header));
  if (!body.empty()) std::memcpy(records->data() + at + sizeof(header), body.data(), body.size());
  return header.serial;
}

void Client::Land(std::span<const std::byte> body) {
  Reader in(body);
  ChunkHeader header;
  header.transfer = in.Get<uint64_t>();
  header.offset = in.Get<uint64_t>();
  if (!in.ok() || in.remaining_bytes() == 0 || chunks_ >= kMaxChunks) return;
  auto payload = body.subspan(16);
  header.bytes = static_cast<uint32_t>(payload.size());
  header.seq = chunks_ + 1;
  std::span<std::byte> room = loop_.ChunkDestination(header);
  if (room.empty()) return;
  if (room.size() != payload.size()) std::abort();
  std::memcpy(room.data(), payload.data(), payload.size());
  ++chunks_;
  loop_.OnChunk(header);
}

}  // namespace farcall::fuzz
