// SPDX-License-Identifier: Apache-2.0
// Parses every PTX image found in the files named: PTX text, or any binary that holds fatbin
// containers. Prints one line of counts per file, and each failure with its reason; exit status 1
// if there was one.
//   ptx_scan [--list-mnemonics] [--max-failures N] file...
#include <lz4.h>
#include <zstd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cpu-device/ptx/module.h"

namespace {

namespace ptx = farcall::cpu_device::ptx;

struct Counts {
  uint64_t images = 0, bad_images = 0, entries = 0, functions = 0, bad_functions = 0;
  uint64_t instructions = 0;
};

struct Options {
  bool list_mnemonics = false;
  unsigned max_failures = 20;
};

std::map<std::string, uint64_t, std::less<>> g_mnemonics;
unsigned g_failures = 0;

void Report(const Options& options, const char* file, uint64_t offset, const std::string& message) {
  if (g_failures++ < options.max_failures)
    std::printf("  %s+0x%lx: %s\n", file, static_cast<unsigned long>(offset), message.c_str());
}

void ScanPtx(const Options& options, const char* file, uint64_t offset, std::string_view text,
             Counts* counts) {
  ++counts->images;
  ptx::Module module;
  ptx::ParseResult result = ptx::Parse(text, &module);
  if (!result.ok()) {
    ++counts->bad_images;
    Report(options, file, offset, result.message);
    return;
  }
  for (auto& function : module.functions) {
    if (!function->has_body) continue;
    ++counts->functions;
    counts->entries += function->is_entry;
    result = module.EnsureBody(*function);
    if (!result.ok()) {
      ++counts->bad_functions;
      Report(options, file, offset, result.message);
      continue;
    }
    counts->instructions += function->body.size();
    if (options.list_mnemonics) {
      for (const ptx::Instruction& instruction : function->body) {
        auto it = g_mnemonics.find(instruction.mnemonic);
        if (it == g_mnemonics.end()) it = g_mnemonics.emplace(instruction.mnemonic, 0).first;
        ++it->second;
      }
    }
    module.DropBody(*function);
  }
}

template <typename T>
T Load(const char* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// The PTX of one entry; empty if it cannot be unpacked.
std::string Unpack(std::string_view payload, uint64_t flags, uint32_t packed_bytes,
                   uint64_t unpacked_bytes) {
  constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000, kLimit = 1ull << 31;
  if (!(flags & (kLz4 | kZstd))) return std::string(payload);
  if (packed_bytes > payload.size() || unpacked_bytes > kLimit) return {};
  std::string out(unpacked_bytes, '\0');
  size_t got = 0;
  if (flags & kZstd) {
    got = ZSTD_decompress(out.data(), out.size(), payload.data(), packed_bytes);
    if (ZSTD_isError(got)) return {};
  } else {
    int n = LZ4_decompress_safe(payload.data(), out.data(), static_cast<int>(packed_bytes),
                                static_cast<int>(out.size()));
    if (n < 0) return {};
    got = static_cast<size_t>(n);
  }
  out.resize(got);
  return out;
}

// Entries of the container at `at`; false if it is none.
bool ScanContainer(const Options& options, const char* file, std::string_view data, uint64_t at,
                   Counts* counts) {
  constexpr uint64_t kHeader = 16, kEntryHeader = 64;
  if (data.size() - at < kHeader || Load<uint16_t>(&data[at + 6]) != kHeader) return false;
  uint64_t bytes = Load<uint64_t>(&data[at + 8]);
  if (bytes > data.size() - at - kHeader) return false;
  uint64_t position = at + kHeader, end = position + bytes;
  while (end - position >= kEntryHeader) {
    const char* entry = &data[position];
    uint16_t kind = Load<uint16_t>(entry);
    uint64_t header = Load<uint32_t>(entry + 4), payload = Load<uint64_t>(entry + 8);
    if (header < kEntryHeader || header > end - position || payload > end - position - header)
      break;
    if (kind == 1) {
      std::string text =
          Unpack(data.substr(position + header, payload), Load<uint64_t>(entry + 0x28),
                 Load<uint32_t>(entry + 0x10), Load<uint64_t>(entry + 0x38));
      if (text.empty()) {
        Report(options, file, position, "cannot unpack");
        ++counts->bad_images;
      } else {
        ScanPtx(options, file, position, text, counts);
      }
    }
    position += header + payload;
  }
  return true;
}

void ScanBinary(const Options& options, const char* file, std::string_view data, Counts* counts) {
  const std::string_view magic("\x50\xed\x55\xba", 4);
  for (size_t at = data.find(magic); at != std::string_view::npos; at = data.find(magic, at + 4))
    ScanContainer(options, file, data, at, counts);
}

bool ScanFile(const Options& options, const char* file) {
  std::ifstream in(file, std::ios::binary);
  std::string data((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (!in && data.empty()) {
    std::fprintf(stderr, "%s: cannot read\n", file);
    return false;
  }
  Counts counts;
  std::string_view name(file);
  if (name.ends_with(".ptx"))
    ScanPtx(options, file, 0, data, &counts);
  else
    ScanBinary(options, file, data, &counts);
  std::printf("%s: %lu images (%lu bad), %lu functions (%lu bad), %lu entries, %lu instructions\n",
              file, counts.images, counts.bad_images, counts.functions, counts.bad_functions,
              counts.entries, counts.instructions);
  std::fflush(stdout);
  return counts.bad_images == 0 && counts.bad_functions == 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  bool good = true;
  for (int i = 1; i < argc; ++i) {
    std::string_view word(argv[i]);
    if (word == "--list-mnemonics")
      options.list_mnemonics = true;
    else if (word == "--max-failures" && i + 1 < argc)
      options.max_failures = static_cast<unsigned>(std::atoi(argv[++i]));
    else
      good = ScanFile(options, argv[i]) && good;
  }
  for (auto& [mnemonic, count] : g_mnemonics) std::printf("%lu %s\n", count, mnemonic.c_str());
  return good ? 0 : 1;
}
