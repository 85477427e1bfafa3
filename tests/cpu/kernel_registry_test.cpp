// SPDX-License-Identifier: Apache-2.0
//
// The choice of a kernel set by CPU and by name.

#include "cpu/kernel_registry.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "cpu/cpu_features.h"
#include "lib/base/status.h"
#include "tests/cpu/kernel_cases.h"
#include "tests/support/catch.h"

using namespace colibri;
using colibri::cpu::choose_kernel_row;
using colibri::cpu::kernel_rows;

namespace {

bool can_run(const std::string &name) {
  const std::vector<cpu::KernelRow> rows = test::runnable_rows();
  return std::any_of(rows.begin(), rows.end(),
                     [&](const cpu::KernelRow &row) { return row.name == name; });
}

}  // namespace

TEST_CASE("without a name the first set that the CPU can run is chosen") {
  REQUIRE(choose_kernel_row("").name == std::string(test::runnable_rows().front().name));
}

TEST_CASE("a set whose features the operating system lists is found") {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line) && line.rfind("flags", 0) != 0) {
  }
  if (line.empty()) {
    WARN("skipped: /proc/cpuinfo lists no flags here");
    return;
  }
  line += ' ';
  const auto lists = [&](const std::vector<std::string> &flags) {
    return std::all_of(flags.begin(), flags.end(), [&](const std::string &flag) {
      return line.find(" " + flag + " ") != std::string::npos;
    });
  };
  if (lists({"avx2", "fma", "f16c"})) CHECK(choose_kernel_row("avx2").set != nullptr);
  if (lists({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"})) {
    CHECK(choose_kernel_row("").name == std::string("avx512"));
  }
}

TEST_CASE("a forced name runs that set") {
  ThreadPool threads(1);
  for (const cpu::KernelRow &row : test::runnable_rows()) {
    REQUIRE(choose_kernel_row(row.name).name == std::string(row.name));
    REQUIRE(cpu::make_cpu_backend(threads, row.name)->kernel_set_name() == std::string(row.name));
  }
}

TEST_CASE("of the rows of one name the first whose features and habits are all here is chosen") {
  const uint32_t features = cpu::detect_cpu_features();
  for (const cpu::KernelRow &row : test::runnable_rows()) {
    const auto rows = kernel_rows();
    const auto first = std::find_if(rows.begin(), rows.end(), [&](const cpu::KernelRow &other) {
      return std::string(other.name) == row.name && (other.needed_features & ~features) == 0;
    });
    REQUIRE(first != rows.end());
    REQUIRE(choose_kernel_row(row.name).set == first->set);
  }
}

TEST_CASE("an unknown name fails and lists the known ones") {
  for (const char *name : {"avx", "AVX2", "avx5122", " "}) {
    try {
      choose_kernel_row(name);
      FAIL("no error for " << name);
    } catch (const Error &error) {
      REQUIRE(error.status().code() == StatusCode::kArgument);
      const std::string text = error.what();
      REQUIRE(text.find(name) != std::string::npos);
      for (const cpu::KernelRow &row : kernel_rows()) {
        REQUIRE(text.find(row.name) != std::string::npos);
      }
    }
  }
}

TEST_CASE("a set that the CPU cannot run is refused with the missing features") {
  const uint32_t features = cpu::detect_cpu_features();
  for (const cpu::KernelRow &row : kernel_rows()) {
    const uint32_t missing = row.needed_features & ~features;
    if (missing == 0 || can_run(row.name)) continue;
    WARN("this CPU cannot run the kernel set " << row.name << ": it lacks "
                                               << cpu::describe_cpu_features(missing));
    try {
      choose_kernel_row(row.name);
      FAIL("no error for " << row.name);
    } catch (const Error &error) {
      REQUIRE(error.status().code() == StatusCode::kUnsupported);
      REQUIRE(std::string(error.what()).find(cpu::describe_cpu_features(missing)) !=
              std::string::npos);
    }
  }
}

TEST_CASE("the reference needs nothing and comes last") {
  REQUIRE(kernel_rows().back().name == std::string("ref"));
  REQUIRE(kernel_rows().back().needed_features == 0);
}

TEST_CASE("features are described by name") {
  REQUIRE(cpu::describe_cpu_features(0) == "none");
  REQUIRE(cpu::describe_cpu_features(cpu::kFeatureAvx2 | cpu::kFeatureAvx512Vnni) ==
          "avx2 avx512vnni");
}
