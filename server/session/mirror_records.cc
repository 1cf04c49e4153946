// SPDX-License-Identifier: Apache-2.0
// Host memory of the application's that the device reaches: made, filled, ended.
#include <sys/stat.h>
#include <unistd.h>

#include "proto/changed_bytes.h"
#include "server/device/current_context.h"
#include "server/session/session_loop.h"

namespace farcall::server {

// kHostWindow and kShareHost.
Status SessionLoop::ServeHostMemory(const RecordHeader& header, Reader& in, bool is_shared,
                                    Served* served) {
  ContextState* context = nullptr;
  bool stalled = false;
  const CUresult found =
      session_->contexts().Find(header, session_->helper_busy(), &context, &stalled);
  if (stalled) {  // it is still in the making
    *served = Served::kStalled;
    return {};
  }
  auto address = in.Get<uint64_t>();
  auto bytes = in.Get<uint64_t>();
  auto device = in.Get<int32_t>();
  if (!in.Done() || device >= options_.devices)
    return Malformed(header, "the body of kHostWindow or kShareHost");
  // An older client has no mirrors: kMirrored would end its session.
  const bool can = is_shared ? link_->CarriesDescriptors() : options_.client_takes_mirrors;
  if (!can || context == nullptr) {
    session_->Answer(header, can ? found : CUDA_ERROR_NOT_SUPPORTED, {});
    return {};
  }
  session_->OnMemoryHelper(
      [this, header, address, bytes, device, is_shared, native = context->native] {
        CurrentContext::Set(api_, native);
        if (is_shared) return ShareHost(header, address, bytes, device);
        std::string detail;
        CUresult made = session_->mirrors().Create(address, bytes, device, &detail);
        session_->Answer(header, made, {}, detail);
      });
  return {};
}

void SessionLoop::ShareHost(const RecordHeader& header, uint64_t address, uint64_t bytes,
                            int device) {
  std::string detail;
  int file = -1;
  CUresult made = session_->mirrors().Share(address, bytes, device, &file, &detail);
  if (made == CUDA_SUCCESS) {
    struct stat status {};
    const Status sent = fstat(file, &status) == 0
                            ? link_->SendDescriptor(file)
                            : Status(Code::kUnavailable, "shared memory has no inode");
    close(file);  // the mapping stays
    if (sent.ok()) {
      Builder shared;
      shared.Put<uint64_t>(address);
      shared.Put<uint64_t>(bytes);
      shared.Put<uint64_t>(status.st_ino);
      session_->outbox().Push(SessionCall::kHostShared, shared.bytes());
    } else {
      session_->mirrors().Remove(address);
      made = CUDA_ERROR_NOT_SUPPORTED;
      detail = sent.message();
    }
  }
  session_->Answer(header, made, {}, detail);
}

Status SessionLoop::ServeHostWindowEnd(const RecordHeader& header, Reader& in, Served* served) {
  auto address = in.Get<uint64_t>();
  if (!in.Done()) return Malformed(header, "kHostWindowEnd's body");
  if (WaitsForSideQueue(served))  // copies from there may be among them
    return {};
  ContextState* context = nullptr;
  bool stalled = false;
  session_->contexts().Find(header, session_->helper_busy(), &context, &stalled);
  session_->contexts().MakeCurrent(context);
  if (!session_->mirrors().Remove(address))
    return Malformed(header, "kHostWindowEnd of what is not mirrored");
  return {};
}

Status SessionLoop::ServeMirrorUp(const RecordHeader& header, Reader& in, Served* served) {
  auto transfer = in.Get<uint64_t>();
  auto address = in.Get<uint64_t>();
  auto bytes = in.Get<uint64_t>();
  std::span<const std::byte> runs = in.GetBytes();
  if (!in.Done() || (transfer != 0 && (!MaskFits(runs.size(), bytes) ||
                                       !session_->mirrors().MayApply(address, bytes))))
    return Malformed(header, "kMirrorUp's body");
  if (transfer == 0)
    return session_->mirrors().ApplyRuns(runs) ? Status() : Malformed(header, "kMirrorUp's runs");
  switch (session_->landing().Check(transfer, 0, bytes, head_.chunks_sent)) {
    case Landing::Cover::kAwaited:
      *served = Served::kStalled;
      return {};
    case Landing::Cover::kViolation:
      return Malformed(header, "kMirrorUp before its bytes");
    case Landing::Cover::kWhole:
      break;
  }
  std::vector<Landing::Piece> pieces;
  if (!session_->landing().Claim(transfer, 0, bytes, false, &pieces))
    return Malformed(header, "kMirrorUp of bytes already used");
  for (const Landing::Piece& piece : pieces) {
    std::span<const std::byte> mask = runs;
    if (!mask.empty()) {
      if (piece.offset % 8 != 0)
        return Malformed(header, "kMirrorUp's chunks, which divide a word of its mask");
      mask = mask.subspan(piece.offset / 8, MaskBytes(piece.bytes.size()));
    }
    session_->mirrors().Apply(address + piece.offset, piece.bytes, mask);
  }
  session_->landing().Release(transfer, 0, bytes);
  return {};
}

Status SessionLoop::ServeMirrorDown(const RecordHeader& header, Reader& in) {
  auto from = in.Get<uint64_t>();
  if (!in.Done()) return Malformed(header, "kMirrorDown's body");
  session_->OnMemoryHelper([this, header, from] {
    Builder out;
    out.Put<uint64_t>(session_->mirror_reports().SendFrom(from));
    session_->Answer(header, CUDA_SUCCESS, out.bytes());
  });
  return {};
}

}  // namespace farcall::server
