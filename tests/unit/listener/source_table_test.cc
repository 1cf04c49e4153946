// SPDX-License-Identifier: Apache-2.0
#include "listener/source_table.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <map>
#include <set>

#include "listener/source.h"

namespace farcall {
namespace {

constexpr uint64_t kFlooder = 7, kHonest = 9;

sockaddr_storage AddressOf(int family, const char* text) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  void* at = family == AF_INET
                 ? static_cast<void*>(&reinterpret_cast<sockaddr_in&>(address).sin_addr)
                 : static_cast<void*>(&reinterpret_cast<sockaddr_in6&>(address).sin6_addr);
  EXPECT_EQ(inet_pton(family, text, at), 1);
  return address;
}

uint64_t SourceOfText(int family, const char* text) {
  return SourceOf(AddressOf(family, text));
}

TEST(SourceTest, AnIpv6HostIsOneSourceWhateverOfItsAddressesItUses) {
  EXPECT_EQ(SourceOfText(AF_INET6, "2001:db8:1:2::1"), SourceOfText(AF_INET6, "2001:db8:1:2:f::9"));
  EXPECT_NE(SourceOfText(AF_INET6, "2001:db8:1:2::1"), SourceOfText(AF_INET6, "2001:db8:1:3::1"));
  EXPECT_NE(SourceOfText(AF_INET, "127.0.0.1"), SourceOfText(AF_INET, "127.0.0.2"));
  EXPECT_EQ(SourceOfText(AF_INET6, "::ffff:10.0.0.1"), SourceOfText(AF_INET, "10.0.0.1"));
}

TEST(SourceTest, TheLoopbackIsWhatDoesNotLeaveTheHost) {
  for (const char* text : {"127.0.0.1", "127.255.0.9"})
    EXPECT_TRUE(IsLoopback(AddressOf(AF_INET, text))) << text;
  for (const char* text : {"10.0.0.1", "128.0.0.1", "0.0.0.0", "126.255.255.255"})
    EXPECT_FALSE(IsLoopback(AddressOf(AF_INET, text))) << text;
  for (const char* text : {"::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(IsLoopback(AddressOf(AF_INET6, text))) << text;
  for (const char* text : {"::", "::127.0.0.1", "fe80::1", "::ffff:10.0.0.1", "7f00::1"})
    EXPECT_FALSE(IsLoopback(AddressOf(AF_INET6, text))) << text;
  EXPECT_TRUE(IsLoopbackPeer(-1));  // within the process
}

TEST(SourceTableTest, TheSourceThatHoldsTheMostGivesWay) {
  SourceTable table(1);
  for (uint64_t id = 0; id < 100; ++id) table.Add(id, kFlooder, 1);
  table.Add(100, kHonest, 1);
  for (int i = 0; i < 99; ++i) {
    const uint64_t id = table.PickOfFullest();
    ASSERT_LT(id, 100u);
    table.Remove(id);
  }
  EXPECT_EQ(table.weight(), 2u);
}

TEST(SourceTableTest, AFewThatHoldMuchWeighMoreThanManyThatHoldLittle) {
  SourceTable table(1);
  for (uint64_t id = 0; id < 10; ++id) table.Add(id, kHonest, 1);
  table.Add(10, kFlooder, 1);
  table.SetWeight(10, 16);
  EXPECT_EQ(table.weight(), 26u);
  EXPECT_EQ(table.PickOfFullest(), 10u);
  table.Remove(10);
  EXPECT_EQ(table.weight(), 10u);
  EXPECT_LT(table.PickOfFullest(), 10u);
}

TEST(SourceTableTest, ThoseWhoHaveJustComeHardlyEverGiveWay) {
  SourceTable table(1);
  for (uint64_t id = 0; id < 100; ++id) table.Add(id, kFlooder, 1);
  int newcomers = 0;
  for (int i = 0; i < 1000; ++i) newcomers += table.PickOfFullest() >= 90 ? 1 : 0;
  EXPECT_LT(newcomers, 10);  // where it would be 100 of as many
}

TEST(SourceTableTest, NoSourceOfManyIsAlwaysTheOneToGiveWay) {
  SourceTable table(1);
  for (uint64_t id = 0; id < 8; ++id) table.Add(id, id, 1);
  std::set<uint64_t> picked;
  for (int i = 0; i < 500; ++i) picked.insert(table.PickOfFullest());
  EXPECT_EQ(picked.size(), 8u);
}

TEST(SourceTableTest, SourcesAreServedInTurnAndTheirMembersAtRandom) {
  SourceTable table(1);
  for (uint64_t id = 0; id < 50; ++id) table.Add(id, kFlooder, 1);
  table.Add(50, kHonest, 1);
  std::map<bool, int> served;
  std::set<uint64_t> members;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t id = table.PickNext();
    ++served[id == 50];
    members.insert(id);
  }
  EXPECT_EQ(served[true], 500);
  EXPECT_EQ(members.size(), 51u);
}

TEST(SourceTableTest, ItStaysRightUnderAnyOrderOfChanges) {
  SourceTable table(1);
  std::mt19937_64 random(2);
  std::map<uint64_t, std::pair<uint64_t, size_t>> model;
  for (uint64_t step = 0; step < 20'000; ++step) {
    if (model.empty() || random() % 2 == 0) {
      model[step] = {random() % 20, 1 + random() % 3};
      table.Add(step, model[step].first, model[step].second);
    } else {
      auto at = std::next(model.begin(), static_cast<long>(random() % model.size()));
      if (random() % 3 == 0) {
        at->second.second = 1 + random() % 5;
        table.SetWeight(at->first, at->second.second);
      } else {
        table.Remove(at->first);
        model.erase(at);
      }
    }
    std::map<uint64_t, size_t> sources;
    size_t all = 0, most = 0;
    for (const auto& [id, held] : model) {
      most = std::max(most, sources[held.first] += held.second);
      all += held.second;
    }
    ASSERT_EQ(table.weight(), all);
    ASSERT_EQ(table.empty(), model.empty());
    if (!model.empty()) {
      ASSERT_EQ(sources[model.at(table.PickOfFullest()).first], most);
      ASSERT_EQ(model.count(table.PickNext()), 1u);
    }
    while (model.size() > 60) {
      table.Remove(model.begin()->first);
      model.erase(model.begin());
    }
  }
}

}  // namespace
}  // namespace farcall
