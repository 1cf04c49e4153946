// SPDX-License-Identifier: Apache-2.0
// The protection of TLS 1.3 records in one direction (RFC 8446 5), on OpenSSL's ciphers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transport/tls/tls_keys.h"

struct evp_cipher_ctx_st;

namespace farcall {

enum class TlsContent : uint8_t {
  kChangeCipherSpec = 20,
  kAlert = 21,
  kHandshake = 22,
  kData = 23,
};

inline constexpr size_t kTlsHeaderBytes = 5;
inline constexpr size_t kTlsTagBytes = 16;
inline constexpr size_t kMaxTlsPlainBytes = 16384;
// Header, content, its type and padding, tag; 256: what a record may grow by.
inline constexpr size_t kMaxTlsRecordBytes = kTlsHeaderBytes + kMaxTlsPlainBytes + 256;
// Of a record of ours beside its content: we never pad.
inline constexpr size_t kTlsOverheadBytes = kTlsHeaderBytes + 1 + kTlsTagBytes;

//   Thread  one at a time
class RecordCipher {
 public:
  //   Errors  kMalformed (a secret of another size), kUnsupported (OpenSSL lacks the cipher)
  static Result<std::unique_ptr<RecordCipher>> Make(const TlsTraffic& traffic, bool seals);
  ~RecordCipher();
  RecordCipher(const RecordCipher&) = delete;
  RecordCipher& operator=(const RecordCipher&) = delete;

  // Writes a record of the parts, together at most kMaxTlsPlainBytes, and returns its bytes: theirs
  // and kTlsOverheadBytes. `out` and the parts do not overlap.
  //   Errors  kInternal (OpenSSL refuses)
  Result<size_t> Seal(TlsContent type, std::span<const std::span<const std::byte>> parts,
                      std::byte* out);

  struct Opened {
    TlsContent type = TlsContent::kData;
    size_t bytes = 0;  // of content
  };
  // Opens a whole record, header included, into `into`, which has room for its bytes less the
  // header and the tag. What it holds after an error is nobody's.
  //   Errors  kMalformed: not a record of these keys and this place
  Result<Opened> Open(std::span<const std::byte> record, std::byte* into);

  // Goes on with the next secret: a KeyUpdate was sent or received.
  Status Update();

  const TlsTraffic& traffic() const { return traffic_; }

 private:
  RecordCipher(const TlsTraffic& traffic, bool seals);
  Status SetKey();
  bool Begin(std::span<const std::byte, kTlsHeaderBytes> header);

  TlsTraffic traffic_;
  const bool seals_;
  evp_cipher_ctx_st* context_ = nullptr;
  std::array<unsigned char, 12> iv_{};
};

}  // namespace farcall
