// SPDX-License-Identifier: Apache-2.0
#include "transport/tls/tls_channel.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <vector>

#include "transport/tls/record_cipher.h"

namespace farcall {

namespace {

constexpr size_t kRecordsAtOnce = 8;  // sealed before the socket is asked
constexpr size_t kReadBytes = 8 * kMaxTlsRecordBytes;
// Far fewer than the 2^24.5 full records after which AES-GCM wants another key (RFC 8446 5.5).
constexpr uint64_t kRecordsOfAKey = uint64_t{1} << 23;
// Records in a row that carry no data: an honest peer sends a few.
constexpr int kMaxIdleRecords = 64;
constexpr size_t kMaxMessageBytes = 65536;  // of the handshake protocol, after the handshake
constexpr std::byte kNewSessionTicket{4}, kKeyUpdate{24};
constexpr std::byte kCloseNotify{0}, kUnexpectedMessage{10}, kBadRecord{20};

class TlsChannel final : public Channel {
 public:
  TlsChannel(std::unique_ptr<Channel> channel, std::unique_ptr<RecordCipher> reads,
             std::unique_ptr<RecordCipher> writes, std::string identity)
      : channel_(std::move(channel)),
        identity_(std::move(identity)),
        reads_(std::move(reads)),
        writes_(std::move(writes)) {}

  ~TlsChannel() override {
    if (!abandoned_) SendAlert(kCloseNotify);
    OPENSSL_cleanse(plain_.data(), plain_.size());
  }

  Result<size_t> TrySend(std::span<const std::span<const std::byte>> parts) override {
    std::lock_guard lock(write_mutex_);
    size_t taken = 0;
    Cursor from{parts};
    for (;;) {
      Result<bool> flushed = FlushLocked();
      if (!flushed.ok()) return flushed.status();
      if (!*flushed || from.AtEnd()) return taken;
      for (size_t i = 0; i < kRecordsAtOnce && !from.AtEnd(); ++i) {
        FARCALL_TRY(UpdateIfDue());
        std::array<std::span<const std::byte>, 8> pieces;
        const size_t count = from.Take(pieces, kMaxTlsPlainBytes);
        Result<size_t> added = Append(TlsContent::kData, {pieces.data(), count});
        if (!added.ok()) return added.status();
        taken += *added;
      }
    }
  }

  Result<bool> Flush() override {
    std::lock_guard lock(write_mutex_);
    return FlushLocked();
  }
  bool IsHolding() const override { return is_holding_.load(); }

  Result<size_t> TryReceive(std::span<std::byte> into) override {
    while (!into.empty()) {
      if (plain_at_ < plain_end_) return TakePlain(into);
      Result<std::span<const std::byte>> record = NextRecord();
      if (!record.ok()) return record.status();
      if (record->empty()) return size_t{0};
      const size_t sealed_bytes =
          record->size() - std::min(record->size(), kTlsHeaderBytes + kTlsTagBytes);
      // What lies behind the content is its type and padding, over which what follows is written.
      const bool is_direct = into.size() >= sealed_bytes;
      Result<size_t> got = OpenRecord(*record, is_direct ? into.data() : Plain());
      if (!got.ok()) return got;
      if (*got == 0) continue;
      if (is_direct) {
        NoteBuffered();
        return *got;
      }
      plain_at_ = 0;
      plain_end_ = *got;
    }
    return size_t{0};
  }

  bool WaitReadable(Clock::time_point deadline, int wake_fd) override {
    return buffered_.load() || channel_->WaitReadable(deadline, wake_fd);
  }
  bool WaitWritable(Clock::time_point deadline) override {
    return channel_->WaitWritable(deadline);
  }
  void Close() override { channel_->Close(); }
  void Abandon() override {
    abandoned_ = true;
    channel_->Abandon();
  }
  int Descriptor() const override { return channel_->Descriptor(); }
  std::string PeerName() const override { return channel_->PeerName(); }
  std::optional<std::chrono::microseconds> RoundTrip() const override {
    return channel_->RoundTrip();
  }
  std::string PeerIdentity() const override { return identity_; }
  bool ChecksBytes() const override { return true; }

  Result<std::vector<std::byte>> HandOver() override {
    std::lock_guard lock(write_mutex_);
    FARCALL_TRY(UpdateIfDue());  // a key that the peer asked for: the other process does not know
    Result<bool> flushed = FlushLocked();
    if (!flushed.ok()) return flushed.status();
    if (!*flushed || plain_at_ < plain_end_ || in_begin_ != in_end_ || !message_.empty())
      return Status(Code::kMalformed, PeerName() + ": sends more before it is answered");
    abandoned_ = true;  // the other process says goodbye
    return EncodeTlsKeys({reads_->traffic(), writes_->traffic()});
  }
  void ReadAhead() override { reads_ahead_ = true; }

 private:
  // Where the parts to be sent have been sealed up to.
  struct Cursor {
    std::span<const std::span<const std::byte>> parts;
    size_t index = 0, offset = 0;

    bool AtEnd() {
      while (index < parts.size() && offset == parts[index].size()) {
        ++index;
        offset = 0;
      }
      return index == parts.size();
    }
    // Pieces of at most `most` bytes together; how many there are.
    size_t Take(std::span<std::span<const std::byte>> pieces, size_t most) {
      size_t count = 0;
      while (count < pieces.size() && most != 0 && !AtEnd()) {
        const size_t bytes = std::min(most, parts[index].size() - offset);
        pieces[count++] = parts[index].subspan(offset, bytes);
        offset += bytes;
        most -= bytes;
      }
      return count;
    }
  };

  // Seals into out_; returns the bytes of content.
  Result<size_t> Append(TlsContent type, std::span<const std::span<const std::byte>> parts) {
    if (out_.empty()) out_.resize((kRecordsAtOnce + 2) * kMaxTlsRecordBytes);
    if (out_.size() - out_end_ < kMaxTlsRecordBytes)
      return Status(Code::kInternal, "tls: no room for a record");
    Result<size_t> sealed = writes_->Seal(type, parts, out_.data() + out_end_);
    if (!sealed.ok()) return sealed;
    out_end_ += *sealed;
    return *sealed - kTlsOverheadBytes;
  }

  // True: nothing waits in out_.
  Result<bool> FlushLocked() {
    is_holding_ = out_begin_ != out_end_;
    while (out_begin_ != out_end_) {
      const std::span<const std::byte> rest(out_.data() + out_begin_, out_end_ - out_begin_);
      Result<size_t> sent = channel_->TrySend({&rest, 1});
      if (!sent.ok()) return sent.status();
      if (*sent == 0) return false;
      out_begin_ += *sent;
    }
    out_begin_ = out_end_ = 0;
    is_holding_ = false;
    return true;
  }

  // Before a record of data: a new key where the peer wants it, or this one has sealed enough.
  Status UpdateIfDue() {
    if (!update_wanted_.exchange(false) && writes_->traffic().sequence < kRecordsOfAKey) return {};
    constexpr std::array<std::byte, 5> kMessage = {kKeyUpdate, std::byte{0}, std::byte{0},
                                                   std::byte{1}, std::byte{0}};
    const std::span<const std::byte> message = kMessage;
    FARCALL_TRY(Append(TlsContent::kHandshake, {&message, 1}).status());
    return writes_->Update();
  }

  // As far as the socket takes it: the connection ends.
  void SendAlert(std::byte what) {
    std::unique_lock lock(write_mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    const std::array<std::byte, 2> alert = {what == kCloseNotify ? std::byte{1} : std::byte{2},
                                            what};
    const std::span<const std::byte> bytes = alert;
    Result<bool> flushed = FlushLocked();
    if (flushed.ok() && *flushed && Append(TlsContent::kAlert, {&bytes, 1}).ok())
      (void)FlushLocked();
  }

  Status Fail(std::byte alert, const std::string& what) {
    SendAlert(alert);
    return {Code::kDisconnected, "tls: " + PeerName() + " " + what};
  }

  std::byte* Plain() {
    if (plain_.empty()) plain_.resize(kMaxTlsRecordBytes);
    return plain_.data();
  }

  size_t TakePlain(std::span<std::byte> into) {
    const size_t bytes = std::min(into.size(), plain_end_ - plain_at_);
    std::memcpy(into.data(), plain_.data() + plain_at_, bytes);
    plain_at_ += bytes;
    NoteBuffered();
    return bytes;
  }

  // Bytes of the whole record at in_begin_; 0: its header is not here.
  size_t RecordBytes() const {
    if (in_end_ - in_begin_ < kTlsHeaderBytes) return 0;
    const std::byte* header = in_.data() + in_begin_;
    return kTlsHeaderBytes +
           (std::to_integer<size_t>(header[3]) << 8 | std::to_integer<size_t>(header[4]));
  }

  // The socket says nothing of what is here already.
  void NoteBuffered() {
    const size_t bytes = RecordBytes();
    buffered_ = plain_at_ < plain_end_ || (bytes != 0 && in_end_ - in_begin_ >= bytes);
  }

  // A whole record, valid until the next call; empty: it is not all here.
  Result<std::span<const std::byte>> NextRecord() {
    if (in_.empty()) in_.resize(kReadBytes);
    for (;;) {
      const size_t bytes = RecordBytes();
      if (bytes > kMaxTlsRecordBytes ||
          (bytes != 0 && in_[in_begin_] != std::byte{static_cast<uint8_t>(TlsContent::kData)}))
        return Fail(kBadRecord, "sends what is no record of TLS 1.3");
      if (bytes != 0 && in_end_ - in_begin_ >= bytes) {
        const std::span<const std::byte> record(in_.data() + in_begin_, bytes);
        in_begin_ += bytes;
        return record;
      }
      if (in_begin_ != 0) {
        std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
        in_end_ -= in_begin_;
        in_begin_ = 0;
      }
      const size_t wanted = reads_ahead_ ? in_.size() : bytes == 0 ? kTlsHeaderBytes : bytes;
      Result<size_t> got = channel_->TryReceive(std::span(in_).subspan(in_end_, wanted - in_end_));
      if (!got.ok()) return got.status();
      if (*got == 0) {
        buffered_ = false;
        return std::span<const std::byte>();
      }
      in_end_ += *got;
    }
  }

  // Bytes of data in the record, which are in `into`.
  Result<size_t> OpenRecord(std::span<const std::byte> record, std::byte* into) {
    Result<RecordCipher::Opened> opened = reads_->Open(record, into);
    if (!opened.ok())
      return Fail(kBadRecord, "or someone between changed it: " + opened.status().message());
    const std::span<const std::byte> content(into, opened->bytes);
    switch (opened->type) {
      case TlsContent::kData:
        idle_records_ = content.empty() ? idle_records_ + 1 : 0;
        break;
      case TlsContent::kHandshake:
        ++idle_records_;
        FARCALL_TRY(TakeMessages(content));
        break;
      case TlsContent::kAlert:
        return Status(
            Code::kDisconnected,
            content.size() == 2 && content[1] == kCloseNotify
                ? PeerName() + ": connection closed by the peer"
                : "tls: " + PeerName() + " ends the connection, alert " +
                      (content.size() == 2 ? std::to_string(std::to_integer<int>(content[1]))
                                           : std::string("?")));
      default:
        return Fail(kUnexpectedMessage, "sends a record of another type");
    }
    if (idle_records_ > kMaxIdleRecords)
      return Fail(kUnexpectedMessage, "sends records without data");
    return opened->type == TlsContent::kData ? content.size() : 0;
  }

  // Of the handshake protocol: tickets, which we have no use for, and new keys.
  Status TakeMessages(std::span<const std::byte> content) {
    message_.insert(message_.end(), content.begin(), content.end());
    while (message_.size() >= 4) {
      const size_t bytes = std::to_integer<size_t>(message_[1]) << 16 |
                           std::to_integer<size_t>(message_[2]) << 8 |
                           std::to_integer<size_t>(message_[3]);
      if (bytes > kMaxMessageBytes)
        return Fail(kUnexpectedMessage, "sends a message that is too long");
      if (message_.size() < 4 + bytes) return {};
      if (message_[0] == kKeyUpdate && bytes == 1 && message_[4] <= std::byte{1}) {
        // Keys change between records.
        if (message_.size() != 5)
          return Fail(kUnexpectedMessage, "changes keys in the middle of a record");
        if (message_[4] == std::byte{1}) update_wanted_ = true;
        FARCALL_TRY(reads_->Update());
      } else if (message_[0] != kNewSessionTicket) {
        return Fail(kUnexpectedMessage, "sends a handshake message of type " +
                                            std::to_string(std::to_integer<int>(message_[0])));
      }
      message_.erase(message_.begin(), message_.begin() + static_cast<ptrdiff_t>(4 + bytes));
    }
    return {};
  }

  const std::unique_ptr<Channel> channel_;
  const std::string identity_;
  std::atomic<bool> update_wanted_{false};
  std::atomic<bool> buffered_{false};
  std::atomic<bool> is_holding_{false};
  std::atomic<bool> reads_ahead_{false};
  std::atomic<bool> abandoned_{false};

  // The receiver's.
  const std::unique_ptr<RecordCipher> reads_;
  std::vector<std::byte> in_;  // records as they come
  size_t in_begin_ = 0, in_end_ = 0;
  std::vector<std::byte> plain_;  // of one record, what has not been taken of it
  size_t plain_at_ = 0, plain_end_ = 0;
  std::vector<std::byte> message_;  // the beginning of one
  int idle_records_ = 0;            // in a row

  std::mutex write_mutex_;  // the sender's, and alerts
  const std::unique_ptr<RecordCipher> writes_;
  std::vector<std::byte> out_;  // records that the socket has not taken
  size_t out_begin_ = 0, out_end_ = 0;
};

}  // namespace

Result<std::unique_ptr<Channel>> MakeTlsChannel(std::unique_ptr<Channel> channel,
                                                const TlsKeys& keys, std::string identity) {
  Result<std::unique_ptr<RecordCipher>> reads = RecordCipher::Make(keys.read, /*seals=*/false);
  if (!reads.ok()) return reads.status();
  Result<std::unique_ptr<RecordCipher>> writes = RecordCipher::Make(keys.write, /*seals=*/true);
  if (!writes.ok()) return writes.status();
  return std::unique_ptr<Channel>(std::make_unique<TlsChannel>(
      std::move(channel), std::move(*reads), std::move(*writes), std::move(identity)));
}

Result<std::unique_ptr<Channel>> AdoptChannel(int fd, std::span<const std::byte> state,
                                              std::string identity) {
  std::unique_ptr<Channel> channel = AdoptSocket(fd);
  if (state.empty()) return channel;
  Result<TlsKeys> keys = DecodeTlsKeys(state);
  if (!keys.ok()) return keys.status();
  return MakeTlsChannel(std::move(channel), *keys, std::move(identity));
}

}  // namespace farcall
