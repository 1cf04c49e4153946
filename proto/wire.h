// SPDX-License-Identifier: Apache-2.0
// The wire: frames of the log, chunks of the bulk lanes, records, session messages, handles. Prose
// in docs/reference/wire.md.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace farcall {

// Another major is refused at GREETING and HELLO. 2: both sides prove themselves over all that was
// said, HELLO and its answer are sealed, session keys are made by both and never sent.
inline constexpr uint16_t kWireMajor = 2;
inline constexpr uint16_t kWireMinor = 0;

// ---- The log: both directions are sequences of frames, each a header and whole records.

inline constexpr uint32_t kFrameMagic = 0x31424346;   // "FCB1"
inline constexpr size_t kMaxFrameBytes = 1u << 20;    // header included
inline constexpr size_t kBatchBytes = 16u << 10;      // the client flushes at this size
inline constexpr size_t kMaxInlineBytes = 64u << 10;  // larger payloads travel on the bulk lanes
inline constexpr size_t kMaxChunkBytes = 1u << 20;
// What a client may have sent on the lanes that the server has not yet reported as used (kUsed, at
// least every kUsedStepBytes).
inline constexpr uint64_t kMaxUnusedUploadBytes = 768u << 20;
inline constexpr uint64_t kUsedStepBytes = 32u << 20;

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint32_t bytes = 0;  // whole frame, header included
  uint64_t seq = 0;    // strictly +1 per direction over the session's life, from 1; 0: not part of
                       // the log (heartbeat)
  uint64_t ack = 0;    // highest frame seq received: the peer drops its tail up to here
  uint64_t chunk_ack =
      0;  // all bulk chunks received up to here (contiguous prefix, all lanes together)
  uint64_t chunks_sent =
      0;  // bulk chunks sent before this frame: whoever acts on the frame first lands these
  uint32_t crc32c =
      0;  // of the frame with this field zero; 0 when the transport checks integrity itself
  uint16_t records = 0;
  uint16_t flags = 0;  // FrameFlags
};
static_assert(sizeof(FrameHeader) == 48 && std::is_trivially_copyable_v<FrameHeader>);

enum FrameFlags : uint16_t {
  kFrameAsks = 1,  // only outside the log: the peer answers at once, with any frame (kIdleSilence)
};

// Header of each record; the body follows, and the next record starts 8-byte aligned.
struct RecordHeader {
  uint32_t bytes = 0;   // header and body, a multiple of 8
  uint16_t call = 0;    // CallId or SessionCall
  uint16_t flags = 0;   // RecordFlags
  uint32_t serial = 0;  // client -> server: +1 per record, wraps; server -> client: the serial this
                        // answers, else 0
  uint16_t thread = 0;  // slot of the calling client thread: names its per-thread default stream
  uint16_t context = 0;  // slot of the context current on that thread, 0 = none
};
static_assert(sizeof(RecordHeader) == 16 && std::is_trivially_copyable_v<RecordHeader>);

enum RecordFlags : uint16_t {
  kWantReply = 1,    // client: answer with a reply record, also if the call is a post
  kReply = 2,        // server: this answers `serial`; body starts {i32 api_status, u32 0}
  kBytesFollow = 4,  // client: its transfer's chunks come later than chunks_sent of its frame
};

// ---- Bulk lanes: chunks, numbered over all lanes of one direction from 1.

inline constexpr uint32_t kChunkMagic = 0x31434346;  // "FCC1"

struct ChunkHeader {
  uint32_t magic = kChunkMagic;
  uint32_t bytes = 0;  // payload after this header, 1..kMaxChunkBytes
  uint64_t seq = 0;
  uint64_t transfer = 0;  // client-assigned id, unique in the session
  uint64_t offset = 0;    // of this payload inside the transfer
};
static_assert(sizeof(ChunkHeader) == 32 && std::is_trivially_copyable_v<ChunkHeader>);

// A chunk that says kPackedMagic crosses compressed (kPackedChunks): this header follows its own,
// and so many bytes follow, one frame of Zstandard (RFC 8878) that holds ChunkHeader::bytes.
inline constexpr uint32_t kPackedMagic = 0x315A4346;  // "FCZ1"

struct PackedHeader {
  uint32_t bytes = 0;  // 1 to ChunkHeader::bytes - 1
  uint32_t zero = 0;
};
static_assert(sizeof(PackedHeader) == 8 && std::is_trivially_copyable_v<PackedHeader>);

// ---- Session messages: record ids from 0xF000 up, ours rather than an API's. Bodies in order,
// codec.h's layout.

enum class SessionCall : uint16_t {
  // both ways
  kHeartbeat = 0xF000,  // {}
  kGoodbye = 0xF001,    // {i32 farcall::Code, string reason}: the sender ends the session

  // client -> server
  kNeedCredit = 0xF010,    // {i32 device, u64 bytes, u8 contiguous} -> reply {u64 base, u64 bytes};
                           // OUT_OF_MEMORY if refused
  kReturnCredit = 0xF011,  // {i32 device, u64 base, u64 bytes}: an unspent granted range goes back
  kFenceFrees =
      0xF012,  // {u64 epoch} -> reply once every free of this context up to epoch has completed
  kHostDone = 0xF013,  // {u64 token}: the host function of kHostCall has returned
  // {u64 address, u64 bytes, i32 device or -1} -> reply: host memory mirrored at its address
  // (managed memory is charged to a device)
  kHostWindow = 0xF014,
  kNamedImage = 0xF015,  // {hash[32], u64 bytes, u64 transfer or 0, inline bytes}: puts an image
                         // into the server's store
  kNvml = 0xF016,        // {u64 count, a run of bytes a question} -> reply {u64 count, {i64
                         // nvmlReturn_t, a run of outputs} an answer}; a question: {u16 NvmlCall, a
                         // run an argument}
  kHostWindowEnd = 0xF017,  // {u64 address}: that mirror goes
  // 0xF018 and 0xF019 were mirrors without masks. A run is {u64 address, bytes, mask}: a bit a
  // byte,
  // which of them count; an empty mask: all (proto/changed_bytes.h).
  kMirrorUp = 0xF01A,    // {u64 transfer or 0, u64 address, u64 bytes, mask or runs}: what the host
                         // wrote; runs, if there is no transfer
  kMirrorDown = 0xF01B,  // {u64 from} -> reply {u64 next or 0}: what the device wrote at `from` and
                         // above comes as kMirrored, ahead of the reply; the rest from `next` on
  // {LibraryHeader, arguments} -> reply {i32 the library's status, u32 0, outputs}: a call of a
  // mathematics library (proto/library/library_call.h)
  kLibrary = 0xF01C,

  // {u64 address, u64 bytes, i32 device or -1} -> reply, kHostShared ahead of it: host memory at
  // its address that both processes map; ends as a mirror does
  kShareHost = 0xF01D,

  // server -> client
  kError =
      0xF020,  // {u32 serial, u16 call, u16 context, i32 api_status, string detail}: a post failed
  kGrant = 0xF021,     // {i32 device, u64 base, u64 bytes}: backed credit pushed ahead of need
  kRecall = 0xF022,    // {i32 device, u64 bytes}: give unspent credit back
  kFreed = 0xF023,     // {u16 context, u64 epoch}: frees of that context up to epoch have completed
  kHostCall = 0xF024,  // {u64 token, u64 function, u64 user_data, i32 status, u64 stream}: run a
                       // host function
  kOutput = 0xF025,    // {bytes[, u8 is_error]}: the driver wrote it (kErrorOutput: is_error)
  // {u64 event handle, u32 record serial, i32 api_status[, f32 ms]}: that recording has completed,
  // or never will. `ms`: since the recording it named, if both have completed (kEventTimes)
  kCompleted = 0xF026,
  kUsed = 0xF027,      // {u64 bytes}: so much of the client's chunks has been used so far, in all
  kMirrored = 0xF028,  // {u64 more, runs}: what the device wrote to mirrored memory, ahead of the
                       // word that its work is done. `more`: there may be more, ask (kMirrorDown)
  // {u64 object, u16 library, u16 function, i32 the library's status}: a posted kLibrary failed
  kLibraryFailed = 0xF029,
  // {u64 address, u64 bytes, u64 inode}: the memory of kShareHost, whose descriptor, of that inode,
  // the log's connection has carried
  kHostShared = 0xF02A,
};

inline constexpr uint16_t kFirstSessionCall = 0xF000;

// ---- Handles: client-assigned, typed, generation-checked, never 0, no canonical pointer.
//   bits 0-3 zero, 4-27 index (from 1), 28-43 generation, 44-51 kind, 52-63 zero

enum class HandleKind : uint8_t {
  kNone = 0,
  kContext,
  kStream,
  kEvent,
  kModule,
  kLibrary,
  kFunction,
  kKernel,
  kGraph,
  kGraphExec,
  kGraphNode,
  kMemHandle,
  kMemPool,
  kArray,
  kMipmappedArray,
  kTexObject,
  kSurfObject,
  kLinkState,
  kUserObject,
  kGreenContext,
  kLast = kGreenContext,
};

struct HandleParts {
  HandleKind kind;
  uint32_t index;
  uint16_t generation;
};

// The application holds this value in the place of a pointer, and may count on a pointer's
// alignment: PyTorch tells its own streams from others by the lowest bits.
constexpr uint64_t MakeHandle(HandleKind kind, uint32_t index, uint16_t generation) {
  return ((static_cast<uint64_t>(kind) << 40) | (static_cast<uint64_t>(generation) << 24) |
          (index & 0xFFFFFFu))
         << 4;
}
constexpr HandleParts SplitHandle(uint64_t handle) {
  return {static_cast<HandleKind>((handle >> 44) & 0xFF),
          static_cast<uint32_t>((handle >> 4) & 0xFFFFFF),
          static_cast<uint16_t>((handle >> 28) & 0xFFFF)};
}
// Whether a number has the form of one: what SplitHandle does not look at is 0.
constexpr bool HasHandleForm(uint64_t handle) {
  return handle >> 52 == 0 && handle % 16 == 0;
}
inline constexpr uint32_t kMaxHandleIndex = 0xFFFFFF;

// ---- Address windows (device memory; pinned host memory), equal on both sides.

inline constexpr uint64_t kChunkGranularityBytes = 2u << 20;

struct Window {
  uint64_t base = 0;
  uint64_t bytes = 0;
  bool Contains(uint64_t address, uint64_t length) const {
    return address >= base && address - base <= bytes && length <= bytes - (address - base);
  }
};

// A window of device memory has two halves, so that neither side must ask the other for an address:
// the server grants credit in the lower one, the client places what the application reserves and
// maps itself in the upper one.
constexpr Window CreditHalf(const Window& window) {
  return {window.base, window.bytes / 2 / kChunkGranularityBytes * kChunkGranularityBytes};
}
constexpr Window ReservationHalf(const Window& window) {
  uint64_t lower = CreditHalf(window).bytes;
  return {window.base + lower, window.bytes - lower};
}

// Names memory (or an event) that one session shares with the others of its vGPU; chosen at random
// by the server, so whoever has it was given it.
struct ShareToken {
  uint64_t high = 0, low = 0;
  auto operator<=>(const ShareToken&) const = default;
};

}  // namespace farcall
