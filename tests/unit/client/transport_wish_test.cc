// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/settings/transport_wish.h"

#include <gtest/gtest.h>

#include "proto/handshake/fabric_transport.h"

namespace farcall::client {
namespace {

TEST(TransportWishTest, NamesAreThoseOfTheSetting) {
  EXPECT_EQ(ParseTransport("auto"), TransportWish::kAuto);
  EXPECT_EQ(ParseTransport("tcp"), TransportWish::kTcp);
  EXPECT_EQ(ParseTransport("tls"), TransportWish::kTls);
  EXPECT_EQ(ParseTransport("shm"), TransportWish::kShm);
  EXPECT_EQ(ParseTransport("ucx"), TransportWish::kUcx);
  EXPECT_EQ(ParseTransport("verbs"), TransportWish::kVerbs);
  EXPECT_FALSE(ParseTransport("")) << "nothing is wished by an empty name";
  EXPECT_FALSE(ParseTransport("pigeon"));
}

TEST(TransportWishTest, OnlyTcpMayBecomeSharedMemory) {
  for (TransportWish wish : {TransportWish::kUnset, TransportWish::kAuto, TransportWish::kShm}) {
    EXPECT_TRUE(WantsSharedMemory("tcp://127.0.0.1:7717", wish));
    EXPECT_FALSE(WantsSharedMemory("tls://127.0.0.1:7717", wish));
    EXPECT_FALSE(WantsSharedMemory("shm:///run/farcall.sock", wish));
  }
  EXPECT_FALSE(WantsSharedMemory("tcp://127.0.0.1:7717", TransportWish::kTcp));
}

TEST(TransportWishTest, AFabricIsUsedOnlyWhereSomebodyAsksForIt) {
  const struct {
    TransportKind kind;
    TransportWish wish;
  } fabrics[] = {{kUcxTransport, TransportWish::kUcx}, {kVerbsTransport, TransportWish::kVerbs}};
  for (const auto& [kind, wish] : fabrics) {
    const std::string url = std::string(FabricName(kind)) + "://h:1";
    EXPECT_EQ(WantedFabric(url, TransportWish::kUnset), kind);
    EXPECT_EQ(WantedFabric(url, TransportWish::kAuto), kind);
    EXPECT_EQ(WantedFabric("tcp://h:1", wish), kind);
    EXPECT_EQ(WantedFabric("tls://h:1", wish), kind);
    EXPECT_FALSE(IsFabric(WantedFabric("shm:///s", wish)));
    EXPECT_FALSE(WantsSharedMemory(url, TransportWish::kAuto));
    EXPECT_FALSE(WantsSharedMemory("tcp://h:1", wish));
    EXPECT_TRUE(CheckTransport("tls://h:1", wish).ok());
    EXPECT_EQ(CheckTransport("shm:///s", wish).code(), Code::kInvalid);
    EXPECT_EQ(CheckTransport(url, TransportWish::kTcp).code(), Code::kInvalid);
  }
  for (TransportWish wish : {TransportWish::kUnset, TransportWish::kAuto, TransportWish::kTcp})
    EXPECT_FALSE(IsFabric(WantedFabric("tcp://h:1", wish)));
}

// Else a server anywhere could have its clients open any UNIX socket of their own machines.
TEST(TransportWishTest, AServerOfAnotherHostNamesNoSocketHereUnasked) {
  EXPECT_FALSE(MayOpenSocketOf(TransportWish::kUnset, false));
  EXPECT_TRUE(MayOpenSocketOf(TransportWish::kUnset, true));
  EXPECT_TRUE(MayOpenSocketOf(TransportWish::kAuto, false));
  EXPECT_TRUE(MayOpenSocketOf(TransportWish::kShm, false));
}

TEST(TransportWishTest, AWishThatTheEndpointCannotGiveIsSaid) {
  EXPECT_TRUE(CheckTransport("tcp://h:1", TransportWish::kUnset).ok());
  EXPECT_TRUE(CheckTransport("shm:///s", TransportWish::kAuto).ok());
  EXPECT_TRUE(CheckTransport("tcp://h:1", TransportWish::kShm).ok());
  EXPECT_TRUE(CheckTransport("pool://h:1", TransportWish::kTls).ok()) << "the pool says where";
  EXPECT_EQ(CheckTransport("tcp://h:1", TransportWish::kTls).code(), Code::kInvalid);
  EXPECT_EQ(CheckTransport("shm:///s", TransportWish::kTcp).code(), Code::kInvalid);
}

}  // namespace
}  // namespace farcall::client
