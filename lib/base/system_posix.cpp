// SPDX-License-Identifier: Apache-2.0
//
// Reads the small files of /proc and /sys and takes the least of what they allow. A file that is
// absent or makes no sense is skipped: the next probe decides.

#include <fcntl.h>
#include <sched.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "lib/base/cgroup.h"
#include "lib/base/checked_math.h"
#include "lib/base/system.h"

namespace colibri {
namespace {

// Content of a small file; empty if it cannot be read. The sizes of /proc and /sys files are not
// real, so it reads to the end, at most 1 MiB.
std::string read_text(const std::string &path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  std::string text;
  const int number = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (number < 0) return text;
  char piece[4096];
  while (text.size() < kMaxBytes) {
    const ssize_t n = read(number, piece, sizeof(piece));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(piece, static_cast<size_t>(n));
  }
  close(number);
  return text;
}

std::vector<CgroupFolder> read_cgroup_folders(const std::string &root,
                                              std::string_view controller) {
  return list_cgroup_folders(read_text(root + "/proc/self/cgroup"),
                             read_text(root + "/proc/self/mountinfo"), controller);
}

// What a group uses and cannot give back: its use without the file cache, which the kernel drops
// before it refuses memory. Nothing if the group does not say.
std::optional<uint64_t> read_group_use(const CgroupFolder &folder, const std::string &directory) {
  const std::optional<uint64_t> use = parse_number(
      read_text(directory + (folder.is_v2 ? "/memory.current" : "/memory.usage_in_bytes")));
  if (!use) return std::nullopt;
  const std::string stat = read_text(directory + "/memory.stat");
  uint64_t cache = 0;
  for (const char *key : {"inactive_file", "active_file"}) {
    const std::string name = folder.is_v2 ? std::string(key) : "total_" + std::string(key);
    cache += std::min(find_number(stat, name).value_or(0), *use);
  }
  return *use - std::min(cache, *use);
}

void take_least(MemoryLimit &limit, uint64_t available, const std::string &decided_by) {
  if (!limit.decided_by.empty() && limit.available_bytes <= available) return;
  limit.available_bytes = available;
  limit.decided_by = decided_by;
}

void apply_host(MemoryLimit &limit, const std::string &root) {
  constexpr uint64_t kMaxKib = uint64_t{1} << 50;
  const std::string text = read_text(root + "/proc/meminfo");
  const uint64_t total = find_number(text, "MemTotal").value_or(0);
  if (total == 0 || total > kMaxKib) return;
  limit.total_bytes = total * 1024;
  const char *key = "MemAvailable";
  std::optional<uint64_t> available = find_number(text, key);
  if (!available) {  // kernels before 3.14
    key = "MemFree";
    available = find_number(text, key);
  }
  if (available) take_least(limit, std::min(*available, total) * 1024, key);
}

void apply_group(MemoryLimit &limit, const std::string &root, const CgroupFolder &folder) {
  const std::string directory = root + folder.directory;
  const char *const names[2] = {folder.is_v2 ? "memory.max" : "memory.limit_in_bytes",
                                folder.is_v2 ? "memory.high" : "memory.soft_limit_in_bytes"};
  for (const char *name : names) {
    const std::optional<uint64_t> bytes = parse_cgroup_limit(read_text(directory + "/" + name));
    if (!bytes) continue;
    const uint64_t use = read_group_use(folder, directory).value_or(0);
    take_least(limit, *bytes - std::min(use, *bytes), "cgroup " + folder.name + " " + name);
    if (limit.total_bytes == 0 || *bytes < limit.total_bytes) limit.total_bytes = *bytes;
  }
}

// Processors that the calling thread may run on. The list file is preferred as fixtures can supply
// it.
std::vector<uint32_t> read_allowed_cpus(const std::string &root) {
  const std::string status = read_text(root + "/proc/thread-self/status");
  constexpr std::string_view kKey = "Cpus_allowed_list:";
  const size_t at = status.find(kKey);
  if (at != std::string::npos)
    return parse_cpu_list(std::string_view(status).substr(at + kKey.size()));
  std::vector<uint32_t> cpus;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (root.empty() && sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
    }
  }
  return cpus;
}

// A text that is equal for the hardware threads of one core and differs between cores.
std::string read_core_key(const std::string &root, uint32_t cpu) {
  const std::string name = std::to_string(cpu);
  const std::string topology = root + "/sys/devices/system/cpu/cpu" + name + "/topology/";
  std::string siblings = read_text(topology + "thread_siblings_list");
  if (!siblings.empty()) return siblings;
  const std::string core = read_text(topology + "core_id");
  if (!core.empty()) return read_text(topology + "physical_package_id") + ":" + core;
  return "cpu " + name;
}

// Whole processors that the quota of one group amounts to; nothing if it has none.
std::optional<uint64_t> read_cpu_quota(const std::string &root, const CgroupFolder &folder) {
  const std::string directory = root + folder.directory;
  std::string quota_text = read_text(directory + (folder.is_v2 ? "/cpu.max" : "/cpu.cfs_quota_us"));
  std::string period_text;
  if (folder.is_v2) {
    const size_t blank = quota_text.find(' ');
    if (blank == std::string::npos) return std::nullopt;
    period_text = quota_text.substr(blank);
    quota_text.resize(blank);
  } else {
    period_text = read_text(directory + "/cpu.cfs_period_us");
  }
  const std::optional<uint64_t> quota = parse_number(quota_text);
  const std::optional<uint64_t> period = parse_number(period_text);
  if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
  return divide_up(*quota, *period);
}

// The figures of the kernel itself, for a system without /proc (a bare chroot). Free memory leaves
// out what the file cache would give back, so this errs on the small side.
void apply_sysinfo(MemoryLimit &limit) {
  struct sysinfo facts;
  if (sysinfo(&facts) != 0 || facts.totalram == 0) return;
  const uint64_t unit = facts.mem_unit;
  limit.total_bytes = facts.totalram * unit;
  take_least(limit, (facts.freeram + facts.bufferram) * unit, "sysinfo");
}

}  // namespace

MemoryLimit probe_memory_limit(const std::string &root) {
  MemoryLimit limit{0, 0, ""};
  apply_host(limit, root);
  for (const CgroupFolder &folder : read_cgroup_folders(root, "memory")) {
    apply_group(limit, root, folder);
  }
  if (limit.decided_by.empty() && root.empty()) apply_sysinfo(limit);
  if (limit.decided_by.empty()) limit.decided_by = "no probe succeeded";
  return limit;
}

uint32_t probe_core_count(const std::string &root) {
  std::set<std::string> cores;
  for (const uint32_t cpu : read_allowed_cpus(root)) cores.insert(read_core_key(root, cpu));
  uint64_t count = cores.size();
  for (const CgroupFolder &folder : read_cgroup_folders(root, "cpu")) {
    count = std::min(count, read_cpu_quota(root, folder).value_or(count));
  }
  return static_cast<uint32_t>(std::max<uint64_t>(count, 1));
}

}  // namespace colibri
