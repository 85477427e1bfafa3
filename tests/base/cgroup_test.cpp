// SPDX-License-Identifier: Apache-2.0
//
// Text of /proc and cgroup files as kernels and containers write it, and as nobody should write it.

#include <string>
#include <vector>

#include "lib/base/cgroup.h"
#include "tests/support/catch.h"

using namespace colibri;

namespace {

std::vector<std::string> directories(const std::vector<CgroupFolder> &folders) {
  std::vector<std::string> paths;
  for (const CgroupFolder &folder : folders) paths.push_back(folder.directory);
  return paths;
}

using Paths = std::vector<std::string>;

}  // namespace

TEST_CASE("a v2 group is listed with all its ancestors up to the mount") {
  const auto folders = list_cgroup_folders(
      "0::/user.slice/user-1000.slice/a.scope\n",
      "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", "memory");
  REQUIRE(directories(folders) == Paths{"/sys/fs/cgroup/user.slice/user-1000.slice/a.scope",
                                        "/sys/fs/cgroup/user.slice/user-1000.slice",
                                        "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"});
  REQUIRE(folders.front().is_v2);
  REQUIRE(folders.front().name == "/user.slice/user-1000.slice/a.scope");
  REQUIRE(folders.back().name == "/");
}

TEST_CASE("v1 hierarchies are chosen by controller and hybrid v2 comes with them") {
  const char *cgroup = "9:name=systemd:/\n4:memory:/api/x\n2:cpu,cpuacct:/batch\n0::/unified\n";
  const char *mounts =
      "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  const auto memory = list_cgroup_folders(cgroup, mounts, "memory");
  REQUIRE(directories(memory) == Paths{"/sys/fs/cgroup/memory/api/x", "/sys/fs/cgroup/memory/api",
                                       "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified/unified",
                                       "/sys/fs/cgroup/unified"});
  REQUIRE_FALSE(memory[0].is_v2);
  REQUIRE(memory[3].is_v2);
  const auto cpu = list_cgroup_folders(cgroup, mounts, "cpu");
  REQUIRE(cpu.front().directory == "/sys/fs/cgroup/cpu,cpuacct/batch");
}

TEST_CASE("a container's mount that shows only its own part is matched by its root") {
  const auto folders = list_cgroup_folders(
      "4:memory:/docker/abc/worker\n",
      "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "memory");
  REQUIRE(directories(folders) == Paths{"/sys/fs/cgroup/memory/worker", "/sys/fs/cgroup/memory"});
  const auto other = list_cgroup_folders(
      "4:memory:/docker/abcdef\n",
      "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n", "memory");
  REQUIRE(other.front().directory == "/sys/fs/cgroup/memory/docker/abcdef");
}

TEST_CASE("without mounts the usual folders are assumed") {
  REQUIRE(directories(list_cgroup_folders("0::/a\n", "", "memory")) ==
          Paths{"/sys/fs/cgroup/a", "/sys/fs/cgroup"});
  REQUIRE(directories(list_cgroup_folders("4:memory:/\n", "", "memory")) ==
          Paths{"/sys/fs/cgroup/memory"});
}

TEST_CASE("a process outside the visible groups sees the top of the mount only") {
  REQUIRE(directories(list_cgroup_folders("0::/../../other\n", "", "memory")) ==
          Paths{"/sys/fs/cgroup"});
}

TEST_CASE("mount points with escaped characters are read as they are") {
  const auto folders = list_cgroup_folders(
      "0::/\n", "35 24 0:30 / /my\\040groups\\134x\\04 rw - cgroup2 none rw\n", "memory");
  REQUIRE(folders.front().directory == "/my groups\\x\\04");
}

TEST_CASE("malformed group lists give nothing and do no harm") {
  for (const char *text :
       {"", "\n\n", "0::", "::", "4:memory", "0:", "abc", "4:memory:relative\n"}) {
    REQUIRE(list_cgroup_folders(text, "garbage - \n - cgroup2\n1 2 3\n", "memory").empty());
  }
}

TEST_CASE("limits are numbers, and max or absurd ones mean none") {
  REQUIRE(parse_cgroup_limit("1073741824\n") == uint64_t{1} << 30);
  REQUIRE(parse_cgroup_limit("0\n") == 0u);
  for (const char *text : {"max\n", "9223372036854771712\n", "18446744073709551615", "", "-1\n",
                           "99999999999999999999999\n", "12x\n", "x"}) {
    CAPTURE(text);
    REQUIRE_FALSE(parse_cgroup_limit(text).has_value());
  }
}

TEST_CASE("numbers are found behind whole keys only") {
  const char *text =
      "MemTotalX: 9 kB\nMemTotal:       24684092 kB\ntotal_inactive_file 77\nodd:\nbad: x\n";
  REQUIRE(find_number(text, "MemTotal") == 24684092u);
  REQUIRE(find_number(text, "total_inactive_file") == 77u);
  REQUIRE_FALSE(find_number(text, "inactive_file").has_value());
  REQUIRE_FALSE(find_number(text, "odd").has_value());
  REQUIRE_FALSE(find_number(text, "bad").has_value());
  REQUIRE_FALSE(find_number("", "x").has_value());
}

TEST_CASE("processor lists are ranges and numbers") {
  REQUIRE(parse_cpu_list("0-3,8,10-11\n") == std::vector<uint32_t>{0, 1, 2, 3, 8, 10, 11});
  REQUIRE(parse_cpu_list("\t5\n7") == std::vector<uint32_t>{5});
  REQUIRE(parse_cpu_list("").empty());
  REQUIRE(parse_cpu_list("x,3,4-,-5,2-1,0-99999999999,65535\n") ==
          std::vector<uint32_t>{3, 4, 65535});
}
