// SPDX-License-Identifier: Apache-2.0
#include "cuda-abi/export_tables.h"

#include <gtest/gtest.h>

#include "cuda-abi/context_storage.h"
#include "cuda-abi/log.h"

namespace farcall::cuda_abi {
namespace {

constexpr uint8_t kCudart[16] = {0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
                                 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9};
constexpr uint8_t kStorage[16] = {0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11,
                                  0xa8, 0xc3, 0x68, 0xf3, 0x55, 0xd8, 0x95, 0x93};
constexpr uint8_t kModules[16] = {0x6e, 0x16, 0x3f, 0xbe, 0xb9, 0x58, 0x44, 0x4d,
                                  0x83, 0x5c, 0xe1, 0x82, 0xaf, 0xf1, 0x99, 0x1e};

int g_context;
int g_functions[2];

class FakeOwner final : public ExportTableOwner {
 public:
  int DriverVersion() override { return 13000; }
  std::vector<DeviceIdentity> Devices() override { return std::vector<DeviceIdentity>(1); }
  int PrimaryContext(int device, ContextHandle* context) override {
    if (device != 0) return 101;
    *context = &g_context;
    return 0;
  }
  ContextHandle CurrentContext() override { return nullptr; }
  int ModuleFunctions(ModuleHandle, std::vector<FunctionHandle>* functions) override {
    *functions = {&g_functions[0], &g_functions[1]};
    return 0;
  }
  int LoadModule(const void*, ModuleHandle*) override { return 801; }
};

const void* const* Table(const uint8_t (&uuid)[16]) {
  static FakeOwner* owner = [] {
    auto* made = new FakeOwner;
    SetExportTableOwner(made);
    return made;
  }();
  (void)owner;
  return static_cast<const void* const*>(FindExportTable(uuid));
}

TEST(ExportTables, PrimaryContextComesFromTheOwner) {
  const auto* table = Table(kCudart);
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(reinterpret_cast<size_t>(table[0]), 13 * sizeof(void*));
  const auto primary = reinterpret_cast<int (*)(void**, int)>(const_cast<void*>(table[2]));
  void* context = nullptr;
  EXPECT_EQ(primary(&context, 0), 0);
  EXPECT_EQ(context, &g_context);
  EXPECT_EQ(primary(&context, 5), 101);
  for (int slot = 1; slot < 13; ++slot) EXPECT_NE(table[slot], nullptr) << slot;
}

TEST(ExportTables, GemmsTableRefusesWhatItIsAsked) {
  const auto* table = Table({0x17, 0x34, 0xdc, 0x26, 0x80, 0x0d, 0x47, 0x45, 0x87, 0x26, 0xc0, 0xf1,
                             0xe7, 0xdd, 0x8b, 0xca});
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(reinterpret_cast<int (*)()>(const_cast<void*>(table[4]))(), 801);
}

TEST(ExportTables, TheProfilersTableOffersNoSlot) {
  const auto* table = Table({0x7c, 0xb6, 0x3f, 0x9b, 0x9c, 0xa4, 0x8e, 0x42, 0xa4, 0x84, 0xbe, 0xb6,
                             0x6e, 0x6a, 0xed, 0x7f});
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(reinterpret_cast<size_t>(table[0]), sizeof(void*));
}

int g_destroyed = 0;

TEST(ExportTables, StorageRunsDestructorsWithItsContext) {
  const auto* table = Table(kStorage);
  ASSERT_NE(table, nullptr);
  using Put = int (*)(void*, void*, void*, ContextStorageDestructor);
  using Get = int (*)(void**, void*, void*);
  const auto put = reinterpret_cast<Put>(const_cast<void*>(table[0]));
  const auto get = reinterpret_cast<Get>(const_cast<void*>(table[2]));
  int key = 0, value = 0;
  void* found = nullptr;
  EXPECT_EQ(get(&found, &g_context, &key), 400);
  EXPECT_EQ(
      put(&g_context, &key, &value, [](void*, void*, void* v) { g_destroyed += v != nullptr; }), 0);
  EXPECT_EQ(get(&found, &g_context, &key), 0);
  EXPECT_EQ(found, &value);
  EXPECT_EQ(get(&found, nullptr, &key), 201);  // the owner has no current context
  DestroyContextStorage(&g_context);
  EXPECT_EQ(g_destroyed, 1);
  EXPECT_EQ(get(&found, &g_context, &key), 400);
}

TEST(ExportTables, ModuleIteratorNamesEachFunction) {
  const auto* table = Table(kModules);
  ASSERT_NE(table, nullptr);
  using Callback = void (*)(void*, void*, void*);
  const auto iterate =
      reinterpret_cast<int (*)(void*, void*, Callback, void*)>(const_cast<void*>(table[7]));
  std::vector<void*> seen;
  const auto note = [](void* opaque, void* function, void*) {
    static_cast<std::vector<void*>*>(opaque)->push_back(function);
  };
  EXPECT_EQ(iterate(nullptr, nullptr, note, &seen), 2);
  EXPECT_EQ(seen, (std::vector<void*>{&g_functions[0], &g_functions[1]}));
}

TEST(ExportTables, AnUnknownTableIsNotThere) {
  constexpr uint8_t kNothing[16] = {1, 2, 3};
  EXPECT_EQ(Table(kNothing), nullptr);
}

LogLevel g_level;
int g_lines;

TEST(ExportTables, OnlyATableThatSomeoneMayMissIsAWarning) {
  SetLogSink([](LogLevel level, const char*) {
    g_level = level;
    ++g_lines;
  });
  constexpr uint8_t kMissed[16] = {4, 5, 6};
  constexpr uint8_t kOfNvrtc[16] = {0xda, 0x91, 0x51, 0xd3, 0x3a, 0xe6, 0xcc, 0x41,
                                    0xa5, 0xc0, 0x4f, 0x26, 0xd5, 0x33, 0xe3, 0x28};
  EXPECT_EQ(Table(kMissed), nullptr);
  EXPECT_EQ(g_level, LogLevel::kWarn);
  EXPECT_EQ(Table(kOfNvrtc), nullptr);
  EXPECT_EQ(g_level, LogLevel::kDebug);
  EXPECT_EQ(Table(kOfNvrtc), nullptr);
  EXPECT_EQ(g_lines, 2);  // each is said once
  SetLogSink(nullptr);
}

}  // namespace
}  // namespace farcall::cuda_abi
