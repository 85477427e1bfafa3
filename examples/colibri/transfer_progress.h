// SPDX-License-Identifier: Apache-2.0
//
// The progress line of a call that moves many bytes: how many, how fast, how long still. Ctrl-C
// stops the call.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "examples/colibri/terminal.h"

namespace colibri::command {

class TransferProgress {
 public:
  // "converting", "checking".
  explicit TransferProgress(std::string verb) : verb_(std::move(verb)) {}

  // Begins a phase with bytes and a rate of its own, unless `verb` is in progress already.
  void begin(const char *verb);
  // What was there from the start does not count for the rate.
  void show(uint64_t done_bytes, uint64_t total_bytes);

 private:
  using Clock = std::chrono::steady_clock;

  std::string verb_;
  ProgressLine line_;
  bool has_begun_ = false;
  uint64_t first_bytes_ = 0;
  Clock::time_point begin_;
};

// The library's progress callback: shows the bytes and says whether Ctrl-C wants a stop. `user` is a
// TransferProgress.
int32_t show_transfer(void *user, uint64_t done_bytes, uint64_t total_bytes);

// "1:05:09" or "5:09".
std::string format_duration(double seconds);
// "[########............]"
std::string draw_bar(uint64_t done_bytes, uint64_t total_bytes);

}  // namespace colibri::command
