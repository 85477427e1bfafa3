// SPDX-License-Identifier: Apache-2.0
//
// The terminal: is there one, the progress line on it, Ctrl-C. Progress is shown on stderr and only
// if that is a terminal, so that output files and logs stay clean.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace colibri::command {

bool is_stdin_terminal() noexcept;
bool is_stdout_terminal() noexcept;
bool is_stderr_terminal() noexcept;

// From now on the first Ctrl-C only sets a flag; a second one ends the process as usual.
void catch_interrupts() noexcept;
bool is_interrupted() noexcept;
// Thrown where Ctrl-C ends something that has no result yet; the command then ends with 130.
struct Interrupted {};
// Forgets an interrupt that was handled and arms the flag again.
void reset_interrupt() noexcept;

// Exit code after Ctrl-C, as shells expect it.
constexpr int kExitInterrupted = 130;

// From now on Ctrl-C ends the process at once, with that code: for long calls that look at no flag
// and leave nothing behind.
void end_on_interrupt() noexcept;

// A line that is drawn over and over, at most ten times a second and not before 0.3 s have passed;
// gone at the end.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine &) = delete;
  ProgressLine &operator=(const ProgressLine &) = delete;

  void show(std::string_view text);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  bool is_enabled_;
  bool is_drawn_ = false;
  Clock::time_point next_;
};

// "7.5 MiB", "812 B".
std::string format_bytes(uint64_t bytes);

// Writes all of `text` to stdout now. Throws std::runtime_error if that fails (full disk, closed
// pipe).
void print(std::string_view text);
// One line to stderr, line feeds replaced.
void print_error(std::string_view line);
// One line to stderr if that is a terminal.
void print_note(std::string_view line);

// Escape sequences, empty unless stdout is a terminal.
std::string_view bold() noexcept;
std::string_view dim() noexcept;
std::string_view plain() noexcept;

}  // namespace colibri::command
