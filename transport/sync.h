// SPDX-License-Identifier: Apache-2.0
// A thread that may be left behind in a forked child: a joinable std::thread ends the process that
// drops it. With what it takes to work with others: Mutex and CondVar.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <mutex>

#include "sync/cond_var.h"
#include "sync/mutex.h"
#include "transport/channel.h"

namespace farcall {

// Runs one member function on a thread that takes none of the program's signals.
class WorkerThread {
 public:
  static constexpr size_t kStackBytes = 512u << 10;

  template <typename Object, typename... Arguments>
  bool Start(const char* name, void (Object::*body)(Arguments...), Object* object,
             std::type_identity_t<Arguments>... arguments) {
    auto run = [object, body, arguments...] { (object->*body)(arguments...); };
    return StartRaw(name, &Entry<decltype(run)>, new decltype(run)(std::move(run)));
  }
  bool started() const { return started_; }
  bool IsCurrent() const { return started_ && pthread_equal(thread_, pthread_self()) != 0; }
  void Join() {
    if (started_) pthread_join(thread_, nullptr);
    started_ = false;
  }

 private:
  template <typename Run>
  static void* Entry(void* raw) {
    std::unique_ptr<Run> run(static_cast<Run*>(raw));
    (*run)();
    return nullptr;
  }
  bool StartRaw(const char* name, void* (*entry)(void*), void* argument);

  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace farcall
