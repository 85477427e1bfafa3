// SPDX-License-Identifier: Apache-2.0

#include "examples/colibri/transfer_progress.h"

#include <algorithm>
#include <cstdio>

namespace colibri::command {

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e7;  // four months: nobody needs more digits
  const auto whole = static_cast<unsigned>(std::clamp(seconds + 0.5, 0.0, kLongest));
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof text, "%u:%02u:%02u", whole / 3600, whole / 60 % 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%u:%02u", whole / 60, whole % 60);
  }
  return text;
}

std::string draw_bar(uint64_t done_bytes, uint64_t total_bytes) {
  constexpr uint64_t kWidth = 20;
  const double share =
      total_bytes == 0 ? 1.0 : static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  const auto n_full = std::min<uint64_t>(kWidth, static_cast<uint64_t>(share * kWidth));
  return "[" + std::string(n_full, '#') + std::string(kWidth - n_full, '.') + "]";
}

void TransferProgress::begin(const char *verb) {
  if (verb_ == verb) return;
  verb_ = verb;
  has_begun_ = false;
}

void TransferProgress::show(uint64_t done_bytes, uint64_t total_bytes) {
  const Clock::time_point now = Clock::now();
  if (!has_begun_) {
    has_begun_ = true;
    first_bytes_ = done_bytes;
    begin_ = now;
  }
  std::string text = verb_ + " " + draw_bar(done_bytes, total_bytes) + " " +
                     format_bytes(done_bytes) + " of " + format_bytes(total_bytes);
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  const auto moved = static_cast<double>(done_bytes - first_bytes_);
  if (seconds > 0.2 && moved > 0) {
    const double rate = moved / seconds;
    char tail[48];
    std::snprintf(tail, sizeof tail, ", %.0f MB/s, ", rate / 1e6);
    text += tail;
    text += format_duration(static_cast<double>(total_bytes - done_bytes) / rate) + " left";
  }
  line_.show(text);
}

int32_t show_transfer(void *user, uint64_t done_bytes, uint64_t total_bytes) {
  static_cast<TransferProgress *>(user)->show(done_bytes, total_bytes);
  return is_interrupted() ? 1 : 0;
}

}  // namespace colibri::command
