// SPDX-License-Identifier: Apache-2.0
#include "client-shim/core/transport_wish.h"

#include <gtest/gtest.h>

namespace farcall::client {
namespace {

TEST(TransportWishTest, NamesAreThoseOfTheSetting) {
  EXPECT_EQ(ParseTransport("auto"), TransportWish::kAuto);
  EXPECT_EQ(ParseTransport("tcp"), TransportWish::kTcp);
  EXPECT_EQ(ParseTransport("tls"), TransportWish::kTls);
  EXPECT_EQ(ParseTransport("shm"), TransportWish::kShm);
  EXPECT_EQ(ParseTransport("ucx"), TransportWish::kUcx);
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

TEST(TransportWishTest, UcxIsUsedOnlyWhereSomebodyAsksForIt) {
  EXPECT_TRUE(WantsUcx("ucx://h:1", TransportWish::kUnset));
  EXPECT_TRUE(WantsUcx("ucx://h:1", TransportWish::kAuto));
  EXPECT_TRUE(WantsUcx("tcp://h:1", TransportWish::kUcx));
  EXPECT_TRUE(WantsUcx("tls://h:1", TransportWish::kUcx));
  for (TransportWish wish : {TransportWish::kUnset, TransportWish::kAuto, TransportWish::kTcp}) {
    EXPECT_FALSE(WantsUcx("tcp://h:1", wish));
  }
  EXPECT_FALSE(WantsUcx("shm:///s", TransportWish::kUcx));
  EXPECT_FALSE(WantsSharedMemory("ucx://h:1", TransportWish::kAuto));
  EXPECT_FALSE(WantsSharedMemory("tcp://h:1", TransportWish::kUcx));
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
  EXPECT_TRUE(CheckTransport("tls://h:1", TransportWish::kUcx).ok());
  EXPECT_EQ(CheckTransport("shm:///s", TransportWish::kUcx).code(), Code::kInvalid);
  EXPECT_EQ(CheckTransport("ucx://h:1", TransportWish::kTcp).code(), Code::kInvalid);
}

}  // namespace
}  // namespace farcall::client
