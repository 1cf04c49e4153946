// SPDX-License-Identifier: Apache-2.0
// Files of CUDA's toolkit that a framework in a container without one reads by itself. Which these
// are is fixed: a client names none by path.
#include "server/library/toolkit_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <vector>

#include "toolkit/library_folders.h"

namespace farcall::server {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLibdevice = "nvvm/libdevice/libdevice.10.bc";

std::vector<std::string> LibdevicePlaces() {
  std::vector<std::string> places;
  for (const fs::path folder : LibraryFolders()) {
    // A toolkit's lib64, or the lib of one of NVIDIA's packages, which share a folder.
    for (const char* to : {"..", "../../..", "../../cuda_nvcc", "../../cu13"})
      places.push_back((folder / to / kLibdevice).string());
  }
  for (const fs::path toolkit : ToolkitFolders()) places.push_back((toolkit / kLibdevice).string());
  for (const fs::path package : PackageFolders()) places.push_back((package / kLibdevice).string());
  return places;
}

// Opened, and its size; -1: none that can be read.
int OpenFirst(const std::vector<std::string>& places, uint64_t* bytes) {
  for (const std::string& place : places) {
    int file = open(place.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info;
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 &&
        static_cast<uint64_t>(info.st_size) <= kMaxFileBytes) {
      *bytes = static_cast<uint64_t>(info.st_size);
      return file;
    }
    if (file >= 0) close(file);
  }
  return -1;
}

}  // namespace

Status ReadToolkitFile(LibraryFile file, uint64_t from, uint64_t* whole, std::string* piece) {
  if (file != LibraryFile::kLibdevice)
    return {Code::kUnsupported, "no such file is handed out: this server is older"};
  int opened = OpenFirst(LibdevicePlaces(), whole);
  if (opened < 0) {
    return {Code::kUnavailable, std::string("no ") + kLibdevice +
                                    " in a toolkit or NVIDIA's packages; name the folder of their "
                                    "libraries in the server's FARCALL_LIBRARIES"};
  }
  piece->resize(std::min(kFilePieceBytes, *whole - std::min(from, *whole)));
  size_t read = 0;
  while (read < piece->size()) {
    ssize_t got =
        pread(opened, piece->data() + read, piece->size() - read, static_cast<off_t>(from + read));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    read += static_cast<size_t>(got);
  }
  close(opened);
  piece->resize(read);
  return {};
}

}  // namespace farcall::server
