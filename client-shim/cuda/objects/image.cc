// SPDX-License-Identifier: Apache-2.0
#include "client-shim/cuda/objects/image.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "client-shim/core/session/calls.h"
#include "client-shim/core/session/error_map.h"
#include "cuda-abi/image.h"
#include "proto/cuda/image_units.h"

namespace farcall::client {

namespace {

// What each session's server holds for this tenant.
struct Sent {
  std::mutex mutex;
  std::map<const Session*, std::set<uint64_t>> prefixes;
};
Sent* g_sent = new Sent;

uint64_t Prefix(const Hash256& hash) {
  uint64_t prefix;
  std::memcpy(&prefix, hash.data(), sizeof(prefix));
  return prefix;
}

std::set<uint64_t>& PrefixesLocked(const Session* session) {
  const auto [at, is_new] = g_sent->prefixes.try_emplace(session);
  const std::vector<uint64_t>& known = session->welcome().known_images;
  if (is_new) at->second = {known.begin(), known.end()};
  return at->second;
}

template <typename T>
void Put(std::vector<std::byte>* out, size_t at, T value) {
  std::memcpy(out->data() + at, &value, sizeof(value));
}

// A container that holds one entry. Its header stays as it is: NVIDIA's driver follows offsets of
// it, such as that of the options for ptxas, without asking whether they are 0.
std::vector<std::byte> WrapEntry(const cuda_abi::ImageEntry& entry) {
  constexpr size_t kContainerHeader = 16;
  std::vector<std::byte> out(kContainerHeader + entry.whole.size());
  Put<uint32_t>(&out, 0, 0xBA55ED50);
  Put<uint16_t>(&out, 4, 1);
  Put<uint16_t>(&out, 6, kContainerHeader);
  Put<uint64_t>(&out, 8, entry.whole.size());
  std::memcpy(out.data() + kContainerHeader, entry.whole.data(), entry.whole.size());
  return out;
}

std::string Holdings(const std::vector<cuda_abi::ImageEntry>& entries) {
  std::string text;
  for (const cuda_abi::ImageEntry& entry : entries) {
    if (entry.kind == cuda_abi::EntryKind::kOther) continue;
    text += text.empty() ? "" : ", ";
    text +=
        (entry.kind == cuda_abi::EntryKind::kPtx ? "PTX for compute_" : "machine code for sm_") +
        std::to_string(entry.arch);
  }
  return text.empty() ? "nothing" : text;
}

// The first of `views` holds what was linked; the others, if any, are a wrapper's units, each with
// PTX of its own: what machine code they have stands in the first as well.
bool Choose(std::span<const cuda_abi::ImageView> views, const ImageTarget& target,
            std::vector<std::byte>* out, CUresult* status, std::string* error) {
  *status = CUDA_ERROR_INVALID_IMAGE;
  *error = "neither fatbin, ELF, PTX nor Tile IR";
  std::string held;
  std::vector<std::vector<std::byte>> units;
  for (const cuda_abi::ImageView& view : views) {
    if (view.form == cuda_abi::ImageForm::kTileIr &&
        (view.bytes.empty() || target.taste != cuda_abi::CodeTaste::kMachineCodeFirst)) {
      *error = view.bytes.empty() ? "CUDA Tile IR without an end"
                                  : "CUDA Tile IR, which this device does not execute";
      return false;
    }
    if (view.form == cuda_abi::ImageForm::kElf || view.form == cuda_abi::ImageForm::kPtx ||
        view.form == cuda_abi::ImageForm::kTileIr) {
      auto bytes = std::as_bytes(view.bytes);
      out->assign(bytes.begin(), bytes.end());
      return true;
    }
    if (view.form != cuda_abi::ImageForm::kContainer) continue;
    std::vector<cuda_abi::ImageEntry> entries;
    if (!cuda_abi::ParseContainer(view.bytes, &entries, error)) continue;
    const bool is_unit = &view != &views.front();
    const cuda_abi::ImageEntry* entry = cuda_abi::ChooseEntry(
        entries, target.cc, is_unit ? cuda_abi::CodeTaste::kPtxOnly : target.taste);
    if (entry != nullptr) {
      units.push_back(WrapEntry(*entry));
      if (!is_unit || !target.links_units) break;
      continue;
    }
    held += (held.empty() ? "" : ", ") + Holdings(entries);
    *status = CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  if (!units.empty()) {
    *out = units.size() == 1 ? std::move(units.front()) : JoinImageUnits(units);
    return true;
  }
  if (!held.empty()) {
    *error = "the image holds " + held + "; the device is of compute capability " +
             std::to_string(target.cc / 10) + "." + std::to_string(target.cc % 10) +
             (target.taste == cuda_abi::CodeTaste::kPtxOnly ? " and takes PTX only" : "");
  }
  return false;
}

}  // namespace

Image::Image(std::vector<std::byte> bytes) : size_(bytes.size()), data_(std::move(bytes)) {
  hash_ = Sha256(data_);
}

std::shared_ptr<Image> Image::FromPointer(const void* image, const ImageTarget& target,
                                          CUresult* status, std::string* error) {
  std::vector<cuda_abi::ImageView> views;
  cuda_abi::Bytes magic(static_cast<const uint8_t*>(image), 4);
  if (cuda_abi::ClassifyImage(magic) == cuda_abi::ImageForm::kWrapper)
    views = cuda_abi::ViewTrustedWrapper(image);
  else
    views.push_back(cuda_abi::ViewTrustedImage(image));
  std::vector<std::byte> bytes;
  if (!Choose(views, target, &bytes, status, error)) return nullptr;
  *status = CUDA_SUCCESS;
  return std::shared_ptr<Image>(new Image(std::move(bytes)));
}

std::shared_ptr<Image> Image::FromBytes(std::vector<std::byte> file, const ImageTarget& target,
                                        CUresult* status, std::string* error) {
  cuda_abi::Bytes bytes(reinterpret_cast<const uint8_t*>(file.data()), file.size());
  cuda_abi::ImageView view = cuda_abi::ViewImage(bytes, error);
  std::vector<std::byte> chosen;
  if (!Choose({&view, 1}, target, &chosen, status, error)) return nullptr;
  *status = CUDA_SUCCESS;
  return std::shared_ptr<Image>(new Image(std::move(chosen)));
}

std::shared_ptr<Image> Image::Whole(std::vector<std::byte> bytes) {
  return std::shared_ptr<Image>(new Image(std::move(bytes)));
}

CUresult Image::Offer() {
  Session* session = CurrentSession();
  if (session == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  std::lock_guard lock(g_sent->mutex);
  std::set<uint64_t>& prefixes = PrefixesLocked(session);
  if (prefixes.contains(Prefix(hash_))) return CUDA_SUCCESS;
  bool fits = size_ <= kMaxInlineBytes;
  uint64_t transfer = 0;
  if (!fits) {
    transfer = session->transfers().NewId();
    Status opened = session->link().OpenLanes();
    if (!opened.ok()) return MapSessionError(opened.code());
    // Used whole, by one record: a large one cannot wait for room for all of it.
    uint64_t awaited = std::min<uint64_t>(data_.size(), kMaxUnusedUploadBytes / 2);
    session->transfers().AwaitRoom(awaited);
    session->transfers().CountSent(data_.size() - awaited);
    Status sent = session->link().SendTransfer(transfer, 0, data_, Link::Retain::kCopied);
    if (!sent.ok()) return MapSessionError(sent.code());
  }
  Builder body;
  body.PutBytes(hash_.data(), hash_.size());
  body.Put<uint64_t>(size_);
  body.Put<uint64_t>(transfer);
  body.PutBytes(data_.data(), fits ? size_ : 0);
  CUresult posted = TellSession(SessionCall::kNamedImage, 0, body.bytes());
  if (posted == CUDA_SUCCESS) prefixes.insert(Prefix(hash_));
  return posted;
}

bool Image::IsHere() const {
  const Session* session = CurrentSession();
  if (session == nullptr) return false;
  std::lock_guard lock(g_sent->mutex);
  return PrefixesLocked(session).contains(Prefix(hash_));
}

void Image::Unsend() {
  const Session* session = CurrentSession();
  if (session == nullptr) return;
  std::lock_guard lock(g_sent->mutex);
  PrefixesLocked(session).erase(Prefix(hash_));
}

}  // namespace farcall::client
