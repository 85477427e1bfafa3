// SPDX-License-Identifier: Apache-2.0
//
// Reading and multiply-adds of every set that this CPU can run. How fast they are is not asserted.

#include "cpu/roofline.h"

#include <cstring>
#include <string>

#include "lib/base/status.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;

TEST_CASE("every way to read touches every word once and nothing else") {
  std::mt19937_64 random(7);
  for (const size_t n_units : {1, 2, 3, 17}) {
    test::GuardedArray<uint64_t> words(n_units * cpu::kReadUnitBytes / sizeof(uint64_t));
    uint64_t expected = 0;
    for (uint64_t &word : words) expected ^= word = random();
    for (const cpu::KernelRow &row : test::runnable_rows()) {
      INFO(row.name << " " << n_units);
      for (const cpu::ReadFn read : row.set->reads) {
        REQUIRE(read(reinterpret_cast<const uint8_t *>(words.data()),
                     words.size() * sizeof(uint64_t)) == expected);
      }
    }
  }
}

TEST_CASE("multiply-adds of a peak loop are counted by its rounds") {
  for (const cpu::KernelRow &row : test::runnable_rows()) {
    for (const cpu::PeakKernel &peak :
         {row.set->int4_peak, row.set->int8_peak, row.set->float_peak}) {
      INFO(row.name << " " << peak.instruction);
      CHECK(peak.run(0) == 0);
      const uint64_t per_round = peak.run(1);
      CHECK(per_round > 0);
      CHECK(peak.run(1000) == 1000 * per_round);
      // Fits the public struct.
      CHECK(std::strlen(peak.instruction) < 32);
    }
  }
}

TEST_CASE("more rounds of a peak loop take longer: nothing was optimised away") {
  ThreadPool threads(1);
  const cpu::ThreadTeam team(threads);
  for (const cpu::KernelRow &row : test::runnable_rows()) {
    for (const cpu::PeakKernel &peak :
         {row.set->int4_peak, row.set->int8_peak, row.set->float_peak}) {
      INFO(row.name << " " << peak.instruction);
      // A million rounds of at least two dependent cycles cannot be over in 50 microseconds.
      const double seconds = team.run([&](uint32_t) { peak.run(1000000); });
      CHECK(seconds > 50e-6);
    }
  }
}

TEST_CASE("the peak of a matrix is that of its format") {
  const cpu::KernelSet &kernels = cpu::kKernelSetRef;
  WeightLayout layout;
  layout.format = WeightFormat::kInt4;
  CHECK(&cpu::peak_kernel(kernels, layout) == &kernels.int4_peak);
  layout.format = WeightFormat::kInt8;
  CHECK(&cpu::peak_kernel(kernels, layout) == &kernels.int8_peak);
  layout.format = WeightFormat::kBF16;
  CHECK(&cpu::peak_kernel(kernels, layout) == &kernels.float_peak);
}

TEST_CASE("bandwidth and peak are positive with any number of threads") {
  for (const uint32_t n_threads : {1u, 2u, 5u}) {
    ThreadPool threads(n_threads);
    CHECK(cpu::measure_read_bandwidth(threads, 1 << 20) > 0);
    const cpu::ThreadTeam team(threads);
    CHECK(cpu::measure_peak(team, cpu::kKernelSetRef.int8_peak) > 0);
  }
}

TEST_CASE("memory that the machine does not have is refused before it is taken") {
  CHECK_THROWS_AS(cpu::require_memory(uint64_t{1} << 60), Error);
  CHECK_NOTHROW(cpu::require_memory(4096));
}
