// SPDX-License-Identifier: Apache-2.0
#include "server/memory/share_list.h"

#include <unistd.h>

#include "proto/codec.h"
#include "server/control/memory_file.h"

namespace farcall::server {

namespace {
constexpr size_t kMaxListBytes = 16u << 20;
}  // namespace

uint64_t ShareList::bytes() const {
  uint64_t total = 0;
  for (const Piece& piece : pieces) total += piece.bytes;
  return total;
}

std::vector<std::byte> EncodeShareList(const ShareList& list) {
  Builder out;
  out.Put<uint64_t>(list.pieces.size());
  for (const ShareList::Piece& piece : list.pieces) {
    out.Put<uint64_t>(piece.token.high);
    out.Put<uint64_t>(piece.token.low);
    out.Put<uint64_t>(piece.bytes);
  }
  return out.mutable_bytes();
}

bool DecodeShareList(const std::vector<std::byte>& bytes, ShareList* list) {
  Reader in(bytes);
  size_t count = in.GetCount(24);
  for (size_t i = 0; i < count; ++i) {
    ShareList::Piece piece;
    piece.token.high = in.Get<uint64_t>();
    piece.token.low = in.Get<uint64_t>();
    piece.bytes = in.Get<uint64_t>();
    list->pieces.push_back(piece);
  }
  return in.Done() && count != 0;
}

CUresult ShareMemory(const DriverApi& api, MemoryBroker& broker,
                     CUmemGenericAllocationHandle native, int device, uint64_t bytes,
                     ShareToken* token, std::string* detail) {
  int descriptor = -1;
  CUresult result = api.cuMemExportToShareableHandle(&descriptor, native,
                                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (result != CUDA_SUCCESS) return result;
  Status shared = broker.Share(descriptor, device, bytes, token);
  close(descriptor);
  if (!shared.ok()) {
    *detail = shared.message();
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

Status ShareBytes(MemoryBroker& broker, const std::vector<std::byte>& bytes, ShareToken* token) {
  int file = MakeMemoryFile("farcall-shared", bytes);
  if (file < 0) return {Code::kUnavailable, "no memory for what is to be shared"};
  Status shared = broker.Share(file, 0, 0, token);
  close(file);
  return shared;
}

Status ReadShared(MemoryBroker& broker, const ShareToken& token, std::vector<std::byte>* bytes) {
  Shared shared;
  FARCALL_TRY(broker.Redeem(token, &shared));
  Result<std::vector<std::byte>> read =
      shared.bytes != 0
          ? Result<std::vector<std::byte>>(Status(Code::kUnavailable,
                                                  "the handle is of memory that is created, not "
                                                  "of an allocation or an event"))
          : ReadMemoryFile(shared.descriptor, kMaxListBytes);
  close(shared.descriptor);
  broker.DropShared(token);
  if (!read.ok()) return read.status();
  *bytes = std::move(*read);
  return {};
}

}  // namespace farcall::server
