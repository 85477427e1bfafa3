// SPDX-License-Identifier: Apache-2.0
//
// Machines and containers as fixture folders: the least limit decides, use counts without file
// cache, failed probes are told, cores are counted once and under the quota.

#include <string>
#include <thread>

#include "lib/base/system.h"
#include "tests/base/temporary_folder.h"
#include "tests/support/catch.h"

using namespace colibri;
using colibri::test::TemporaryFolder;

namespace {

constexpr uint64_t kGib = uint64_t{1} << 30;

void write_meminfo(const TemporaryFolder &root, uint64_t total, uint64_t available) {
  root.write("proc/meminfo", "MemTotal:       " + std::to_string(total / 1024) +
                                 " kB\nMemFree:        1 kB\nMemAvailable:   " +
                                 std::to_string(available / 1024) + " kB\n");
}

void write_v2(const TemporaryFolder &root, const std::string &group) {
  root.write("proc/self/cgroup", "0::" + group + "\n");
  root.write("proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
}

// `cpus` hardware threads, `siblings` to a core.
void write_topology(const TemporaryFolder &root, uint32_t cpus, uint32_t siblings) {
  for (uint32_t cpu = 0; cpu < cpus; ++cpu) {
    const uint32_t first = cpu / siblings * siblings;
    root.write(
        "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        std::to_string(first) + "-" + std::to_string(first + siblings - 1) + "\n");
  }
}

}  // namespace

TEST_CASE("without groups the host's available memory decides") {
  const TemporaryFolder root;
  write_meminfo(root, 16 * kGib, 9 * kGib);
  const MemoryLimit limit = probe_memory_limit(root.path());
  REQUIRE(limit.available_bytes == 9 * kGib);
  REQUIRE(limit.total_bytes == 16 * kGib);
  REQUIRE(limit.decided_by == "MemAvailable");
}

TEST_CASE("the tightest v2 limit of all ancestors decides, minus use without file cache") {
  const TemporaryFolder root;
  write_meminfo(root, 64 * kGib, 60 * kGib);
  write_v2(root, "/outer/inner");
  root.write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
  root.write("sys/fs/cgroup/outer/inner/memory.high", "max\n");
  root.write("sys/fs/cgroup/outer/memory.max", std::to_string(8 * kGib) + "\n");
  root.write("sys/fs/cgroup/outer/memory.current", std::to_string(7 * kGib) + "\n");
  root.write("sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file " +
                                                    std::to_string(3 * kGib) + "\nactive_file " +
                                                    std::to_string(2 * kGib) + "\n");
  const MemoryLimit limit = probe_memory_limit(root.path());
  REQUIRE(limit.available_bytes == 6 * kGib);  // 8 - (7 - 3 - 2)
  REQUIRE(limit.total_bytes == 8 * kGib);
  REQUIRE(limit.decided_by == "cgroup /outer memory.max");
}

TEST_CASE("a v2 soft limit below the hard limit decides") {
  const TemporaryFolder root;
  write_meminfo(root, 64 * kGib, 60 * kGib);
  write_v2(root, "/a");
  root.write("sys/fs/cgroup/a/memory.max", std::to_string(8 * kGib) + "\n");
  root.write("sys/fs/cgroup/a/memory.high", std::to_string(5 * kGib) + "\n");
  root.write("sys/fs/cgroup/a/memory.current", std::to_string(1 * kGib) + "\n");
  const MemoryLimit limit = probe_memory_limit(root.path());
  REQUIRE(limit.available_bytes == 4 * kGib);
  REQUIRE(limit.decided_by == "cgroup /a memory.high");
}

TEST_CASE("v1 limits in a container are read below the mount's root with hierarchical use") {
  const TemporaryFolder root;
  write_meminfo(root, 64 * kGib, 60 * kGib);
  root.write("proc/self/cgroup", "4:memory:/docker/abc\n");
  root.write("proc/self/mountinfo",
             "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  const std::string memory = "sys/fs/cgroup/memory/";
  root.write(memory + "memory.limit_in_bytes", std::to_string(4 * kGib) + "\n");
  root.write(memory + "memory.soft_limit_in_bytes", "9223372036854771712\n");
  root.write(memory + "memory.usage_in_bytes", std::to_string(2 * kGib) + "\n");
  root.write(memory + "memory.stat", "inactive_file 5\ntotal_inactive_file " +
                                         std::to_string(1 * kGib) + "\ntotal_active_file 0\n");
  const MemoryLimit hard = probe_memory_limit(root.path());
  REQUIRE(hard.available_bytes == 3 * kGib);
  REQUIRE(hard.total_bytes == 4 * kGib);
  REQUIRE(hard.decided_by == "cgroup / memory.limit_in_bytes");
  root.write(memory + "memory.soft_limit_in_bytes", std::to_string(3 * kGib) + "\n");
  const MemoryLimit soft = probe_memory_limit(root.path());
  REQUIRE(soft.available_bytes == 2 * kGib);
  REQUIRE(soft.decided_by == "cgroup / memory.soft_limit_in_bytes");
}

TEST_CASE("the host decides where it has less than the group allows") {
  const TemporaryFolder root;
  write_meminfo(root, 16 * kGib, 2 * kGib);
  write_v2(root, "/a");
  root.write("sys/fs/cgroup/a/memory.max", std::to_string(8 * kGib) + "\n");
  root.write("sys/fs/cgroup/a/memory.current", "0\n");
  REQUIRE(probe_memory_limit(root.path()).decided_by == "MemAvailable");
}

TEST_CASE("a group above its limit has nothing left, and lies in memory.stat do not wrap") {
  const TemporaryFolder root;
  write_meminfo(root, 16 * kGib, 8 * kGib);
  write_v2(root, "/a");
  root.write("sys/fs/cgroup/a/memory.max", std::to_string(2 * kGib) + "\n");
  root.write("sys/fs/cgroup/a/memory.current", std::to_string(3 * kGib) + "\n");
  const MemoryLimit full = probe_memory_limit(root.path());
  REQUIRE(full.available_bytes == 0);
  REQUIRE(full.decided_by == "cgroup /a memory.max");
  root.write("sys/fs/cgroup/a/memory.stat",
             "inactive_file 18446744073709551615\nactive_file 18446744073709551615\n");
  REQUIRE(probe_memory_limit(root.path()).available_bytes == 2 * kGib);
}

TEST_CASE("a failed or absurd probe is told and leaves the next one to decide") {
  const TemporaryFolder root;
  const MemoryLimit none = probe_memory_limit(root.path());
  REQUIRE(none.available_bytes == 0);
  REQUIRE(none.total_bytes == 0);
  REQUIRE(none.decided_by == "no probe succeeded");
  root.write("proc/meminfo", "MemTotal: 99999999999999999999999 kB\nMemAvailable: 5 kB\n");
  REQUIRE(probe_memory_limit(root.path()).decided_by == "no probe succeeded");
  root.write("proc/meminfo", "MemTotal: 0 kB\nMemAvailable: 0 kB\n");
  write_v2(root, "/a");
  root.write("sys/fs/cgroup/a/memory.max", std::to_string(2 * kGib) + "\n");
  const MemoryLimit group = probe_memory_limit(root.path());
  REQUIRE(group.available_bytes == 2 * kGib);
  REQUIRE(group.total_bytes == 2 * kGib);
}

TEST_CASE("an old kernel without MemAvailable is asked for free memory") {
  const TemporaryFolder root;
  root.write("proc/meminfo", "MemTotal: 4096 kB\nMemFree: 1024 kB\n");
  const MemoryLimit limit = probe_memory_limit(root.path());
  REQUIRE(limit.available_bytes == 1 << 20);
  REQUIRE(limit.decided_by == "MemFree");
}

TEST_CASE("the machine that runs this test has some memory and at least one core") {
  const MemoryLimit limit = probe_memory_limit("");
  REQUIRE(limit.available_bytes > 0);
  REQUIRE(limit.available_bytes <= limit.total_bytes);
  REQUIRE(probe_core_count("") >= 1);
  REQUIRE(probe_core_count("") <= std::thread::hardware_concurrency());
}

TEST_CASE("hardware threads of one core count once, and only those that are allowed") {
  const TemporaryFolder root;
  write_topology(root, 8, 2);
  root.write("proc/thread-self/status", "Name:\tx\nCpus_allowed_list:\t0-7\nMems_allowed:\t1\n");
  REQUIRE(probe_core_count(root.path()) == 4);
  root.write("proc/thread-self/status", "Cpus_allowed_list:\t0,1,5\n");
  REQUIRE(probe_core_count(root.path()) == 2);
  root.write("proc/thread-self/status", "Cpus_allowed_list:\t3\n");
  REQUIRE(probe_core_count(root.path()) == 1);
}

TEST_CASE("cores are told apart by package and core number where sibling lists are missing") {
  const TemporaryFolder root;
  for (const char *cpu : {"0", "1", "2", "3"}) {
    const std::string topology = std::string("sys/devices/system/cpu/cpu") + cpu + "/topology/";
    root.write(topology + "core_id", cpu[0] % 2 == 0 ? "0\n" : "1\n");
    root.write(topology + "physical_package_id", cpu[0] < '2' ? "0\n" : "1\n");
  }
  root.write("proc/thread-self/status", "Cpus_allowed_list:\t0-3\n");
  REQUIRE(probe_core_count(root.path()) == 4);
  root.write("sys/devices/system/cpu/cpu2/topology/physical_package_id", "0\n");
  REQUIRE(probe_core_count(root.path()) == 3);
}

TEST_CASE("processors without topology count as cores and without any there is one") {
  const TemporaryFolder root;
  REQUIRE(probe_core_count(root.path()) == 1);
  root.write("proc/thread-self/status", "Cpus_allowed_list:\t0-2\n");
  REQUIRE(probe_core_count(root.path()) == 3);
}

TEST_CASE("a v2 quota of any ancestor limits the cores, rounded up") {
  const TemporaryFolder root;
  write_topology(root, 8, 1);
  root.write("proc/thread-self/status", "Cpus_allowed_list:\t0-7\n");
  write_v2(root, "/a/b");
  root.write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  REQUIRE(probe_core_count(root.path()) == 8);
  root.write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  REQUIRE(probe_core_count(root.path()) == 3);
  root.write("sys/fs/cgroup/a/b/cpu.max", "1000 100000\n");
  REQUIRE(probe_core_count(root.path()) == 1);
  for (const char *odd : {"", "100000", "0 0\n", "100000 0\n", "x y\n"}) {
    root.write("sys/fs/cgroup/a/b/cpu.max", odd);
    REQUIRE(probe_core_count(root.path()) == 3);
  }
}

TEST_CASE("a v1 quota limits the cores and minus one means none") {
  const TemporaryFolder root;
  write_topology(root, 8, 1);
  root.write("proc/thread-self/status", "Cpus_allowed_list:\t0-7\n");
  root.write("proc/self/cgroup", "2:cpu,cpuacct:/\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  root.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  REQUIRE(probe_core_count(root.path()) == 8);
  root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  REQUIRE(probe_core_count(root.path()) == 2);
}
