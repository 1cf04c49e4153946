// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/image.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "cuda-abi/tile_ir.h"

namespace farcall::cuda_abi {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;
constexpr uint32_t kContainerMagic = 0xBA55ED50;
constexpr uint32_t kElfMagic = 0x464C457F;
constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();

constexpr uint64_t kFlagLz4 = 0x2000;
constexpr uint64_t kFlagZstd = 0x8000;
constexpr uint64_t kFlagArchSpecific = 0x100000;    // sm_90a: that architecture and no other
constexpr uint64_t kFlagFamilySpecific = 0x200000;  // sm_100f: its family
constexpr uint64_t kEntryHeaderBytes = 64;

template <typename T>
T Load(const uint8_t* at) {
  T value;
  memcpy(&value, at, sizeof(value));
  return value;
}

bool IsText(uint8_t byte) {
  return byte == '\t' || byte == '\n' || byte == '\r' || (byte >= 0x20 && byte < 0x7f);
}

uint64_t ContainerBytes(const uint8_t* container) {
  return Load<uint16_t>(container + 6) + Load<uint64_t>(container + 8);
}

bool IsSpecific(const ImageEntry& entry) {
  return (entry.flags & (kFlagArchSpecific | kFlagFamilySpecific)) != 0;
}

std::string_view StripPadding(std::string_view text) {
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return text;
}

// Reads one entry at the start of `rest`; its length with payload goes to `length`.
bool ParseEntry(Bytes rest, ImageEntry* entry, uint64_t* length, std::string* error) {
  if (rest.size() < kEntryHeaderBytes) {
    *error = "fatbin entry: " + std::to_string(rest.size()) + " bytes left, a header has 64";
    return false;
  }
  const uint8_t* at = rest.data();
  const uint64_t header = Load<uint32_t>(at + 4);
  const uint64_t padded = Load<uint64_t>(at + 8);
  const uint64_t compressed = Load<uint32_t>(at + 0x10);
  if (header < kEntryHeaderBytes || header > rest.size() || padded > rest.size() - header ||
      compressed > padded) {
    *error = "fatbin entry: header " + std::to_string(header) + ", payload " +
             std::to_string(padded) + " (compressed " + std::to_string(compressed) +
             ") do not fit " + std::to_string(rest.size()) + " bytes";
    return false;
  }
  entry->raw_kind = Load<uint16_t>(at);
  entry->kind = entry->raw_kind == 1   ? EntryKind::kPtx
                : entry->raw_kind == 2 ? EntryKind::kCubin
                                       : EntryKind::kOther;
  entry->isa_minor = Load<uint16_t>(at + 0x18);
  entry->isa_major = Load<uint16_t>(at + 0x1a);
  entry->arch = Load<uint32_t>(at + 0x1c);
  entry->flags = Load<uint64_t>(at + 0x28);
  entry->compression = entry->flags & kFlagZstd  ? Compression::kZstd
                       : entry->flags & kFlagLz4 ? Compression::kLz4
                                                 : Compression::kNone;
  const uint64_t name_at = Load<uint32_t>(at + 0x20);
  const uint64_t name_bytes = Load<uint32_t>(at + 0x24);
  if (name_at >= kEntryHeaderBytes && name_at <= header && name_bytes <= header - name_at)
    entry->name = StripPadding({reinterpret_cast<const char*>(at) + name_at, name_bytes});
  const bool packed = entry->compression != Compression::kNone;
  entry->payload = rest.subspan(header, packed ? compressed : padded);
  entry->uncompressed_bytes = packed ? Load<uint64_t>(at + 0x38) : padded;
  *length = header + padded;
  entry->whole = rest.first(*length);
  return true;
}

}  // namespace

ImageForm ClassifyImage(Bytes bytes) {
  if (bytes.size() < 4) return ImageForm::kUnknown;
  switch (Load<uint32_t>(bytes.data())) {
    case kWrapperMagic:
      return ImageForm::kWrapper;
    case kContainerMagic:
      return ImageForm::kContainer;
    case kElfMagic:
      return ImageForm::kElf;
    case kTileIrMagic:
      return ImageForm::kTileIr;
  }
  const bool text = std::all_of(bytes.begin(), bytes.begin() + 4, IsText);
  return text ? ImageForm::kPtx : ImageForm::kUnknown;
}

ImageView ViewTrustedImage(const void* image) {
  const auto* at = static_cast<const uint8_t*>(image);
  if (at == nullptr) return {};
  // Four bytes exist: the shortest text has a NUL, and no magic starts like printable text that
  // ends early.
  const size_t seen = strnlen(reinterpret_cast<const char*>(at), 4);
  const bool text = seen != 0 && std::all_of(at, at + seen, IsText);
  const ImageForm form = text ? ImageForm::kPtx : ClassifyImage({at, 4});
  switch (form) {
    case ImageForm::kWrapper: {
      const void* container = Load<const void*>(at + 8);
      const ImageView view = ViewTrustedImage(container);
      return view.form == ImageForm::kContainer ? view : ImageView{};
    }
    case ImageForm::kContainer:
      return {form, {at, static_cast<size_t>(ContainerBytes(at))}};
    case ImageForm::kElf:
      return {form, {at, static_cast<size_t>(ElfBytes(at, kUnbounded))}};
    case ImageForm::kPtx:
      return {form, {at, strlen(static_cast<const char*>(image))}};
    case ImageForm::kTileIr:
      return {form, {at, static_cast<size_t>(TileIrBytes(at, kUnbounded))}};
    case ImageForm::kUnknown:
      break;
  }
  return {};
}

std::vector<ImageView> ViewTrustedWrapper(const void* wrapper) {
  std::vector<ImageView> views;
  const auto* at = static_cast<const uint8_t*>(wrapper);
  if (at == nullptr || Load<uint32_t>(at) != kWrapperMagic) return views;
  const ImageView main = ViewTrustedImage(at);
  if (main.form == ImageForm::kContainer) views.push_back(main);
  const auto* prelinked = Load<const uint8_t* const*>(at + 16);
  if (Load<uint32_t>(at + 4) != 2 || prelinked == nullptr) return views;
  for (; *prelinked != nullptr; ++prelinked) {
    const ImageView view = ViewTrustedImage(*prelinked);
    if (view.form == ImageForm::kContainer) views.push_back(view);
  }
  return views;
}

ImageView ViewImage(Bytes bytes, std::string* error) {
  const ImageForm form = ClassifyImage(bytes);
  uint64_t length = bytes.size();
  if (form == ImageForm::kContainer) {
    length = bytes.size() < 16 ? 0 : ContainerBytes(bytes.data());
  } else if (form == ImageForm::kElf) {
    length = ElfBytes(bytes.data(), bytes.size());
  } else if (form == ImageForm::kTileIr) {
    length = TileIrBytes(bytes.data(), bytes.size());
  } else if (form == ImageForm::kPtx) {
    const std::string_view text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    const size_t end = std::min(text.find('\0'), text.size());
    return {form, bytes.first(end)};
  } else {
    *error = "kernel image: no fatbin container, ELF file, PTX text or Tile IR";
    return {};
  }
  if (length < 16 || length > bytes.size()) {
    *error = "kernel image: its headers say " + std::to_string(length) + " bytes, got " +
             std::to_string(bytes.size());
    return {};
  }
  return {form, bytes.first(length)};
}

bool ParseContainer(Bytes container, std::vector<ImageEntry>* entries, std::string* error) {
  entries->clear();
  if (container.size() < 16 || Load<uint32_t>(container.data()) != kContainerMagic) {
    *error = "fatbin container: no header";
    return false;
  }
  const uint64_t header = Load<uint16_t>(container.data() + 6);
  const uint64_t body = Load<uint64_t>(container.data() + 8);
  if (header < 16 || header > container.size() || body > container.size() - header) {
    *error = "fatbin container: header " + std::to_string(header) + ", body " +
             std::to_string(body) + " do not fit " + std::to_string(container.size()) + " bytes";
    return false;
  }
  Bytes rest = container.subspan(header, body);
  while (!rest.empty()) {
    ImageEntry entry;
    uint64_t length = 0;
    if (!ParseEntry(rest, &entry, &length, error)) return false;
    entries->push_back(entry);
    rest = rest.subspan(length);
  }
  return true;
}

uint64_t ElfBytes(const uint8_t* elf, uint64_t limit) {
  constexpr uint64_t kHeader = 64;
  if (limit < kHeader || Load<uint32_t>(elf) != kElfMagic || elf[4] != 2) return 0;
  uint64_t end = kHeader;
  const auto grow = [&](uint64_t offset, uint64_t bytes) {
    if (offset > limit || bytes > limit - offset) return false;
    end = std::max(end, offset + bytes);
    return true;
  };
  const uint64_t segments_at = Load<uint64_t>(elf + 32), sections_at = Load<uint64_t>(elf + 40);
  const uint64_t segment = Load<uint16_t>(elf + 54), segments = Load<uint16_t>(elf + 56);
  const uint64_t section = Load<uint16_t>(elf + 58), sections = Load<uint16_t>(elf + 60);
  if ((segments != 0 && segment < 56) || (sections != 0 && section < 64)) return 0;
  if (!grow(segments_at, segments * segment) || !grow(sections_at, sections * section)) return 0;
  for (uint64_t i = 0; i < segments; ++i) {
    const uint8_t* at = elf + segments_at + i * segment;
    if (!grow(Load<uint64_t>(at + 8), Load<uint64_t>(at + 32))) return 0;
  }
  constexpr uint32_t kNoBits = 8;
  for (uint64_t i = 0; i < sections; ++i) {
    const uint8_t* at = elf + sections_at + i * section;
    if (Load<uint32_t>(at + 4) == kNoBits) continue;
    if (!grow(Load<uint64_t>(at + 24), Load<uint64_t>(at + 32))) return 0;
  }
  return end;
}

const ImageEntry* ChooseEntry(const std::vector<ImageEntry>& entries, uint32_t cc,
                              CodeTaste taste) {
  if (taste == CodeTaste::kPtxFirst) {
    const ImageEntry* ptx = ChooseEntry(entries, cc, CodeTaste::kPtxOnly);
    return ptx != nullptr ? ptx : ChooseEntry(entries, cc, CodeTaste::kMachineCodeFirst);
  }
  const bool ptx_only = taste == CodeTaste::kPtxOnly;
  const ImageEntry* cubin = nullptr;
  const ImageEntry* ptx = nullptr;
  // Of one architecture, what was made for it in particular; who takes PTX only, and executes what
  // it can of any, is better off with what is not.
  const auto is_better = [ptx_only](const ImageEntry& entry, const ImageEntry* than) {
    if (than == nullptr) return true;
    if (entry.arch != than->arch) return entry.arch > than->arch;
    return IsSpecific(entry) != IsSpecific(*than) && IsSpecific(entry) != ptx_only;
  };
  for (const ImageEntry& entry : entries) {
    if (entry.arch > cc) continue;
    const bool same_major = entry.arch / 10 == cc / 10;
    if (!ptx_only && (entry.flags & kFlagArchSpecific) != 0 && entry.arch != cc) continue;
    if (!ptx_only && (entry.flags & kFlagFamilySpecific) != 0 && !same_major) continue;
    // A cubin runs on its own major version, at its minor or a later one.
    if (entry.kind == EntryKind::kCubin && same_major) {
      if (is_better(entry, cubin)) cubin = &entry;
    } else if (entry.kind == EntryKind::kPtx) {
      if (is_better(entry, ptx)) ptx = &entry;
    }
  }
  return cubin != nullptr && !ptx_only ? cubin : ptx;
}

}  // namespace farcall::cuda_abi
