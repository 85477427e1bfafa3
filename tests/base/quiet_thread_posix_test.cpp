// SPDX-License-Identifier: Apache-2.0

#include <pthread.h>
#include <signal.h>

#include "lib/base/quiet_thread.h"
#include "tests/support/catch.h"

TEST_CASE("no signal handler of the host can run on a quiet thread") {
  sigset_t before;
  sigset_t after;
  sigset_t inside;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  std::thread thread = colibri::start_quiet_thread(
      "colibri-test", [&inside] { pthread_sigmask(SIG_SETMASK, nullptr, &inside); });
  thread.join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPIPE}) {
    INFO("signal " << signal);
    REQUIRE(sigismember(&inside, signal) == 1);
    REQUIRE(sigismember(&after, signal) == sigismember(&before, signal));
  }
}
