// SPDX-License-Identifier: Apache-2.0
#include "pool/http/http_front.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <exception>
#include <system_error>

#include "listener/descriptors.h"
#include "listener/source.h"
#include "proto/log_line.h"

namespace farcall::pool {

namespace {

constexpr size_t kUnitBytes = 4096, kMaxRequests = 100;
constexpr int kAcceptsAtOnce = 32;
constexpr int kPauseMs = 50;
constexpr uint64_t kListener = ~uint64_t{0}, kWake = kListener - 1;

}  // namespace

HttpFront::HttpFront(Answer answer, const Bounds& bounds)
    : answer_(std::move(answer)),
      bounds_(bounds),
      most_waiting_(std::min(bounds.waiting, RaiseDescriptorLimit() / 8)) {}

Status HttpFront::Bind(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  auto failed = [&](const std::string& why) {
    return Status(Code::kUnavailable,
                  "cannot listen on " + host + ":" + std::to_string(port) + ": " + why);
  };
  if (int wrong = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      wrong != 0)
    return failed(gai_strerror(wrong));
  std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  listener_ = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int yes = 1;
  sockaddr_storage bound{};
  socklen_t bytes = sizeof(bound);
  // No SO_REUSEPORT: another controller on the same address must not go unseen.
  if (listener_ < 0 || setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
      bind(listener_, found->ai_addr, found->ai_addrlen) != 0 || listen(listener_, 4096) != 0 ||
      getsockname(listener_, reinterpret_cast<sockaddr*>(&bound), &bytes) != 0)
    return failed(std::generic_category().message(errno));
  port_ = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return {};
}

Status HttpFront::LoadTls() {
  const TlsFiles& files = tls_files_->files();
  std::shared_ptr<SSL_CTX> made(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(made.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(made.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(made.get(), SSL_OP_NO_RENEGOTIATION);
  if (SSL_CTX_use_certificate_chain_file(made.get(), files.certificate.c_str()) != 1 ||
      SSL_CTX_use_PrivateKey_file(made.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return {Code::kUnavailable, "'" + files.certificate + "', '" + files.key + "': cannot be read"};
  if (!files.authorities.empty()) {
    // As at the data port: the same authorities, the same list of revoked ones.
    Result<std::shared_ptr<TlsContext>> clients =
        TlsContext::Make(TlsContext::Side::kServer, files);
    if (!clients.ok()) return clients.status();
    SSL_CTX_set1_cert_store(made.get(), SSL_CTX_get_cert_store((*clients)->native()));
    SSL_CTX_set_client_CA_list(made.get(), SSL_load_client_CA_file(files.authorities.c_str()));
    SSL_CTX_set_verify(made.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // A session that is resumed would show no certificate again.
    SSL_CTX_set_session_cache_mode(made.get(), SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(made.get(), SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(made.get(), 0);
  }
  tls_ = std::move(made);
  return {};
}

Status HttpFront::Open(const std::string& host, int port, const TlsFiles& tls) {
  if (tls.given()) {
    tls_files_.emplace(tls);
    FARCALL_TRY(LoadTls());
  }
  FARCALL_TRY(Bind(host, port));
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (epoll_ < 0 || wake_ < 0) return {Code::kUnavailable, "no descriptors for HTTP"};
  Watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListener);
  Watch(EPOLL_CTL_ADD, wake_, EPOLLIN, kWake);
  try {
    threads_.emplace_back([this] { Loop(); });
    for (size_t i = 0; i < bounds_.workers; ++i) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error&) {
    Close();
    return {Code::kUnavailable, "no threads for HTTP: raise the limit of processes"};
  }
  return {};
}

void HttpFront::Close() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  came_.notify_all();
  if (wake_ >= 0) eventfd_write(wake_, 1);
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  for (int* fd : {&listener_, &epoll_, &wake_})
    if (*fd >= 0) close(std::exchange(*fd, -1));
  guests_.clear();
  ready_.clear();
  done_.clear();
}

void HttpFront::Watch(int operation, int fd, uint32_t events, uint64_t name) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = name;
  epoll_ctl(epoll_, operation, fd, &event);
}

size_t HttpFront::Weight(const HttpConnection& connection) const {
  return (sizeof(Guest) + connection.bytes() + kUnitBytes - 1) / kUnitBytes;
}

void HttpFront::Loop() {
  while (true) {
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    try {
      Turn();
    } catch (const std::exception& error) {  // out of memory: those who wait hold some
      LogLine(LogSeverity::kError, "pool", std::string("HTTP: ") + error.what());
      ShedWaiting();
    }
  }
}

void HttpFront::Turn() {
  std::array<epoll_event, 64> events;
  int count =
      epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), WaitMilliseconds());
  DropLate();
  if (std::exchange(is_paused_, false)) Watch(EPOLL_CTL_MOD, listener_, EPOLLIN, kListener);
  for (int i = 0; i < count; ++i) {
    const uint64_t name = events[static_cast<size_t>(i)].data.u64;
    if (name == kListener)
      AcceptSome();
    else if (name == kWake)
      TakeBack();
    else
      Read(name);
  }
}

int HttpFront::WaitMilliseconds() const {
  if (is_paused_) return kPauseMs;
  if (deadlines_.empty()) return -1;
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadlines_.begin()->first -
                                                                    Clock::now());
  return static_cast<int>(std::max<decltype(left)::rep>(left.count(), 0)) + 1;
}

void HttpFront::AcceptSome() {
  if (tls_files_ && tls_files_->HaveChanged())
    if (Status loaded = LoadTls(); !loaded.ok())
      LogLine(LogSeverity::kWarn, "pool",
              "REST: " + loaded.message() + "; the previous files stay");
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    int fd = accept4(listener_, reinterpret_cast<sockaddr*>(&peer), &bytes,
                     SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)) return;
    if (fd < 0) {  // no descriptors: those who wait hold some
      if (!guests_.empty()) ShedWaiting();
      is_paused_ = true;
      return Watch(EPOLL_CTL_MOD, listener_, 0, kListener);
    }
    int yes = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    Add(std::make_unique<HttpConnection>(fd, tls_), SourceOf(peer));
  }
}

void HttpFront::Add(std::unique_ptr<HttpConnection> connection, uint64_t source) {
  while (waiting_.weight() >= most_waiting_ && !guests_.empty()) ShedWaiting();
  const uint64_t number = next_number_++;
  waiting_.Add(number, source, Weight(*connection));
  Watch(EPOLL_CTL_ADD, connection->fd(), EPOLLIN, number);
  Guest guest{std::move(connection), source, Clock::now() + bounds_.head, false};
  deadlines_.emplace(guest.deadline, number);
  guests_.emplace(number, std::move(guest));
  Read(number);  // what came with it, or was sent ahead
}

void HttpFront::Read(uint64_t number) {
  auto found = guests_.find(number);
  if (found == guests_.end()) return;  // dropped since the event
  Guest& guest = found->second;
  HttpConnection::State state = guest.connection->Read(bounds_.request);
  if (state == HttpConnection::State::kGone) return Drop(number);
  if (state == HttpConnection::State::kWhole) return Queue(number);
  if (state == HttpConnection::State::kBody && !guest.has_head) {
    guest.has_head = true;
    deadlines_.erase({guest.deadline, number});
    guest.deadline = Clock::now() + bounds_.body;
    deadlines_.emplace(guest.deadline, number);
  }
  uint32_t events = EPOLLIN;
  if (guest.connection->wants_write()) events |= EPOLLOUT;
  Watch(EPOLL_CTL_MOD, guest.connection->fd(), events, number);
  waiting_.SetWeight(number, Weight(*guest.connection));
  while (waiting_.weight() > most_waiting_) ShedWaiting();
}

HttpFront::Guest HttpFront::Take(uint64_t number) {
  Guest guest = std::move(guests_.at(number));
  Watch(EPOLL_CTL_DEL, guest.connection->fd(), 0, number);
  waiting_.Remove(number);
  deadlines_.erase({guest.deadline, number});
  guests_.erase(number);
  return guest;
}

void HttpFront::Drop(uint64_t number) {
  (void)Take(number);
}

void HttpFront::ShedWaiting() {
  if (!guests_.empty()) Drop(waiting_.PickOfFullest());
}

void HttpFront::DropLate() {
  while (!deadlines_.empty() && deadlines_.begin()->first <= Clock::now())
    Drop(deadlines_.begin()->second);
}

void HttpFront::Queue(uint64_t number) {
  Guest guest = Take(number);
  std::vector<Guest> shed;
  {
    std::lock_guard lock(mutex_);
    while (turns_.weight() >= bounds_.ready) {
      const uint64_t other = turns_.PickOfFullest();
      turns_.Remove(other);
      shed.push_back(std::move(ready_.at(other)));
      ready_.erase(other);
    }
    turns_.Add(number, guest.source, Weight(*guest.connection));
    ready_.emplace(number, std::move(guest));
  }
  came_.notify_one();
}

void HttpFront::TakeBack() {
  eventfd_t unused;
  eventfd_read(wake_, &unused);
  std::vector<Guest> done;
  {
    std::lock_guard lock(mutex_);
    done.swap(done_);
  }
  for (Guest& guest : done) Add(std::move(guest.connection), guest.source);
}

void HttpFront::Work() {
  while (true) {
    Guest guest;
    {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return !ready_.empty() || stopping_; });
      if (stopping_) return;
      const uint64_t number = turns_.PickNext();
      turns_.Remove(number);
      guest = std::move(ready_.at(number));
      ready_.erase(number);
    }
    bool goes_on = false;
    try {
      goes_on = answer_(*guest.connection);
    } catch (const std::exception& error) {  // out of memory
      LogLine(LogSeverity::kError, "pool", std::string("HTTP: ") + error.what());
    }
    if (!goes_on || guest.connection->Next() >= kMaxRequests) continue;
    {
      std::lock_guard lock(mutex_);
      done_.push_back(std::move(guest));
    }
    eventfd_write(wake_, 1);
  }
}

}  // namespace farcall::pool
