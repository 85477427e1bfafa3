// SPDX-License-Identifier: Apache-2.0
//
// Every way to cut a text into pieces gives the same text, and at each moment no byte too many is
// held back.

#include "lib/runtime/stop_matcher.h"

#include "tests/support/catch.h"

using colibri::StopMatcher;

namespace {

struct Outcome {
  std::string text;
  bool is_matched = false;
};

// Pushes pieces that end where `cuts` has a set bit, then flushes unless a stop string was met.
Outcome run(const std::vector<std::string> &stops, const std::string &text, uint64_t cuts) {
  StopMatcher matcher(stops);
  Outcome outcome;
  size_t first = 0;
  for (size_t i = 1; i <= text.size() && !outcome.is_matched; ++i) {
    if (i != text.size() && ((cuts >> i) & 1) == 0) continue;
    outcome.is_matched = matcher.push(text.substr(first, i - first), &outcome.text);
    first = i;
  }
  if (!outcome.is_matched) matcher.flush(&outcome.text);
  return outcome;
}

// The definition: the match that ends first, the longest of those.
Outcome find_plainly(const std::vector<std::string> &stops, const std::string &text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string &stop : stops) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest != 0) return {text.substr(0, end - longest), true};
  }
  return {text, false};
}

size_t find_longest_beginning(const std::vector<std::string> &stops, const std::string &text) {
  for (size_t length = text.size(); length > 0; --length) {
    for (const std::string &stop : stops) {
      if (stop.compare(0, length, text, text.size() - length, length) == 0 &&
          length < stop.size()) {
        return length;
      }
    }
  }
  return 0;
}

}  // namespace

TEST_CASE("a stop string is found however the text is cut into pieces") {
  const std::vector<std::vector<std::string>> sets = {
      {"aab"}, {"abab", "ba"}, {"aaa"}, {"abcabd", "bca"}, {"b"}, {"zz"}, {"abca", "ca", "a b"}};
  const std::vector<std::string> texts = {"aaaab", "abcabcabd", "aabaab", "xabab",
                                          "",      "a ba",      "cc"};
  for (const auto &stops : sets) {
    for (const std::string &text : texts) {
      const Outcome expected = find_plainly(stops, text);
      for (uint64_t cuts = 0; cuts < 1024; cuts += 2) {
        const Outcome outcome = run(stops, text, cuts);
        CAPTURE(stops, text, cuts);
        REQUIRE(outcome.text == expected.text);
        REQUIRE(outcome.is_matched == expected.is_matched);
      }
    }
  }
}

TEST_CASE("stop strings that overlap themselves and each other are found in any text") {
  uint64_t state = 7;
  const auto draw = [&state](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  const auto write = [&draw](size_t length) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text += "ab"[draw(2)];
    return text;
  };
  size_t n_matched = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops;
    for (uint64_t n = draw(3); stops.size() <= n;) stops.push_back(write(1 + draw(9)));
    const std::string text = write(40);
    const Outcome expected = find_plainly(stops, text);
    const Outcome outcome = run(stops, text, draw(uint64_t{1} << 31) << 9);
    CAPTURE(stops, text);
    REQUIRE(outcome.text == expected.text);
    REQUIRE(outcome.is_matched == expected.is_matched);
    n_matched += expected.is_matched ? 1 : 0;
  }
  CHECK(n_matched > 1000);
}

TEST_CASE("exactly the longest end that could begin a stop string is held back") {
  const std::vector<std::string> stops = {"abcab", "cabx", "bb", "aabaaa"};
  uint64_t state = 1;
  for (int round = 0; round < 300; ++round) {
    StopMatcher matcher(stops);
    std::string sent;
    std::string shown;
    for (int i = 0; i < 20; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const std::string piece(1, "abcx"[state >> 62]);
      sent += piece;
      if (matcher.push(piece, &shown)) break;
      const size_t n_held = find_longest_beginning(stops, sent);
      REQUIRE(matcher.held_bytes() == n_held);
      REQUIRE(shown == sent.substr(0, sent.size() - n_held));
    }
  }
}

TEST_CASE("the end of a request gives out what was held back") {
  StopMatcher matcher(std::vector<std::string>{"<end>"});
  std::string text;
  REQUIRE_FALSE(matcher.push("so <en", &text));
  CHECK(text == "so ");
  matcher.flush(&text);
  CHECK(text == "so <en");
  // And the stream is at its start again: the rest of the string alone is no match.
  REQUIRE_FALSE(matcher.push("d>", &text));
  CHECK(text == "so <end>");
}

TEST_CASE("text behind a stop string in the same piece is dropped") {
  StopMatcher matcher(std::vector<std::string>{"STOP"});
  std::string text = "kept ";
  CHECK(matcher.push("one STOP two", &text));
  CHECK(text == "kept one ");
  CHECK(matcher.held_bytes() == 0);
}

TEST_CASE("without stop strings nothing is held back") {
  StopMatcher matcher;
  std::string text;
  CHECK_FALSE(matcher.push("anything", &text));
  CHECK(text == "anything");
}
