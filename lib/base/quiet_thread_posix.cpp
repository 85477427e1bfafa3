// SPDX-License-Identifier: Apache-2.0
//
// A new thread inherits the signal mask of its maker, so the mask is set around the start and put
// back: blocking inside the new thread would leave a moment in which a handler of the host could
// run there.

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

#include "lib/base/quiet_thread.h"
#include "lib/base/status.h"

namespace colibri {
namespace {

class ScopedSignalBlock {
 public:
  ScopedSignalBlock() noexcept {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &saved_);
  }
  ~ScopedSignalBlock() { pthread_sigmask(SIG_SETMASK, &saved_, nullptr); }
  ScopedSignalBlock(const ScopedSignalBlock &) = delete;
  ScopedSignalBlock &operator=(const ScopedSignalBlock &) = delete;

 private:
  sigset_t saved_;
};

}  // namespace

std::thread start_quiet_thread(const char *name, std::function<void()> body) {
  const ScopedSignalBlock block;
  try {
    std::thread thread(std::move(body));
#if defined(__linux__)
    pthread_setname_np(thread.native_handle(), name);
#else
    static_cast<void>(name);
#endif
    return thread;
  } catch (const std::system_error &failure) {
    throw_error(StatusCode::kMemory, "thread %s cannot be started: %s; ask for fewer threads", name,
                failure.what());
  }
}

}  // namespace colibri
