// SPDX-License-Identifier: Apache-2.0

#include "lib/runtime/event_queue.h"

#include "tests/support/catch.h"

using colibri::Event;
using colibri::EventQueue;

TEST_CASE("events come out in order whatever is taken when") {
  EventQueue queue(4);
  uint64_t pushed = 0;
  uint64_t taken = 0;
  for (size_t round = 1; round < 200; ++round) {
    REQUIRE(queue.reserve(round % 7));
    for (size_t i = 0; i < round % 7; ++i) {
      Event &event = queue.push();
      event.request = ++pushed;
      event.text = std::to_string(pushed);
    }
    for (const Event &event : queue.take(round % 5)) {
      REQUIRE(event.request == ++taken);
      REQUIRE(event.text == std::to_string(taken));
    }
    REQUIRE(queue.size() == pushed - taken);
  }
}

TEST_CASE("a list handed out lives through later events until the next take") {
  EventQueue queue(2);
  queue.push().text = "short";
  queue.push().text = std::string(200, 'x');
  const std::span<const Event> list = queue.take(10);
  REQUIRE(list.size() == 2);
  REQUIRE(queue.reserve(100));
  for (int i = 0; i < 100; ++i) queue.push().text = "later";
  CHECK(list[0].text == "short");
  CHECK(list[1].text == std::string(200, 'x'));
}

TEST_CASE("a reused event keeps nothing of its former life but memory") {
  EventQueue queue(1);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(queue.reserve(1));
    Event &event = queue.push();
    CHECK(event.text.empty());
    CHECK(event.token == -1);
    CHECK(event.n_generated == 0);
    event.text = "some text";
    event.token = 5;
    event.n_generated = 7;
    queue.take(1);
  }
}
