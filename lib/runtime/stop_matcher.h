// SPDX-License-Identifier: Apache-2.0
//
// StopMatcher: finds stop strings in a stream of text that arrives in pieces. It holds back exactly
// the longest end of the text that could still begin a stop string, so nothing of a stop string is
// ever shown and nothing else is late.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

class StopMatcher {
 public:
  StopMatcher() = default;
  // Stop strings are not empty. Throws std::bad_alloc; everything that push() needs for pieces of
  // up to kUsualPieceBytes is reserved here.
  explicit StopMatcher(std::span<const std::string> stop_strings);

  static constexpr size_t kUsualPieceBytes = 512;

  // Takes the next piece and appends to `text` what can be shown now. True when a stop string is
  // complete: `text` then ends where the stop string begins, and the rest of the piece is dropped.
  // The match that ends first wins; of several that end at the same byte, the longest. May throw
  // std::bad_alloc while strings grow.
  bool push(std::string_view piece, std::string *text);
  // Appends what is held back and forgets it. The stream is at its start again.
  void flush(std::string *text);

  size_t held_bytes() const noexcept { return held_.size(); }

 private:
  struct Pattern {
    std::string text;
    // Of each start of the text by its length: how long is its longest proper end that is a start
    // too.
    std::vector<uint32_t> fallback;
    uint32_t n_matched = 0;  // how much of the text the stream ends in now
  };
  static void advance(Pattern *pattern, char byte) noexcept;
  void restart() noexcept;

  std::vector<Pattern> patterns_;
  std::string held_;
};

}  // namespace colibri
