// SPDX-License-Identifier: Apache-2.0
#include "cpu-device/images/host_object.h"

#include <cstring>

#include "cpu-device/images/elf.h"

namespace farcall::cpu_device::images {
namespace {

using cuda_abi::Bytes;

constexpr char kArchive[] = "!<arch>\n";
constexpr size_t kArchiveBytes = sizeof(kArchive) - 1;
// Of a member: 60 bytes of text, its size in decimal at 48, a mark at 58; members begin at even
// places.
constexpr size_t kMemberHeader = 60, kSizeAt = 48, kSizeBytes = 10, kMarkAt = 58;
constexpr uint32_t kContainerMagic = 0xBA55ED50;
constexpr uint64_t kContainerHeader = 16;

bool Fail(std::string* error, const std::string& what) {
  *error = "host object or library: " + what;
  return false;
}

// Sections of images hold containers one behind the other, at multiples of 8.
bool ReadContainers(Bytes section, std::vector<Bytes>* containers, std::string* error) {
  uint64_t at = 0;
  while (section.size() - at >= kContainerHeader) {
    uint32_t magic = 0;
    uint64_t bytes = 0;
    LoadAt(section, at, &magic);
    LoadAt(section, at + 8, &bytes);
    if (magic != kContainerMagic) {
      at += 8;
    } else if (bytes > section.size() - at - kContainerHeader) {
      return Fail(error, "a container of " + std::to_string(bytes) + " bytes, " +
                             std::to_string(section.size() - at) + " are left");
    } else {
      containers->push_back(section.subspan(at, kContainerHeader + bytes));
      at += (kContainerHeader + bytes + 7) & ~uint64_t{7};
    }
    if (at > section.size()) break;
  }
  return true;
}

bool ReadObject(Bytes object, std::vector<Bytes>* containers, std::string* error) {
  ElfFile elf;
  if (!ReadElf(object, &elf, error)) return false;
  for (const ElfSection& section : elf.sections) {
    if (section.name != "__nv_relfatbin" && section.name != ".nv_fatbin") continue;
    if (!ReadContainers(section.bytes, containers, error)) return false;
  }
  return true;
}

// -1: no number.
int64_t Decimal(const uint8_t* text, size_t length) {
  int64_t value = 0;
  size_t i = 0;
  for (; i < length && text[i] >= '0' && text[i] <= '9'; ++i) value = value * 10 + (text[i] - '0');
  return i == 0 ? -1 : value;
}

}  // namespace

bool ContainersOfHostCode(Bytes file, std::vector<Bytes>* containers, std::string* error) {
  if (file.size() < kArchiveBytes || memcmp(file.data(), kArchive, kArchiveBytes) != 0)
    return ReadObject(file, containers, error);
  for (size_t at = kArchiveBytes; file.size() - at >= kMemberHeader;) {
    const uint8_t* header = file.data() + at;
    const int64_t size = Decimal(header + kSizeAt, kSizeBytes);
    at += kMemberHeader;
    if (header[kMarkAt] != '`' || header[kMarkAt + 1] != '\n' || size < 0 ||
        static_cast<uint64_t>(size) > file.size() - at) {
      return Fail(error, "the archive's member at " + std::to_string(at - kMemberHeader) +
                             " is not inside its " + std::to_string(file.size()) + " bytes");
    }
    const Bytes member = file.subspan(at, static_cast<size_t>(size));
    // Tables of names and symbols are members too.
    if (cuda_abi::ClassifyImage(member) == cuda_abi::ImageForm::kElf &&
        !ReadObject(member, containers, error))
      return false;
    at += static_cast<size_t>(size + (size & 1));
    if (at > file.size()) break;
  }
  return true;
}

}  // namespace farcall::cpu_device::images
