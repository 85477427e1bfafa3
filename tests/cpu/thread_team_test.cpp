// SPDX-License-Identifier: Apache-2.0
//
// One task per thread, all at the same time.

#include "cpu/thread_team.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using namespace colibri;
using cpu::ThreadTeam;

TEST_CASE("a team has at least the caller and at most the threads of its pool") {
  ThreadPool one(1);
  CHECK(ThreadTeam(one).size() == 1);
  ThreadPool many(64);
  const ThreadTeam team(many);
  CHECK(team.size() >= 1);
  CHECK(team.size() <= 64);
}

TEST_CASE("every member works once, each on a thread of its own") {
  ThreadPool threads(2);
  const ThreadTeam team(threads);
  std::vector<std::atomic<int>> n_calls(team.size());
  std::vector<std::thread::id> ids(team.size());
  for (int round = 0; round < 20; ++round) {
    team.run([&](uint32_t member) {
      ++n_calls[member];
      ids[member] = std::this_thread::get_id();
    });
    for (uint32_t a = 0; a < team.size(); ++a) {
      CHECK(n_calls[a] == round + 1);
      for (uint32_t b = 0; b < a; ++b) CHECK(ids[a] != ids[b]);
    }
  }
}

TEST_CASE("the time of a run is that of its slowest member") {
  ThreadPool threads(2);
  const ThreadTeam team(threads);
  const double seconds = team.run([&](uint32_t member) {
    if (member == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  CHECK(seconds >= 0.02);
}

TEST_CASE("a rate is what all members did over the time it took") {
  ThreadPool threads(1);
  const ThreadTeam team(threads);
  const double rate = team.measure_rate(0.03, [](uint32_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return uint64_t{5};
  });
  CHECK(rate > 0);
  CHECK(rate <= 500);
}
