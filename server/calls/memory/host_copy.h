// SPDX-License-Identifier: Apache-2.0
// The way of bytes between the link and a stream, whatever their shape on the device.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "server/state/objects/context_state.h"
#include "server/state/serve.h"

namespace farcall::server {

// Submits the copy of a run of the transfer, `offset` from its start, on the record's stream.
using CopyIn = std::function<CUresult(const std::byte* source, uint64_t offset, uint64_t bytes)>;
using CopyOut = std::function<CUresult(std::byte* destination, uint64_t offset, uint64_t bytes)>;

// Bytes of the record itself, and bytes that came as chunks. A wanted reply follows completion.
Status UploadInline(ServeCall& call, StreamState& stream, std::span<const std::byte> bytes,
                    const CopyIn& copy);
// The copy cannot be made: its bytes are thrown away once they have come.
Status SkipLanded(ServeCall& call, uint64_t bytes, uint64_t transfer, uint64_t offset);
Status UploadLanded(ServeCall& call, StreamState& stream, uint64_t bytes, uint64_t transfer,
                    uint64_t offset, const CopyIn& copy);
// Bytes into the reply, and bytes as chunks, in steps while staging memory is short.
Status ReadInline(ServeCall& call, StreamState& stream, uint64_t bytes, const CopyOut& copy);
Status ReadInChunks(ServeCall& call, StreamState& stream, uint64_t bytes, uint64_t transfer,
                    const CopyOut& copy);

}  // namespace farcall::server
