// SPDX-License-Identifier: Apache-2.0
//
// The two lines of the roof, measured on a team of threads.

#include "cpu/roofline.h"

#include <algorithm>
#include <cstring>

#include "cpu/kernel_registry.h"
#include "lib/base/buffer.h"
#include "lib/base/system.h"

namespace colibri::cpu {
namespace {

constexpr double kPeakSeconds = 0.02;
// About 10 microseconds: long beside a look at the clock.
constexpr uint64_t kRoundsPerLook = 4096;
constexpr uint32_t kReadPasses = 3;

// Units of all members before `member`.
uint64_t first_unit(uint64_t n_units, uint32_t member, uint32_t n_members) noexcept {
  return n_units / n_members * member + std::min<uint64_t>(member, n_units % n_members);
}

}  // namespace

const PeakKernel &peak_kernel(const KernelSet &kernels, const WeightLayout &layout) noexcept {
  // MXFP4 is multiplied as INT4, behind one table look-up more.
  if (layout.format == WeightFormat::kInt4 || layout.format == WeightFormat::kMxFp4) {
    return kernels.int4_peak;
  }
  return layout.format == WeightFormat::kInt8 ? kernels.int8_peak : kernels.float_peak;
}

double measure_peak(const ThreadTeam &team, const PeakKernel &peak) noexcept {
  return team.measure_rate(kPeakSeconds, [&](uint32_t) { return peak.run(kRoundsPerLook); });
}

double measure_read_rate(const ThreadTeam &team, const KernelSet &kernels, const uint8_t *data,
                         uint64_t n_bytes) noexcept {
  const uint64_t n_units = n_bytes / kReadUnitBytes;
  double best = 0;
  for (const ReadFn read : kernels.reads) {
    const double seconds = team.run([&](uint32_t member) {
      const uint64_t first = first_unit(n_units, member, team.size());
      const uint64_t last = first_unit(n_units, member + 1, team.size());
      const uint64_t sum =
          read(data + first * kReadUnitBytes, static_cast<size_t>((last - first) * kReadUnitBytes));
      // The sum is needed by nobody, but the compiler must not know.
      volatile uint64_t sink = sum;
      static_cast<void>(sink);
    });
    best = std::max(best, static_cast<double>(n_units * kReadUnitBytes) / seconds);
  }
  return best;
}

double measure_read_bandwidth(ThreadPool &threads, uint64_t memory_bytes) {
  require_memory(memory_bytes);
  const ThreadTeam team(threads);
  Buffer memory(memory_bytes, "memory to read");
  memory.ask_for_huge_pages();  // as the weights of a model do
  const uint64_t n_units = memory_bytes / kReadUnitBytes;
  team.run([&](uint32_t member) {
    const uint64_t first = first_unit(n_units, member, team.size());
    const uint64_t last = first_unit(n_units, member + 1, team.size());
    // Pages that were never written are all the same page of zeros.
    std::memset(memory.data() + first * kReadUnitBytes, 0x5A, (last - first) * kReadUnitBytes);
  });
  const KernelSet &kernels = *choose_kernel_row("").set;
  double best = 0;
  for (uint32_t pass = 0; pass < kReadPasses; ++pass) {
    best = std::max(best, measure_read_rate(team, kernels, memory.data(), memory_bytes));
  }
  return best * 1e-9;
}

void require_memory(uint64_t n_bytes) {
  const MemoryLimit limit = probe_memory_limit("");
  if (limit.total_bytes == 0 || n_bytes <= limit.available_bytes) return;
  throw_error(StatusCode::kMemory,
              "the measurement needs %llu bytes of memory and %llu are free (%s); measure smaller "
              "matrices, fewer rows or less memory",
              static_cast<unsigned long long>(n_bytes),
              static_cast<unsigned long long>(limit.available_bytes), limit.decided_by.c_str());
}

}  // namespace colibri::cpu
