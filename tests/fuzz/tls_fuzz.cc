// SPDX-License-Identifier: Apache-2.0
// One end of a TLS connection after its handshake, whose peer has the keys and is hostile; and the
// encoded keys that one process hands to another. Input: {u8 mode}, then steps {u8 kind, u8 how,
// u16 bytes, body}. Data is delivered once, in order and unchanged, up to the first record that is
// wrong; what this end sends can be opened; a connection that is handed over loses nothing.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/fuzz/scripted_channel.h"
#include "transport/tls/openssl.h"
#include "transport/tls/record_cipher.h"
#include "transport/tls/tls_channel.h"

namespace {

using namespace farcall;
using fuzz::Script;
using fuzz::ScriptedChannel;

constexpr size_t kMaxSteps = 100;
enum Mode : uint8_t { kSlowSocket = 1, kAhead = 2, kSuites = 12 };
enum Step : uint8_t {
  kKeys,       // decodes the body as keys
  kBytes,      // the body, as it is
  kRecord,     // a record of type `how` % 8 + 18 with the body as its content
  kData,       // the body repeated `how` times, as records of data
  kBroken,     // a record of data of which one bit is not as it was sealed
  kKeyUpdate,  // `how` & 1: wants one back
  kRead,       // up to `how` * 97 bytes
  kSend,       // from this end
  kHandOver,
  kCut,
  kSteps
};

void Require(bool holds) {
  if (!holds) std::abort();
}

TlsTraffic Traffic(uint8_t mode, uint8_t fill) {
  constexpr std::array kAll = {TlsSuite::kAes128GcmSha256, TlsSuite::kAes256GcmSha384,
                               TlsSuite::kChacha20Poly1305Sha256, TlsSuite::kAes128GcmSha256};
  TlsTraffic traffic;
  traffic.suite = kAll[(mode & kSuites) >> 2];
  traffic.secret.assign(TlsSecretBytes(traffic.suite), std::byte{fill});
  return traffic;
}

std::unique_ptr<RecordCipher> Cipher(const TlsTraffic& traffic, bool seals) {
  auto made = RecordCipher::Make(traffic, seals);
  Require(made.ok());
  return std::move(*made);
}

class Connection {
 public:
  explicit Connection(uint8_t mode)
      : mode_(mode),
        script_(std::make_shared<Script>((mode & kSlowSocket) != 0, /*framed=*/false)),
        seals_(Cipher(Traffic(mode, 1), true)),
        opens_(Cipher(Traffic(mode, 2), false)) {
    Adopt({Traffic(mode, 1), Traffic(mode, 2)});
  }

  // False: the connection is over.
  bool Take(uint8_t kind, uint8_t how, std::span<const uint8_t> body) {
    const auto bytes = std::as_bytes(body);
    switch (kind % kSteps) {
      case kKeys:
        DecodeKeys(bytes);
        return true;
      case kBytes:
        is_honest_ = is_honest_ && bytes.empty();
        script_->Feed(bytes);
        return true;
      case kRecord:
        FeedRecord(static_cast<TlsContent>(how % 8 + 18), bytes);
        return true;
      case kData:
        for (int i = 0; i < how % 32; ++i) FeedRecord(TlsContent::kData, bytes);
        return true;
      case kBroken:
        FeedBroken(how, bytes);
        return true;
      case kKeyUpdate:
        FeedUpdate((how & 1) != 0);
        return true;
      case kRead:
        return Read(how * size_t{97});
      case kSend:
        return Send(how, bytes);
      case kHandOver:
        return HandOver();
      default:
        script_->CutByPeer();
        return true;
    }
  }

 private:
  void Adopt(const TlsKeys& keys) {
    auto made = MakeTlsChannel(std::make_unique<ScriptedChannel>(script_), keys, "peer");
    Require(made.ok());
    channel_ = std::move(*made);
    if ((mode_ & kAhead) != 0) channel_->ReadAhead();
  }

  static void DecodeKeys(std::span<const std::byte> bytes) {
    auto keys = DecodeTlsKeys(bytes);
    if (!keys.ok()) return;
    const std::vector<std::byte> again = EncodeTlsKeys(*keys);
    auto same = DecodeTlsKeys(again);
    Require(same.ok() && same->read.secret == keys->read.secret &&
            same->write.secret == keys->write.secret &&
            same->read.sequence == keys->read.sequence && same->write.suite == keys->write.suite);
    Require(RecordCipher::Make(keys->read, false).ok());
  }

  std::vector<std::byte> Sealed(TlsContent type, std::span<const std::byte> content) {
    std::vector<std::byte> record(content.size() + kTlsOverheadBytes);
    auto sealed = seals_->Seal(type, {&content, 1}, record.data());
    Require(sealed.ok() && *sealed == record.size());
    return record;
  }

  void FeedRecord(TlsContent type, std::span<const std::byte> content) {
    content = content.first(std::min(content.size(), kMaxTlsPlainBytes));
    script_->Feed(Sealed(type, content));
    if (is_honest_ && type == TlsContent::kData)
      expected_.insert(expected_.end(), content.begin(), content.end());
  }

  void FeedBroken(uint8_t how, std::span<const std::byte> content) {
    content = content.first(std::min(content.size(), kMaxTlsPlainBytes));
    std::vector<std::byte> record = Sealed(TlsContent::kData, content);
    const size_t bit = (how * size_t{131} + content.size()) % (record.size() * 8);
    record[bit / 8] ^= std::byte{static_cast<uint8_t>(1u << bit % 8)};
    is_honest_ = false;
    script_->Feed(record);
  }

  void FeedUpdate(bool wants_one) {
    const std::array<std::byte, 5> message = {std::byte{24}, std::byte{0}, std::byte{0},
                                              std::byte{1}, std::byte{wants_one}};
    script_->Feed(Sealed(TlsContent::kHandshake, message));
    Require(seals_->Update().ok());
  }

  bool Read(size_t most) {
    std::vector<std::byte> into(most);
    auto got = channel_->TryReceive(into);
    if (!got.ok()) return false;
    Require(*got <= into.size() && *got <= expected_.size() - taken_);
    Require(std::equal(into.begin(), into.begin() + static_cast<ptrdiff_t>(*got),
                       expected_.begin() + static_cast<ptrdiff_t>(taken_)));
    taken_ += *got;
    return true;
  }

  bool Send(uint8_t how, std::span<const std::byte> bytes) {
    std::vector<std::span<const std::byte>> parts(how % 12, bytes);
    auto sent = channel_->TrySend(parts);
    if (!sent.ok()) return false;
    for (auto part : parts) {
      const size_t taken = std::min(part.size(), *sent);
      sent_.insert(sent_.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(taken));
      *sent -= taken;
    }
    Require(*sent == 0);
    return OpenSent();
  }

  // What the peer makes of what this end has sent.
  bool OpenSent() {
    const std::vector<std::byte> more = script_->Sent();
    wire_.insert(wire_.end(), more.begin(), more.end());
    size_t at = 0;
    while (wire_.size() - at >= kTlsHeaderBytes) {
      const size_t bytes = kTlsHeaderBytes + (std::to_integer<size_t>(wire_[at + 3]) << 8 |
                                              std::to_integer<size_t>(wire_[at + 4]));
      if (wire_.size() - at < bytes) break;
      std::vector<std::byte> plain(bytes);
      auto opened = opens_->Open(std::span(wire_).subspan(at, bytes), plain.data());
      Require(opened.ok() && opened->type != TlsContent::kAlert);
      if (opened->type == TlsContent::kHandshake) {
        Require(opened->bytes == 5 && opens_->Update().ok());
      } else {
        Require(opened->type == TlsContent::kData && opened->bytes <= sent_.size());
        Require(std::equal(plain.begin(), plain.begin() + static_cast<ptrdiff_t>(opened->bytes),
                           sent_.begin()));
        sent_.erase(sent_.begin(), sent_.begin() + static_cast<ptrdiff_t>(opened->bytes));
      }
      at += bytes;
    }
    wire_.erase(wire_.begin(), wire_.begin() + static_cast<ptrdiff_t>(at));
    return true;
  }

  // To a process that carries on with what it is handed.
  bool HandOver() {
    auto state = channel_->HandOver();
    if (!state.ok()) return state.status().code() == Code::kMalformed;
    auto keys = DecodeTlsKeys(*state);
    Require(keys.ok());
    Require(OpenSent());
    channel_->Abandon();
    channel_ = nullptr;
    Adopt(*keys);
    return true;
  }

  const uint8_t mode_;
  const std::shared_ptr<Script> script_;
  const std::unique_ptr<RecordCipher> seals_, opens_;  // the peer's
  std::unique_ptr<Channel> channel_;
  bool is_honest_ = true;  // so far, all it was fed are records as they were sealed

  std::vector<std::byte> expected_;
  size_t taken_ = 0;
  std::vector<std::byte> sent_, wire_;  // not opened yet: data, and what it is on the wire
};

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  StartOpenSsl();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  Connection connection(data[0]);
  std::span<const uint8_t> left(data + 1, size - 1);
  for (size_t steps = 0; left.size() >= 4 && steps < kMaxSteps; ++steps) {
    uint16_t bytes;
    std::memcpy(&bytes, left.data() + 2, sizeof(bytes));
    const auto body = left.subspan(4, std::min<size_t>(bytes, left.size() - 4));
    if (!connection.Take(left[0], left[1], body)) return 0;
    left = left.subspan(4 + body.size());
  }
  return 0;
}
