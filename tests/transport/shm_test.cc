// SPDX-License-Identifier: Apache-2.0
// shm:// beyond what every transport promises: what a hostile peer can do to the rings, what a
// client accepts, fork, wake-ups, and the socket's path.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/transport/link_harness.h"
#include "transport/shm/ring_memory.h"
#include "transport/shm/shm_channel.h"
#include "transport/shm/shm_socket.h"

namespace farcall::test {
namespace {

constexpr size_t kRingBytes = kMinRingBytes;

// A server's channel, and the other end as a client sees it that keeps no rule: the socket, and
// both memories as far as it can map them.
struct RawClient {
  RawClient() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    socket = ends[1];
    server = std::move(*ServeRings(ends[0], kRingBytes));
    char byte;
    iovec vector{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(2 * sizeof(int))];
    msghdr message{};
    message.msg_iov = &vector;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    EXPECT_EQ(recvmsg(socket, &message, 0), 1);
    std::memcpy(files, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(files));
    own = static_cast<RingWords*>(
        mmap(nullptr, kRingOffset + kRingBytes, PROT_READ | PROT_WRITE, MAP_SHARED, files[0], 0));
    EXPECT_NE(own, MAP_FAILED);
  }
  ~RawClient() {
    munmap(own, kRingOffset + kRingBytes);
    close(files[0]);
    close(files[1]);
    close(socket);
  }

  std::unique_ptr<Channel> server;
  int socket = -1, files[2] = {-1, -1};
  RingWords* own = nullptr;
};

TEST(ShmHostileTest, ATailThatIsNoneEndsTheConnection) {
  RawClient client;
  std::byte byte;
  for (const uint64_t tail : {uint64_t{kRingBytes + 1}, ~uint64_t{0}, uint64_t{1} << 63}) {
    client.own->tail = tail;
    EXPECT_TRUE(client.server->WaitReadable(Clock::now()));
    const Status status = client.server->TryReceive({&byte, 1}).status();
    EXPECT_EQ(status.code(), Code::kMalformed);
    EXPECT_NE(status.message().find("in a ring of 65536"), std::string::npos) << status.message();
  }
}

TEST(ShmHostileTest, AHeadBeforeTheTailEndsTheConnection) {
  RawClient client;
  const std::vector<std::byte> bytes(kRingBytes);
  const std::span<const std::byte> part(bytes);
  ASSERT_EQ(*client.server->TrySend({&part, 1}), kRingBytes);
  client.own->head = kRingBytes + 1;
  EXPECT_TRUE(client.server->WaitWritable(Clock::now()));
  EXPECT_EQ(client.server->TrySend({&part, 1}).status().code(), Code::kMalformed);
}

TEST(ShmHostileTest, WordsThatChangeAllTheTimeCauseNothingWorse) {
  RawClient client;
  std::atomic<bool> stop{false};
  std::thread scribbler([&] {
    uint64_t value = 1;
    while (!stop) {
      value = value * 6364136223846793005u + 1442695040888963407u;
      std::memset(reinterpret_cast<char*>(client.own) + kRingOffset, static_cast<int>(value), 64);
      client.own->head = value >> 40;
      client.own->tail = value >> 44;
      client.own->reader_sleep = static_cast<uint32_t>(value);
      client.own->writer_sleep = static_cast<uint32_t>(value >> 32);
      (void)send(client.socket, &value, sizeof(value), MSG_DONTWAIT | MSG_NOSIGNAL);
    }
  });
  std::vector<std::byte> bytes(4096);
  const std::span<const std::byte> part(bytes);
  for (int i = 0; i < 20000; ++i) {
    (void)client.server->TryReceive(bytes);
    (void)client.server->TrySend({&part, 1});
    (void)client.server->WaitReadable(Clock::now());
    (void)client.server->WaitWritable(Clock::now());
  }
  stop = true;
  scribbler.join();
}

int NewFile() {
  const int file = memfd_create("test", MFD_CLOEXEC);
  EXPECT_GE(file, 0);
  return file;
}

ino_t InodeOf(int file) {
  struct stat status {};
  EXPECT_EQ(fstat(file, &status), 0);
  return status.st_ino;
}

size_t OpenFiles() {
  size_t count = 0;
  for (int file = 0; file < 1024; ++file) count += fcntl(file, F_GETFD) >= 0 ? 1 : 0;
  return count;
}

// Both ends of a connection that has its rings.
struct Pair {
  Pair() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client = AwaitRings(ends[1], "server");
    server = std::move(*ServeRings(ends[0], kRingBytes));
    std::byte none;
    EXPECT_EQ(*client->TryReceive({&none, 1}), 0u);
  }
  std::unique_ptr<Channel> client, server;
};

TEST(ShmDescriptorTest, AClientTakesThemInTheirOrderAndBeforeLaterBytes) {
  Pair pair;
  ASSERT_TRUE(pair.client->CarriesDescriptors());
  EXPECT_EQ(pair.client->TakeDescriptor(), -1);
  const std::byte byte{7};
  const std::span<const std::byte> part(&byte, 1);
  for (int i = 0; i < 5; ++i) {
    const int first = NewFile(), second = NewFile();
    ASSERT_TRUE(pair.server->SendDescriptor(first).ok());
    ASSERT_TRUE(pair.server->SendDescriptor(second).ok());
    ASSERT_EQ(*pair.server->TrySend({&part, 1}), 1u);
    std::byte got{};
    ASSERT_TRUE(pair.client->WaitReadable(Clock::now() + std::chrono::seconds(10)));
    ASSERT_EQ(*pair.client->TryReceive({&got, 1}), 1u);
    for (const int sent : {first, second}) {
      const int taken = pair.client->TakeDescriptor();
      ASSERT_GE(taken, 0);
      EXPECT_EQ(InodeOf(taken), InodeOf(sent));
      EXPECT_NE(fcntl(taken, F_GETFD) & FD_CLOEXEC, 0);
      close(taken);
      close(sent);
    }
    EXPECT_EQ(pair.client->TakeDescriptor(), -1);
  }
}

TEST(ShmDescriptorTest, AFloodOfThemIsBoundedAndClosedWithTheConnection) {
  const size_t before = OpenFiles();
  {
    Pair pair;
    const int file = NewFile();
    const size_t with_pair = OpenFiles();
    for (int i = 0; i < 400; ++i) {
      (void)pair.server->SendDescriptor(file);
      EXPECT_FALSE(pair.client->WaitReadable(Clock::now()));
    }
    EXPECT_LE(OpenFiles(), with_pair + 16);
    close(file);
  }
  EXPECT_EQ(OpenFiles(), before);
}

TEST(ShmDescriptorTest, AServerTakesNoneOfAClient) {
  RawClient client;
  const int file = NewFile();
  const size_t before = OpenFiles();
  char byte = 0;
  iovec vector{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &file, sizeof(file));
  ASSERT_EQ(sendmsg(client.socket, &message, 0), 1);
  EXPECT_FALSE(client.server->WaitReadable(Clock::now() + std::chrono::milliseconds(20)));
  EXPECT_EQ(client.server->TakeDescriptor(), -1);
  EXPECT_EQ(OpenFiles(), before);
  close(file);
}

TEST(ShmHostileTest, NobodyCanTakePagesAwayNorWriteTheOthersRing) {
  RawClient client;
  for (const int file : client.files) {
    EXPECT_NE(ftruncate(file, 4096), 0);
    EXPECT_NE(ftruncate(file, 1 << 30), 0);
    EXPECT_NE(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE), 0);
  }
  EXPECT_EQ(mmap(nullptr, kRingOffset, PROT_WRITE, MAP_SHARED, client.files[1], 0), MAP_FAILED);
  const char byte = 1;
  EXPECT_EQ(pwrite(client.files[1], &byte, 1, 0), -1);
  EXPECT_NE(fallocate(client.files[1], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
  // A hole in its own is its own affair: zeros are read there.
  client.own->tail = 8;
  EXPECT_EQ(fallocate(client.files[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      kRingOffset + kRingBytes),
            0);
  std::byte got[8];
  EXPECT_EQ(*client.server->TryReceive(got), 0u);
}

// What a client makes of an offer of these descriptors.
Status Offer(const std::vector<int>& files) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::unique_ptr<Channel> client = AwaitRings(ends[1], "a server");
  char byte = 0;
  iovec vector{&byte, 1};
  std::vector<char> control(CMSG_SPACE(files.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &vector;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), files.data(), files.size() * sizeof(int));
  EXPECT_EQ(sendmsg(ends[0], &message, 0), 1);
  std::byte into[8];
  const Status status = client->TryReceive(into).status();
  EXPECT_TRUE(status.ok() || client->TryReceive(into).status().code() == status.code());
  close(ends[0]);
  return status;
}

int MemoryOf(size_t bytes, int seals) {
  const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(ShmOfferTest, OnlySealedMemoryOfARightSizeIsMapped) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  const int right = MemoryOf(kRingOffset + kRingBytes, kSeals);
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  for (const int wrong :
       {MemoryOf(kRingOffset + kRingBytes, F_SEAL_GROW), MemoryOf(kRingOffset + 12345, kSeals),
        MemoryOf(100, kSeals), MemoryOf(kRingOffset + 2 * kMaxRingBytes, kSeals), file}) {
    EXPECT_EQ(Offer({wrong, right}).code(), Code::kMalformed);
    EXPECT_EQ(Offer({right, wrong}).code(), Code::kMalformed);
    close(wrong);
  }
  const Status version = Offer({right, right});  // sealed memory without our words
  EXPECT_NE(version.message().find("another version"), std::string::npos) << version.message();
  EXPECT_EQ(Offer({right}).code(), Code::kMalformed);
  EXPECT_EQ(Offer({right, right, right}).code(), Code::kUnavailable);
  close(right);
}

struct Ends {
  Ends() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    client = AwaitRings(ends[1], "a server");
    server = std::move(*ServeRings(ends[0], kRingBytes));
    std::byte byte;
    EXPECT_EQ(*client->TryReceive({&byte, 1}), 0u);
  }
  std::unique_ptr<Channel> client, server;
};

size_t MappedRings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:farcall-ring") != std::string::npos;
  return count;
}

TEST(ShmForkTest, AChildHasNoneOfTheRings) {
  Ends ends;
  ASSERT_EQ(MappedRings(), 4u);
  const pid_t child = fork();
  if (child == 0) {
    const bool has_none = MappedRings() == 0;
    ends.client->Abandon();
    ends.server->Abandon();
    ends.client.reset();
    ends.server.reset();
    _exit(has_none ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const std::vector<std::byte> bytes = Pattern(100, 1);
  std::vector<std::byte> got(100);
  ASSERT_TRUE(SendAll(*ends.client, bytes, In(kLong)).ok());
  ASSERT_TRUE(ReceiveAll(*ends.server, got, In(kLong)).ok());
  EXPECT_EQ(bytes, got);
}

TEST(ShmForkTest, TheMappingsGoWithTheChannels) {
  const size_t before = MappedRings();
  { Ends ends; }
  EXPECT_EQ(MappedRings(), before);
}

// Each look finds nothing first, so that every byte crosses a sleep, on both sides.
TEST(ShmWakeTest, EverySleeperIsWoken) {
  Ends ends;
  constexpr int kTurns = 20000;
  const auto take = [](Channel& channel) {
    std::byte byte;
    while (*channel.TryReceive({&byte, 1}) == 0) ASSERT_TRUE(channel.WaitReadable(In(kLong)));
  };
  const std::byte byte{1};
  std::thread echo([&] {
    for (int i = 0; i < kTurns; ++i) {
      take(*ends.server);
      EXPECT_TRUE(SendAll(*ends.server, {&byte, 1}, In(kLong)).ok());
    }
  });
  for (int i = 0; i < kTurns; ++i) {
    EXPECT_TRUE(SendAll(*ends.client, {&byte, 1}, In(kLong)).ok());
    take(*ends.client);
  }
  echo.join();
}

// The ring is full again and again: 16 MiB through 64 KiB, in pieces that do not fit its end.
TEST(ShmWakeTest, EveryWriterThatWaitsForRoomIsWoken) {
  Ends ends;
  const std::vector<std::byte> bytes = Pattern(16u << 20, 7);
  std::vector<std::byte> got(bytes.size());
  std::thread writer([&] { EXPECT_TRUE(SendAll(*ends.client, bytes, In(kLong)).ok()); });
  std::span<std::byte> left(got);
  while (!left.empty()) {
    ASSERT_TRUE(ends.server->WaitReadable(In(kLong)));
    left = left.subspan(*ends.server->TryReceive(left.first(std::min<size_t>(left.size(), 7777))));
  }
  writer.join();
  EXPECT_EQ(bytes, got);
}

TEST(ShmWakeTest, TheEndOfAPeerWakesAWriterThatWaitsForRoom) {
  Ends ends;
  const std::vector<std::byte> bytes(2 * kRingBytes);
  std::thread writer(
      [&] { EXPECT_EQ(SendAll(*ends.client, bytes, In(kLong)).code(), Code::kDisconnected); });
  while (ends.client->WaitWritable(Clock::now())) {
  }
  ends.server.reset();
  writer.join();
}

std::string FreshPath() {
  return FreshUrl("shm://x").substr(6);
}

TEST(ShmSocketTest, ALeftPathIsTakenAndAUsedOneIsNot) {
  const std::string path = FreshPath(), url = "shm://" + path;
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  close(fd);  // as a killed server leaves it
  EXPECT_NE(Dial(url, In(100)).status().message().find("nothing listens there"), std::string::npos);
  Result<std::unique_ptr<Listener>> listener = Listen(url);
  ASSERT_TRUE(listener.ok()) << listener.status().message();
  EXPECT_NE(Listen(url).status().message().find("in use"), std::string::npos);
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  listener->reset();
  EXPECT_NE(stat(path.c_str(), &status), 0);
}

TEST(ShmSocketTest, AFileIsNotRemoved) {
  const std::string path = FreshPath();
  std::ofstream(path) << "mine";
  EXPECT_FALSE(Listen("shm://" + path).ok());
  EXPECT_EQ(unlink(path.c_str()), 0);
}

TEST(ShmSocketTest, ItsPathIsAbsoluteAndShort) {
  for (const std::string& path : {std::string("relative"), "/" + std::string(107, 'x')}) {
    const Status status = Dial("shm://" + path, In(1)).status();
    EXPECT_EQ(status.code(), Code::kInvalid) << status.message();
    EXPECT_EQ(Listen("shm://" + path).status().code(), Code::kInvalid);
  }
}

}  // namespace
}  // namespace farcall::test
