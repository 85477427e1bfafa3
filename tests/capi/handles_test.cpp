// SPDX-License-Identifier: Apache-2.0
//
// Tests of lib/capi/handles.h: which uses of one handle may run side by side.

#include "lib/capi/handles.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

using namespace colibri;

namespace {

constexpr UseMode kModes[] = {UseMode::kVisit, UseMode::kRead, UseMode::kWrite, UseMode::kClose};

bool fits(UseMode running, UseMode wanted) {
  Gate gate;
  REQUIRE(gate.enter(running));
  const bool is_entered = gate.enter(wanted);
  if (is_entered) gate.leave(wanted);
  gate.leave(running);
  // Whatever happened, the gate is free again.
  REQUIRE(gate.enter(UseMode::kClose));
  gate.leave(UseMode::kClose);
  return is_entered;
}

struct TestHandle : Handle {
  static constexpr HandleType kType = HandleType::kBatch;
  TestHandle() : Handle(kType) {}
};

}  // namespace

TEST_CASE("a gate lets in what fits and nothing else") {
  const bool expected[4][4] = {
      // wanted: visit, read, write, close
      {true, true, true, false},    // beside a visit
      {true, true, false, false},   // beside a read
      {true, false, false, false},  // beside a write
      {false, false, false, false}  // beside a close
  };
  for (size_t running = 0; running < 4; ++running) {
    for (size_t wanted = 0; wanted < 4; ++wanted) {
      CAPTURE(running, wanted);
      CHECK(fits(kModes[running], kModes[wanted]) == expected[running][wanted]);
    }
  }
}

TEST_CASE("many reads and visits count, and the last one opens the gate") {
  Gate gate;
  for (int i = 0; i < 1000; ++i) {
    REQUIRE(gate.enter(UseMode::kRead));
    REQUIRE(gate.enter(UseMode::kVisit));
  }
  for (int i = 0; i < 1000; ++i) {
    CHECK(!gate.enter(UseMode::kWrite));
    gate.leave(UseMode::kRead);
  }
  CHECK(gate.enter(UseMode::kWrite));
  gate.leave(UseMode::kWrite);
  CHECK(!gate.enter(UseMode::kClose));
  for (int i = 0; i < 1000; ++i) gate.leave(UseMode::kVisit);
  CHECK(gate.enter(UseMode::kClose));
}

TEST_CASE("never two writers at once, from four threads") {
  Gate gate;
  std::atomic<int> n_inside{0};
  std::atomic<int> n_violations{0};
  int plain = 0;  // guarded by the gate; a race here is what ThreadSanitizer would see
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20000; ++round) {
        if (!gate.enter(UseMode::kWrite)) continue;
        n_violations += ++n_inside == 1 ? 0 : 1;
        ++plain;
        --n_inside;
        gate.leave(UseMode::kWrite);
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  CHECK(n_violations == 0);
  CHECK(plain > 0);
}

TEST_CASE("a handle is known by its type and forgotten when it ends") {
  alignas(TestHandle) unsigned char memory[sizeof(TestHandle)] = {};
  CHECK(!Handle::has_type(memory, HandleType::kBatch));
  TestHandle *handle = new (memory) TestHandle;
  CHECK(Handle::has_type(handle, HandleType::kBatch));
  CHECK(!Handle::has_type(handle, HandleType::kModel));
  CHECK(!Handle::has_type(nullptr, HandleType::kBatch));
  CHECK(!Handle::has_type(memory + 1, HandleType::kBatch));
  handle->~TestHandle();
}

TEST_CASE("a use throws for a wrong handle and for a busy one, and leaves at its end") {
  TestHandle handle;
  const auto code_of = [](auto call) {
    try {
      call();
      return StatusCode::kOk;
    } catch (const Error &error) {
      return error.status().code();
    }
  };
  CHECK(code_of([] { Write<TestHandle> use(nullptr, "x"); }) == StatusCode::kHandle);
  {
    const Write<TestHandle> use(&handle, "x");
    CHECK(code_of([&] { Write<TestHandle> second(&handle, "x"); }) == StatusCode::kBusy);
    CHECK(code_of([&] { Read<const TestHandle> second(&handle, "x"); }) == StatusCode::kBusy);
    CHECK(code_of([&] { Visit<TestHandle> second(&handle, "x"); }) == StatusCode::kOk);
  }
  CHECK(code_of([&] { Close<TestHandle> use(&handle, "x"); }) == StatusCode::kOk);
}

TEST_CASE("a handle that is taken to be destroyed keeps its gate closed") {
  TestHandle *handle = new TestHandle;
  Close<TestHandle> use(handle, "x");
  const std::unique_ptr<TestHandle> owned = use.take();
  CHECK(owned.get() == handle);
  CHECK(!handle->gate().enter(UseMode::kVisit));
}
