// SPDX-License-Identifier: Apache-2.0
// HTTP's port. Whoever may reach it may connect and be slow, so nothing that serves waits for a
// request: one thread accepts and reads for all, and threads that answer get whole requests only.
// Head and body have deadlines in all. Tables are bounded; they make room by closing a connection
// of the address that holds the most.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "listener/source_table.h"
#include "listener/tls/tls_files_watch.h"
#include "pool/http/http_connection.h"
#include "sync/cond_var.h"

namespace farcall::pool {

class HttpFront {
 public:
  // Answers the whole request of a connection; false: the connection is to be closed.
  using Answer = std::function<bool(HttpConnection&)>;
  struct Bounds {
    size_t waiting = 4096;  // connections without a whole request: units of 4 KiB of memory
    size_t ready = 4096;    // whole requests that no thread answers yet: likewise
    size_t workers = 64;    // threads
    std::chrono::milliseconds head{5000}, body{10'000};  // to be whole
    HttpConnection::Bounds request;                      // of each
  };
  HttpFront(Answer answer, const Bounds& bounds);
  ~HttpFront() { Close(); }

  //   Errors  kUnavailable
  Status Open(const std::string& host, int port, const TlsFiles& tls);
  int port() const { return port_; }
  // Once nobody waits in `answer` any more.
  void Close();

 private:
  struct Guest {
    std::unique_ptr<HttpConnection> connection;
    uint64_t source = 0;
    Clock::time_point deadline;
    bool has_head = false;
  };

  Status Bind(const std::string& host, int port);
  Status LoadTls();
  // The loop's thread.
  void Loop();
  void Turn();
  int WaitMilliseconds() const;
  void AcceptSome();
  void Add(std::unique_ptr<HttpConnection> connection, uint64_t source);
  void Read(uint64_t number);
  void Queue(uint64_t number);
  void Drop(uint64_t number);
  Guest Take(uint64_t number);  // out of the table
  void DropLate();
  void TakeBack();  // connections that workers are done with
  void ShedWaiting();
  void Watch(int operation, int fd, uint32_t events, uint64_t name);
  size_t Weight(const HttpConnection& connection) const;
  void Work();  // a worker's

  const Answer answer_;
  const Bounds bounds_;
  const size_t most_waiting_;
  std::optional<TlsFilesWatch> tls_files_;
  std::shared_ptr<SSL_CTX> tls_;  // connections keep theirs; null: plain
  int listener_ = -1, epoll_ = -1, wake_ = -1, port_ = 0;
  std::vector<std::thread> threads_;

  // Of the loop's thread.
  std::map<uint64_t, Guest> guests_;
  std::set<std::pair<Clock::time_point, uint64_t>> deadlines_;
  SourceTable waiting_;  // all of guests_
  uint64_t next_number_ = 0;
  bool is_paused_ = false;  // no descriptors: the listener is not heard for a moment

  std::mutex mutex_;  // all below
  CondVar came_;
  std::map<uint64_t, Guest> ready_;
  SourceTable turns_;  // all of ready_
  std::vector<Guest> done_;
  bool stopping_ = false;
};

}  // namespace farcall::pool
