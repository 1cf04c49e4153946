// SPDX-License-Identifier: Apache-2.0
// The core of a fake library: each exported name (arguments_test.py makes a stub of it) comes here
// with the registers and the stack it was called with, which are written down. Knows no prototype.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char* const farcall_fake_names[];

struct Frame {
  uint64_t integer[6];
  uint64_t vector[8];
};

// 1 if it can be read: the kernel says so without a fault.
static int Peek(uint64_t address, unsigned char* out, size_t bytes) {
  int ends[2];
  if (address < 4096 || pipe(ends) != 0) return 0;
  ssize_t wrote = write(ends[1], (const void*)(uintptr_t)address, bytes);
  int readable = wrote == (ssize_t)bytes && read(ends[0], out, bytes) == (ssize_t)bytes;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

int farcall_fake_record(uint64_t index, const struct Frame* frame, const uint64_t* stack) {
  const char* name = farcall_fake_names[index];
  char line[16384];
  int at = snprintf(line, sizeof(line), "%s", name);
  for (int i = 0; i < 6; ++i)
    at += snprintf(line + at, sizeof(line) - at, " i%llx", (unsigned long long)frame->integer[i]);
  for (int i = 0; i < 8; ++i)
    at += snprintf(line + at, sizeof(line) - at, " v%llx", (unsigned long long)frame->vector[i]);
  for (int i = 0; i < 40; ++i)
    at += snprintf(line + at, sizeof(line) - at, " s%llx", (unsigned long long)stack[i]);
  for (int i = 0; i < 46; ++i) {
    unsigned char bytes[16];
    uint64_t word = i < 6 ? frame->integer[i] : stack[i - 6];
    if (!Peek(word, bytes, sizeof(bytes))) continue;
    at += snprintf(line + at, sizeof(line) - at, " p%d:", i);
    for (int b = 0; b < 16; ++b) at += snprintf(line + at, sizeof(line) - at, "%02x", bytes[b]);
  }
  line[at++] = '\n';
  const char* path = getenv("FARCALL_FAKE_LOG");
  int file = path == NULL ? -1 : open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file >= 0) {
    ssize_t ignored = write(file, line, (size_t)at);
    (void)ignored;
    close(file);
  }
  // What makes an object makes a recognisable one. What is called with one first fills something
  // else (cusparseCreateIdentityPermutation), and an object is no address.
  int makes = strstr(name, "Create") != NULL || strstr(name, "create") != NULL;
  if (makes && frame->integer[0] >> 16 != 0x5eed)
    *(uint64_t*)(uintptr_t)frame->integer[0] = 0x5eed0000 + index;
  const char* fails = getenv("FARCALL_FAKE_FAILS");  // name=status
  const size_t length = strlen(name);
  const int is_it = fails != NULL && strncmp(fails, name, length) == 0 && fails[length] == '=';
  return is_it ? atoi(fails + length + 1) : 0;
}
