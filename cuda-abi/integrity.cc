// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/integrity.h"

#include <cstring>
#include <string>

namespace farcall::cuda_abi {
namespace {

constexpr size_t kBlock = 16;

// RFC 1319's substitution table, made of digits of pi.
constexpr uint8_t kPi[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,
    243, 192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212,
    224, 22,  103, 66,  111, 24,  138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160,
    251, 245, 142, 187, 47,  238, 122, 169, 104, 121, 145, 21,  178, 7,   63,  148, 194, 16,  137,
    11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,  53,  62,  204, 231, 191, 247, 151,
    3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,  170, 198, 79,  184,
    56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,  100,
    113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246,
    28,  70,  97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249,
    206, 186, 197, 234, 38,  44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129,
    77,  82,  106, 220, 55,  200, 108, 193, 171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120,
    136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254, 59,  0,   29,  57,  242, 239, 183, 14,
    102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,  49,  68,  80,  180, 143, 237, 31,
    26,  219, 153, 141, 51,  159, 17,  131, 20};

void Compress(uint8_t (&state)[kBlock], const uint8_t* block) {
  uint8_t x[3 * kBlock];
  for (size_t i = 0; i < kBlock; ++i) {
    x[i] = state[i];
    x[kBlock + i] = block[i];
    x[2 * kBlock + i] = state[i] ^ block[i];
  }
  uint8_t carry = 0;
  for (unsigned round = 0; round < 18; ++round) {
    for (uint8_t& byte : x) carry = byte ^= kPi[carry];
    carry = static_cast<uint8_t>(carry + round);
  }
  memcpy(state, x, kBlock);
}

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// HMAC (RFC 2104) over MD2, whose block is 16 bytes.
std::array<uint8_t, 16> HmacMd2(const std::array<uint8_t, 16>& key, const std::string& message) {
  std::string inner, outer;
  for (uint8_t byte : key) {
    inner.push_back(static_cast<char>(byte ^ 0x36));
    outer.push_back(static_cast<char>(byte ^ 0x5c));
  }
  Append(&outer, Md2(inner + message));
  return Md2(outer);
}

}  // namespace

std::array<uint8_t, 16> Md2(std::string_view message) {
  std::string padded(message);
  const size_t pad = kBlock - padded.size() % kBlock;
  padded.append(pad, static_cast<char>(pad));
  uint8_t checksum[kBlock] = {};
  uint8_t last = 0;
  uint8_t state[kBlock] = {};
  for (size_t at = 0; at < padded.size(); at += kBlock) {
    const auto* block = reinterpret_cast<const uint8_t*>(padded.data()) + at;
    for (size_t i = 0; i < kBlock; ++i) last = checksum[i] ^= kPi[block[i] ^ last];
    Compress(state, block);
  }
  Compress(state, checksum);
  std::array<uint8_t, 16> digest;
  memcpy(digest.data(), state, kBlock);
  return digest;
}

std::array<uint64_t, 2> IntegrityAnswer(const IntegrityInputs& inputs) {
  // Versions ending in 0 and 1 have one answer for every process.
  constexpr uint64_t kFixedHigh = 0x8ED383AA1F4CD1E8;
  if (inputs.version % 10 == 0) return {0x3341181C03CB675C, kFixedHigh};
  if (inputs.version % 10 == 1) return {0x1841181C03CB675C, kFixedHigh};
  constexpr std::array<uint8_t, 16> kKey = {0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52,
                                            0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F};
  std::string message;
  Append(&message, inputs.driver_version);
  Append(&message, inputs.version);
  Append(&message, inputs.process_id);
  Append(&message, inputs.thread_id);
  Append(&message, inputs.cudart_table);
  Append(&message, inputs.integrity_table);
  Append(&message, inputs.check_function);
  Append(&message, inputs.unix_seconds);
  for (const DeviceIdentity& device : inputs.devices) {
    Append(&message, device.uuid);
    Append(&message, device.pci_domain);
    Append(&message, device.pci_bus);
    Append(&message, device.pci_device);
  }
  const std::array<uint8_t, 16> digest = HmacMd2(kKey, message);
  std::array<uint64_t, 2> answer;
  memcpy(answer.data(), digest.data(), digest.size());
  return answer;
}

}  // namespace farcall::cuda_abi
