// SPDX-License-Identifier: Apache-2.0
// Control messages as bytes: each comes back as it was, and nothing but a whole message of the
// sender's is taken for one.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <vector>

#include "server/control/control_socket.h"
#include "server/control/messages.h"

namespace farcall::server::control {
namespace {

using Bytes = std::vector<std::byte>;

// ---- the table of all messages

template <typename... Variants>
struct Concat;
template <typename... Ms>
struct Concat<std::variant<Ms...>> {
  using type = std::tuple<Ms...>;
};
template <typename... As, typename... Bs, typename... Rest>
struct Concat<std::variant<As...>, std::variant<Bs...>, Rest...> {
  using type = typename Concat<std::variant<As..., Bs...>, Rest...>::type;
};
using AllMessages =
    Concat<ToWorker, FromWorker, FromProbe, ToProcessMemory, FromProcessMemory, ToControlPlane,
           FromControlPlane, ToPoolAgent, FromPoolAgent, FromTlsGateway>::type;

template <typename... Ms>
constexpr bool HasEachTypeOnce(const std::tuple<Ms...>*) {
  for (unsigned type = 1; type <= static_cast<unsigned>(kLastType); ++type)
    if ((0 + ... + (static_cast<unsigned>(Ms::kType) == type ? 1 : 0)) != 1) return false;
  return sizeof...(Ms) == static_cast<size_t>(kLastType);
}
static_assert(HasEachTypeOnce(static_cast<AllMessages*>(nullptr)), "a message has no direction");

template <typename... Ms>
constexpr bool AllFit(const std::tuple<Ms...>*) {
  return ((kMaxBytesOf<Ms> <= kMaxMessageBytes) && ...);
}
static_assert(AllFit(static_cast<AllMessages*>(nullptr)));

// The size of a struct of these members: as that of the message, unless Fields leaves one out.
template <typename... Fields>
constexpr size_t SizeOf(const std::tuple<Fields...>*) {
  size_t at = 0, most = 1;
  [[maybe_unused]] auto add = [&](size_t bytes, size_t align) {
    at = AlignUp(at, align) + bytes;
    most = std::max(most, align);
  };
  (add(sizeof(std::remove_cvref_t<Fields>), alignof(std::remove_cvref_t<Fields>)), ...);
  return std::max<size_t>(AlignUp(at, most), 1);
}

// ---- one of each, no field of which is as it is by itself

class Filler {
 public:
  void operator()(bool* field) { *field = true; }
  void operator()(int32_t* field) { *field = static_cast<int32_t>(++count_); }
  void operator()(uint32_t* field) { *field = 0x01020304u * ++count_; }
  void operator()(uint64_t* field) { *field = 0x0102030405060708ull * ++count_; }
  template <typename E>
  requires std::is_enum_v<E>
  void operator()(E* field) { *field = EnumRange<E>::kLast; }
  template <size_t kBound>
  void operator()(Text<kBound>* field) {
    *field = "text " + std::to_string(++count_);
  }
  template <typename T>
  void operator()(std::optional<T>* field) {
    (*this)(&field->emplace());
  }
  void operator()(SecretKey* key) {
    for (uint8_t& byte : key->bytes()) byte = static_cast<uint8_t>(++count_);
  }
  template <size_t kBytes>
  void operator()(std::array<uint8_t, kBytes>* bytes) {
    for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(++count_);
  }
  template <typename T, size_t kBound>
  void operator()(List<T, kBound>* list) {
    for (int i = 0; i < 2; ++i) All(&list->items.emplace_back());
  }
  template <typename M>
  void All(M* message) {
    std::apply([this](auto&... field) { ((*this)(&field), ...); }, M::Fields(*message));
  }

 private:
  uint32_t count_ = 0;
};

template <Message M>
M Full() {
  M message;
  Filler().All(&message);
  return message;
}

template <Message M>
Bytes BytesOfMessage(const M& message) {
  const Encoded<M> encoded(message);
  return {encoded.bytes().begin(), encoded.bytes().end()};
}

template <Direction kDirection>
auto MessagesOf() {
  if constexpr (kDirection == Direction::kToWorker) return ToWorker();
  if constexpr (kDirection == Direction::kFromWorker) return FromWorker();
  if constexpr (kDirection == Direction::kFromProbe) return FromProbe();
  if constexpr (kDirection == Direction::kToProcessMemory) return ToProcessMemory();
  if constexpr (kDirection == Direction::kFromProcessMemory) return FromProcessMemory();
  if constexpr (kDirection == Direction::kToControlPlane) return ToControlPlane();
  if constexpr (kDirection == Direction::kFromControlPlane) return FromControlPlane();
  if constexpr (kDirection == Direction::kToPoolAgent) return ToPoolAgent();
  if constexpr (kDirection == Direction::kFromPoolAgent) return FromPoolAgent();
  if constexpr (kDirection == Direction::kFromTlsGateway) return FromTlsGateway();
}

template <typename Messages>
bool IsRead(const Bytes& bytes) {
  Messages message;
  return Decode(bytes, &message).ok();
}
template <Message M>
bool IsReadAs(const Bytes& bytes) {
  return IsRead<decltype(MessagesOf<M::kDirection>())>(bytes);
}

template <typename M>
class ControlMessageTest : public testing::Test {};

template <typename Tuple>
struct ToTypes;
template <typename... Ms>
struct ToTypes<std::tuple<Ms...>> {
  using type = testing::Types<Ms...>;
};
TYPED_TEST_SUITE(ControlMessageTest, ToTypes<AllMessages>::type);

TYPED_TEST(ControlMessageTest, ComesBackAsItWas) {
  using Fields = decltype(TypeParam::Fields(std::declval<TypeParam&>()));
  static_assert(SizeOf(static_cast<Fields*>(nullptr)) == sizeof(TypeParam),
                "Fields leaves one out");
  auto message = MessagesOf<TypeParam::kDirection>();
  const Bytes bytes = BytesOfMessage(Full<TypeParam>());
  Status read = Decode(bytes, &message);
  ASSERT_TRUE(read.ok()) << read.message();
  ASSERT_TRUE(std::holds_alternative<TypeParam>(message));
  EXPECT_EQ(BytesOfMessage(std::get<TypeParam>(message)), bytes);
  if constexpr (std::tuple_size_v<Fields> != 0) EXPECT_NE(bytes, BytesOfMessage(TypeParam()));
}

TYPED_TEST(ControlMessageTest, IsRefusedCutAnywhereOrLongerByAnything) {
  const Bytes whole = BytesOfMessage(Full<TypeParam>());
  for (size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_FALSE(IsReadAs<TypeParam>({whole.begin(), whole.begin() + static_cast<long>(bytes)}))
        << bytes << " of " << whole.size();
  for (size_t more : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 64}) {
    for (std::byte with : {std::byte{0}, std::byte{255}}) {
      Bytes longer = whole;
      longer.resize(whole.size() + more, with);
      EXPECT_FALSE(IsReadAs<TypeParam>(longer)) << more << " more";
    }
  }
}

TYPED_TEST(ControlMessageTest, IsRefusedInAnyOtherVersion) {
  for (int bit = 0; bit < 16; ++bit) {
    Bytes bytes = BytesOfMessage(Full<TypeParam>());
    bytes[static_cast<size_t>(bit / 8)] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(IsReadAs<TypeParam>(bytes)) << "bit " << bit;
  }
}

TYPED_TEST(ControlMessageTest, IsRefusedInAnyOtherDirection) {
  const Bytes bytes = BytesOfMessage(Full<TypeParam>());
  constexpr Direction kOwn = TypeParam::kDirection;
  EXPECT_EQ(IsRead<ToWorker>(bytes), kOwn == Direction::kToWorker);
  EXPECT_EQ(IsRead<FromWorker>(bytes), kOwn == Direction::kFromWorker);
  EXPECT_EQ(IsRead<FromProbe>(bytes), kOwn == Direction::kFromProbe);
  EXPECT_EQ(IsRead<ToProcessMemory>(bytes), kOwn == Direction::kToProcessMemory);
  EXPECT_EQ(IsRead<FromProcessMemory>(bytes), kOwn == Direction::kFromProcessMemory);
  EXPECT_EQ(IsRead<ToControlPlane>(bytes), kOwn == Direction::kToControlPlane);
  EXPECT_EQ(IsRead<FromControlPlane>(bytes), kOwn == Direction::kFromControlPlane);
  EXPECT_EQ(IsRead<ToPoolAgent>(bytes), kOwn == Direction::kToPoolAgent);
  EXPECT_EQ(IsRead<FromPoolAgent>(bytes), kOwn == Direction::kFromPoolAgent);
  EXPECT_EQ(IsRead<FromTlsGateway>(bytes), kOwn == Direction::kFromTlsGateway);
}

// ---- what single fields may be

template <Message M>
bool IsTaken(const M& message) {
  return IsReadAs<M>(BytesOfMessage(message));
}

TEST(ControlMessagesTest, AFailedReadChangesNothing) {
  FromWorker message = Refund{.device = 1, .bytes = 2};
  EXPECT_FALSE(Decode(BytesOfMessage(Refund{.device = -5}), &message).ok());
  EXPECT_EQ(std::get<Refund>(message).bytes, 2u);
}

TEST(ControlMessagesTest, UnknownTypesAreRefused) {
  for (unsigned type = 0; type < 65536; ++type) {
    if (type != 0 && type <= static_cast<unsigned>(kLastType)) continue;
    Bytes bytes(kHeaderBytes);
    Writer out(bytes);
    out.Put(kVersion);
    out.Put(static_cast<uint16_t>(type));
    ASSERT_FALSE(IsRead<FromWorker>(bytes)) << type;
    ASSERT_FALSE(IsRead<ToWorker>(bytes)) << type;
  }
}

TEST(ControlMessagesTest, EnumsAndFlagsHaveTheirValuesAndNoOthers) {
  for (unsigned value = 0; value < 256; ++value) {
    const auto byte = static_cast<uint8_t>(value);
    EXPECT_EQ(IsTaken(SwapDone{.outcome = static_cast<SwapOutcome>(byte)}), value < 4);
    EXPECT_EQ(IsTaken(Lease{.company = static_cast<Company>(byte)}), value < 3);
    EXPECT_EQ(IsTaken(QuotaReply{.outcome = static_cast<ChangeOutcome>(byte)}), value < 4);
    EXPECT_EQ(IsTaken(SetQuota{.id = 1, .change = {.priority = static_cast<WirePriority>(byte)}}),
              value < 3);
    Bytes idle = BytesOfMessage(Idle{});
    idle[kHeaderBytes] = std::byte{byte};
    EXPECT_EQ(IsReadAs<Idle>(idle), value < 2);
    Bytes without = BytesOfMessage(SetQuota{.id = 1});
    without.back() = std::byte{byte};  // whether there is a budget
    EXPECT_EQ(IsReadAs<SetQuota>(without), value == 0);
  }
}

TEST(ControlMessagesTest, TextsAreCutWhenSetAndRefusedWhenLonger) {
  const std::string longest(240, 'x');
  EXPECT_EQ(Reason(longest + "y").str(), longest);
  EXPECT_TRUE(IsTaken(Stop{.why = longest}));
  Bytes bytes(1024);
  Writer out(bytes);
  out.Put(kVersion);
  out.Put(static_cast<uint16_t>(Stop::kType));
  out.PutString(longest + "y");
  bytes.resize(out.size_bytes());
  EXPECT_FALSE(IsReadAs<Stop>(bytes));
  const std::string with_zero("a\0b", 3);
  ToWorker message;
  ASSERT_TRUE(Decode(BytesOfMessage(Stop{.why = with_zero}), &message).ok());
  EXPECT_EQ(std::get<Stop>(message).why.str(), with_zero);
}

TEST(ControlMessagesTest, ListsHaveABoundAndNoCountIsBelieved) {
  Processes most{.id = 1, .total = 128};
  for (uint32_t i = 0; i < 128; ++i) most.some.items.push_back({i, ~uint64_t{0}});
  EXPECT_TRUE(IsTaken(most));
  most.some.items.push_back({128, 0});
  EXPECT_FALSE(IsTaken(most)) << "it is not even sent";
  for (uint64_t count : {uint64_t{1}, uint64_t{129}, uint64_t{1} << 32, ~uint64_t{0}}) {
    Bytes bytes = BytesOfMessage(Processes{.id = 1});
    std::memcpy(bytes.data() + bytes.size() - sizeof(count), &count, sizeof(count));
    EXPECT_FALSE(IsReadAs<Processes>(bytes)) << count;
  }
}

TEST(ControlMessagesTest, QuestionsHaveAnIdAndDevicesARange) {
  EXPECT_FALSE(IsTaken(Charge{.id = 0}));
  EXPECT_FALSE(IsTaken(AskUsage{.id = 0}));
  EXPECT_FALSE(IsTaken(AskProcesses{.id = 0}));
  EXPECT_FALSE(IsTaken(Share{.id = 0}));
  EXPECT_FALSE(IsTaken(Redeem{.id = 0}));
  EXPECT_FALSE(IsTaken(AskStatus{.id = 0}));
  EXPECT_FALSE(IsTaken(SetQuota{.id = 0}));
  EXPECT_FALSE(IsTaken(Park{.id = 0}));
  for (int32_t device : {INT32_MIN, -2, -1, 0, kMaxDevices - 1, kMaxDevices, INT32_MAX}) {
    const bool is_device = device >= 0 && device < kMaxDevices;
    const bool or_host = is_device || device == kHostMemory;
    EXPECT_EQ(IsTaken(Charge{.id = 1, .device = device}), or_host) << device;
    EXPECT_EQ(IsTaken(Refund{.device = device}), or_host) << device;
    EXPECT_EQ(IsTaken(AskUsage{.id = 1, .device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(Unspent{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(WantLease{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(LeaseUse{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(LeaseRuns{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(LeaseDone{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(Moved{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(DeviceFull{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(Share{.id = 1, .device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(AskProcesses{.id = 1, .device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(Peak{.device = device}), is_device) << device;
    EXPECT_EQ(IsTaken(ProcessMemory{.device = device}), is_device) << device;
  }
}

TEST(ControlMessagesTest, DevicesAreTranslatedWhereThereIsOne) {
  FromWorker message = Charge{.id = 1, .device = 2, .bytes = 3};
  MapDevice(&message, [](int32_t device) { return device + 10; });
  EXPECT_EQ(std::get<Charge>(message).device, 12);
  message = WantIn{};
  MapDevice(&message, [](int32_t device) { return device + 10; });
  EXPECT_TRUE(std::holds_alternative<WantIn>(message));
}

// ---- over a socket

class ControlSocketTest : public testing::Test {
 protected:
  ControlSocketTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_), 0);
  }
  ~ControlSocketTest() override {
    for (int fd : ends_) close(fd);
    for (int fd : descriptors_) close(fd);
  }
  template <typename Messages>
  Status Take(Messages* message) {
    return Receive(ends_[0], message, &descriptors_);
  }

  int ends_[2] = {-1, -1};
  std::vector<int> descriptors_;
};

TEST_F(ControlSocketTest, MessagesComeInTheirOrderWithTheirDescriptors) {
  const int file = memfd_create("control-test", MFD_CLOEXEC);
  ASSERT_TRUE(Send(ends_[1], control::Setup{}, {file, file}).ok());
  ASSERT_TRUE(Send(ends_[1], ToWorker(Stop{.why = "enough"})).ok());
  ToWorker message;
  ASSERT_TRUE(Take(&message).ok());
  EXPECT_TRUE(std::holds_alternative<control::Setup>(message));
  EXPECT_EQ(descriptors_.size(), 2u);
  for (int fd : std::exchange(descriptors_, {})) close(fd);
  ASSERT_TRUE(Take(&message).ok());
  EXPECT_EQ(std::get<Stop>(message).why.str(), "enough");
  EXPECT_TRUE(descriptors_.empty());
  EXPECT_EQ(Take(&message).code(), Code::kTimeout);
  close(std::exchange(ends_[1], -1));
  EXPECT_EQ(Take(&message).code(), Code::kDisconnected);
  close(file);
}

TEST_F(ControlSocketTest, MoreDescriptorsThanTheMessageMayCarryAreRefused) {
  const int file = memfd_create("control-test", MFD_CLOEXEC);
  ToWorker message;
  ASSERT_TRUE(Send(ends_[1], Stop{}, {file}).ok());
  EXPECT_EQ(Take(&message).code(), Code::kMalformed);
  EXPECT_EQ(descriptors_.size(), 1u) << "they are the caller's to close";
  close(file);
}

TEST_F(ControlSocketTest, APacketLongerThanAnyMessageIsRefused) {
  const Bytes bytes(kMaxMessageBytes + 1);
  ASSERT_TRUE(SendPacket(ends_[1], bytes).ok());
  ToWorker message;
  EXPECT_EQ(Take(&message).code(), Code::kMalformed);
}

// The kernel then reports ECONNRESET before what the peer has sent.
TEST_F(ControlSocketTest, WhatAPeerSaidLastIsReadThoughItDidNotReadAll) {
  ASSERT_TRUE(Send(ends_[0], ClientGone{}).ok());
  ASSERT_TRUE(Send(ends_[1], Ended{.why = "it has ended"}).ok());
  close(ends_[1]);
  ends_[1] = -1;
  FromWorker message;
  const Status received = Take(&message);
  ASSERT_TRUE(received.ok()) << received.message();
  EXPECT_EQ(std::get<Ended>(message).why.str(), "it has ended");
  EXPECT_EQ(Take(&message).code(), Code::kDisconnected);
}

TEST_F(ControlSocketTest, SendingNeverWaits) {
  Status sent;
  for (int i = 0; i < 100'000 && sent.ok(); ++i) sent = Send(ends_[1], ClientGone{});
  EXPECT_EQ(sent.code(), Code::kUnavailable);
}

}  // namespace
}  // namespace farcall::server::control
