// SPDX-License-Identifier: Apache-2.0
// A PNG writer of one function: 8-bit RGB, stored (uncompressed) deflate blocks, no dependency.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace example {
namespace png_detail {

inline void AppendBigEndian(std::vector<uint8_t>& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<uint8_t>(value >> shift));
}

inline uint32_t Crc32(const uint8_t* data, size_t size) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

inline uint32_t Adler32(const std::vector<uint8_t>& data) {
  uint32_t a = 1, b = 0;
  for (uint8_t byte : data) {
    a = (a + byte) % 65521;
    b = (b + a) % 65521;
  }
  return (b << 16) | a;
}

// Wraps `raw` as a zlib stream of stored blocks, at most 65535 bytes each.
inline std::vector<uint8_t> ZlibStored(const std::vector<uint8_t>& raw) {
  std::vector<uint8_t> out = {0x78, 0x01};
  for (size_t at = 0; at < raw.size();) {
    const size_t size = std::min<size_t>(65535, raw.size() - at);
    const bool last = at + size == raw.size();
    const uint16_t length = static_cast<uint16_t>(size), complement = static_cast<uint16_t>(~size);
    out.push_back(last ? 1 : 0);
    for (uint16_t word : {length, complement}) {
      out.push_back(static_cast<uint8_t>(word & 0xFF));
      out.push_back(static_cast<uint8_t>(word >> 8));
    }
    out.insert(out.end(), raw.begin() + at, raw.begin() + at + size);
    at += size;
  }
  AppendBigEndian(out, Adler32(raw));
  return out;
}

inline void AppendChunk(std::vector<uint8_t>& out, const char* type,
                        const std::vector<uint8_t>& body) {
  AppendBigEndian(out, static_cast<uint32_t>(body.size()));
  const size_t start = out.size();
  out.insert(out.end(), type, type + 4);
  out.insert(out.end(), body.begin(), body.end());
  AppendBigEndian(out, Crc32(out.data() + start, out.size() - start));
}

}  // namespace png_detail

// Writes an image of `width` x `height` pixels, three bytes (red, green, blue) each, rows from the
// top. Returns false when the file cannot be written.
inline bool WritePng(const std::string& path, const std::vector<uint8_t>& rgb, int width,
                     int height) {
  std::vector<uint8_t> header, rows, file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  png_detail::AppendBigEndian(header, static_cast<uint32_t>(width));
  png_detail::AppendBigEndian(header, static_cast<uint32_t>(height));
  header.insert(header.end(), {8, 2, 0, 0, 0});  // 8 bits, RGB, deflate, no filter, no interlace
  for (int y = 0; y < height; ++y) {
    rows.push_back(0);  // filter "none" opens each row
    const auto row = rgb.begin() + static_cast<size_t>(y) * width * 3;
    rows.insert(rows.end(), row, row + static_cast<size_t>(width) * 3);
  }
  png_detail::AppendChunk(file, "IHDR", header);
  png_detail::AppendChunk(file, "IDAT", png_detail::ZlibStored(rows));
  png_detail::AppendChunk(file, "IEND", {});

  std::FILE* stream = std::fopen(path.c_str(), "wb");
  if (!stream) return false;
  const bool written = std::fwrite(file.data(), 1, file.size(), stream) == file.size();
  return (std::fclose(stream) == 0) && written;
}

}  // namespace example
