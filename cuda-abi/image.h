// SPDX-License-Identifier: Apache-2.0
// Kernel images as cuModuleLoadData and cuLibraryLoadData get them: which form, how long, which
// entry a device would take. Payloads stay opaque here: who needs the bytes decompresses them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace farcall::cuda_abi {

// kTileIr: byte code of CUDA Tile, which drivers from CUDA 13.1 on compile.
enum class ImageForm { kUnknown, kWrapper, kContainer, kElf, kPtx, kTileIr };
enum class EntryKind { kPtx, kCubin, kOther };
enum class Compression { kNone, kLz4, kZstd };

using Bytes = std::span<const uint8_t>;

// One image inside a container. Points into the container's bytes.
struct ImageEntry {
  EntryKind kind = EntryKind::kOther;
  uint16_t raw_kind = 0;
  uint32_t arch = 0;       // 75 for sm_75 and compute_75
  uint16_t isa_major = 0;  // PTX: of its ISA version
  uint16_t isa_minor = 0;
  uint64_t flags = 0;
  Compression compression = Compression::kNone;
  std::string_view name;  // source file of a debug build, else empty
  Bytes whole;            // header, payload and padding
  Bytes payload;          // compressed size if compressed, else padded
  uint64_t uncompressed_bytes = 0;
};

// An image seen through a pointer the application gave: a container, an ELF file or PTX text
// without its NUL.
struct ImageView {
  ImageForm form = ImageForm::kUnknown;  // never kWrapper: wrappers are followed
  Bytes bytes;
};

// What the first bytes say. `bytes` may be shorter than the image.
ImageForm ClassifyImage(Bytes bytes);

// Trusted: follows the application's pointer and believes the sizes found there, as the driver
// does.
//   Errors  form kUnknown (null pointer, a wrapper without a container, or no known magic and no
//   text)
ImageView ViewTrustedImage(const void* image);
// Every container a wrapper names: a version 2 wrapper (relocatable code) has a list of prelinked
// ones.
std::vector<ImageView> ViewTrustedWrapper(const void* wrapper);

// Bounded: the same for bytes from an untrusted peer, exactly the image and nothing else.
//   Errors  form kUnknown with a reason in `error`
ImageView ViewImage(Bytes bytes, std::string* error);

// The entries of a container, in file order; every length is checked against `container`.
//   Errors  false with a reason in `error`
bool ParseContainer(Bytes container, std::vector<ImageEntry>* entries, std::string* error);

// Length of an ELF file by its own headers, 0 if they are not a 64-bit ELF's. `limit` bounds what
// is read.
uint64_t ElfBytes(const uint8_t* elf, uint64_t limit);

// What a device makes of an image that holds both.
enum class CodeTaste { kMachineCodeFirst, kPtxOnly, kPtxFirst };

// The entry the driver takes for compute capability `cc` (130 for 13.0): an exact or compatible
// cubin, else the highest PTX not above it; kPtxOnly passes cubins over, kPtxFirst takes one only
// where there is no PTX. nullptr = none (CUDA_ERROR_NO_BINARY_FOR_GPU).
const ImageEntry* ChooseEntry(const std::vector<ImageEntry>& entries, uint32_t cc, CodeTaste taste);

}  // namespace farcall::cuda_abi
