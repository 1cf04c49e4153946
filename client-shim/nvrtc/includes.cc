// SPDX-License-Identifier: Apache-2.0
#include "client-shim/nvrtc/includes.h"

#include <sys/stat.h>

#include <cstdio>
#include <mutex>
#include <unordered_map>

namespace farcall::nvrtc_client {

namespace {

constexpr uint64_t kMaxBytes = 64u << 20;
constexpr size_t kMaxFiles = 8192;
constexpr int kMaxDepth = 200;  // as NVRTC's own limit

struct File {
  uint64_t device = 0, inode = 0, bytes = 0;
  int64_t seconds = 0, nanoseconds = 0;
  std::shared_ptr<const std::string> text;
  std::shared_ptr<const std::vector<NamedFile>> names;
};

// Read and scanned once, as long as they stay as they are.
struct Files {
  std::mutex mutex;
  std::unordered_map<std::string, File> by_path;
  uint64_t bytes = 0;
};
Files& TheFiles() {
  static auto* files = new Files;
  return *files;
}

bool Describe(const std::string& path, File* file) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
  file->device = found.st_dev;
  file->inode = found.st_ino;
  file->bytes = static_cast<uint64_t>(found.st_size);
  file->seconds = found.st_mtim.tv_sec;
  file->nanoseconds = found.st_mtim.tv_nsec;
  return true;
}

bool Read(const std::string& path, uint64_t bytes, std::string* text) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return false;
  text->resize(bytes);
  const size_t read = std::fread(text->data(), 1, bytes, file);
  std::fclose(file);
  text->resize(read);
  return true;
}

bool Load(const std::string& path, File* file) {
  if (!Describe(path, file) || file->bytes > kMaxBytes) return false;
  Files& files = TheFiles();
  std::lock_guard lock(files.mutex);
  File& known = files.by_path[path];
  if (known.text == nullptr || known.device != file->device || known.inode != file->inode ||
      known.bytes != file->bytes || known.seconds != file->seconds ||
      known.nanoseconds != file->nanoseconds) {
    std::string text;
    if (!Read(path, file->bytes, &text)) {
      files.by_path.erase(path);
      return false;
    }
    file->names = std::make_shared<const std::vector<NamedFile>>(ScanIncludes(text));
    file->text = std::make_shared<const std::string>(std::move(text));
    known = *file;
    files.bytes += file->bytes;
  }
  *file = known;
  if (files.bytes > 2 * kMaxBytes) {
    files.by_path.clear();
    files.bytes = 0;
  }
  return true;
}

std::string Join(const std::string& folder, const std::string& name) {
  return folder.empty() || folder.back() == '/' ? folder + name : folder + "/" + name;
}

}  // namespace

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::string Includes::Resolve(const std::string& spelled, const std::string& folder,
                              bool folder_first) {
  File file;
  if (spelled.empty()) return "";
  if (spelled[0] == '/') return Describe(spelled, &file) ? spelled : "";
  if (folder_first && Describe(Join(folder, spelled), &file)) return Join(folder, spelled);
  for (const std::string& in : folders_)
    if (Describe(Join(in, spelled), &file)) return Join(in, spelled);
  return "";
}

std::string Includes::AddFile(const std::string& path) {
  File file;
  if (!Load(path, &file)) return "";
  auto [named, is_new] = names_.try_emplace({file.device, file.inode}, path);
  if (!is_new) return named->second;
  bytes_ += file.text->size();
  if (headers_.size() >= kMaxFiles || bytes_ > kMaxBytes || depth_ >= kMaxDepth) {
    too_many_ = true;
    return path;
  }
  const size_t slot = headers_.size();
  headers_.push_back({path, nullptr});
  ++depth_;
  std::shared_ptr<const std::string> text = file.text;
  if (!file.names->empty())
    text = std::make_shared<const std::string>(Replace(*file.text, *file.names, FolderOf(path)));
  --depth_;
  headers_[slot].text = std::move(text);
  return path;
}

std::string Includes::Add(const std::string& spelled, const std::string& folder,
                          bool folder_first) {
  if (given_.count(spelled) != 0) return spelled;
  const std::string path = Resolve(spelled, folder, folder_first);
  return path.empty() ? "" : AddFile(path);
}

bool Includes::AddSpelled(const std::string& spelled, const std::string& folder) {
  std::string path = Resolve(spelled, "", false);
  if (path.empty()) path = Resolve(spelled, folder, true);
  if (path.empty() || !spelled_.insert(spelled).second) return false;
  const std::string name = AddFile(path);
  if (name.empty() || name == spelled) return !name.empty();
  headers_.push_back({spelled, std::make_shared<const std::string>("#include \"" + name + "\"\n")});
  return true;
}

std::string Includes::Rewrite(const std::string& text, const std::string& folder) {
  return Replace(text, ScanIncludes(text), folder);
}

std::string Includes::Replace(const std::string& text, const std::vector<NamedFile>& names,
                              const std::string& folder) {
  std::string out;
  size_t copied = 0;
  for (const NamedFile& named : names) {
    const std::string spelled = text.substr(named.at + 1, named.length);
    const std::string name = Add(spelled, folder, named.quoted);
    if (name.empty() || name == spelled || name.find_first_of("\"\n") != std::string::npos)
      continue;
    out.append(text, copied, named.at - copied);
    out += '"' + name + '"';
    copied = named.at + named.length + 2;
  }
  out.append(text, copied);
  return out;
}

}  // namespace farcall::nvrtc_client
