// SPDX-License-Identifier: Apache-2.0
//
// Terminal over POSIX: isatty, sigaction, and escape sequences that every terminal of this century
// knows.

#include "examples/colibri/terminal.h"

#include <csignal>
#include <cstdio>
#include <stdexcept>

#include <unistd.h>

namespace colibri::command {
namespace {

volatile std::sig_atomic_t interrupt_flag = 0;

extern "C" void remember_interrupt(int) {
  interrupt_flag = 1;
}

extern "C" void end_process(int) {
  _exit(kExitInterrupted);
}

}  // namespace

bool is_stdin_terminal() noexcept {
  return isatty(STDIN_FILENO) == 1;
}
bool is_stdout_terminal() noexcept {
  return isatty(STDOUT_FILENO) == 1;
}
bool is_stderr_terminal() noexcept {
  return isatty(STDERR_FILENO) == 1;
}

void catch_interrupts() noexcept {
  struct sigaction action = {};
  action.sa_handler = remember_interrupt;
  // RESETHAND: the second Ctrl-C ends the process. No SA_RESTART: a read from the keyboard returns.
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

bool is_interrupted() noexcept {
  return interrupt_flag != 0;
}

void reset_interrupt() noexcept {
  interrupt_flag = 0;
  catch_interrupts();
}

void end_on_interrupt() noexcept {
  struct sigaction action = {};
  action.sa_handler = end_process;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
}

ProgressLine::ProgressLine()
    : is_enabled_(is_stderr_terminal()), next_(Clock::now() + std::chrono::milliseconds(300)) {}

ProgressLine::~ProgressLine() {
  clear();
}

void ProgressLine::show(std::string_view text) {
  if (!is_enabled_ || Clock::now() < next_) return;
  next_ = Clock::now() + std::chrono::milliseconds(100);
  std::fprintf(stderr, "\r\033[K%.*s", static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
  is_drawn_ = true;
}

void ProgressLine::clear() {
  if (!is_drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  is_drawn_ = false;
}

std::string format_bytes(uint64_t bytes) {
  static constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value, kUnits[unit]);
  return text;
}

void print(std::string_view text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (std::fflush(stdout) != 0 || !is_written) {
    throw std::runtime_error("standard output cannot be written; is the disk full?");
  }
}

void print_error(std::string_view line) {
  std::string text = "colibri: " + std::string(line);
  for (char &c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  std::fprintf(stderr, "%s\n", text.c_str());
}

void print_note(std::string_view line) {
  if (!is_stderr_terminal()) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
}

std::string_view bold() noexcept {
  return is_stdout_terminal() ? "\033[1m" : "";
}
std::string_view dim() noexcept {
  return is_stdout_terminal() ? "\033[2m" : "";
}
std::string_view plain() noexcept {
  return is_stdout_terminal() ? "\033[0m" : "";
}

}  // namespace colibri::command
