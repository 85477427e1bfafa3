// SPDX-License-Identifier: Apache-2.0
//
// One control word per thread: MXCSR on x86-64, FPCR on AArch64. On another processor the scope
// changes nothing, and the bits contract then relies on the host's default mode.

#include "lib/base/float_mode.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace colibri {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kDefaultMode =
    0x1F80;  // round to nearest, all exceptions masked, no FTZ, no DAZ
uint32_t read_mode() noexcept {
  return _mm_getcsr();
}
void write_mode(uint32_t mode) noexcept {
  _mm_setcsr(mode);
}
#elif defined(__aarch64__)
constexpr uint32_t kDefaultMode = 0;  // round to nearest, no traps, no flush to zero
uint32_t read_mode() noexcept {
  uint64_t mode = 0;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return static_cast<uint32_t>(mode);
}
void write_mode(uint32_t mode) noexcept {
  asm volatile("msr fpcr, %0" : : "r"(static_cast<uint64_t>(mode)));
}
#else
constexpr uint32_t kDefaultMode = 0;
uint32_t read_mode() noexcept {
  return kDefaultMode;
}
void write_mode(uint32_t) noexcept {}
#endif

}  // namespace

ScopedFloatMode::ScopedFloatMode() noexcept : saved_(read_mode()) {
  if (saved_ != kDefaultMode) write_mode(kDefaultMode);
}

// Restores also the sticky exception flags, so a host that reads them sees only its own operations.
ScopedFloatMode::~ScopedFloatMode() {
  write_mode(saved_);
}

}  // namespace colibri
