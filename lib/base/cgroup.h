// SPDX-License-Identifier: Apache-2.0
//
// Control groups as text: where the groups of this process are mounted, and what the small files in
// them say. Pure functions over file content; system_posix.cpp reads the files.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colibri {

// One group of the process or an ancestor of one.
struct CgroupFolder {
  bool is_v2;             // which set of file names applies
  std::string name;       // the group's path inside its hierarchy, for messages: "/", "/user.slice"
  std::string directory;  // where its files are, without the prefix of fixtures
};

// The groups of `controller` ("memory", "cpu") that this process is in, from the innermost to the
// mount point, of v1 and of v2. cgroup_text is /proc/self/cgroup, mountinfo_text
// /proc/self/mountinfo; if the latter names no mount, the usual folders under /sys/fs/cgroup are
// assumed.
std::vector<CgroupFolder> list_cgroup_folders(std::string_view cgroup_text,
                                              std::string_view mountinfo_text,
                                              std::string_view controller);

// A file with one number. Nothing if it is "max", malformed, or so large that it means no limit
// (v1).
std::optional<uint64_t> parse_cgroup_limit(std::string_view text);
// The number behind `key` in lines of "key number" or "key: number kB"; nothing if there is none.
std::optional<uint64_t> find_number(std::string_view text, std::string_view key);
// The first decimal number of text after white space; nothing if there is none or it exceeds 64
// bits.
std::optional<uint64_t> parse_number(std::string_view text);
// "0-3,8" to {0, 1, 2, 3, 8}; numbers above 65535 and malformed parts are left out.
std::vector<uint32_t> parse_cpu_list(std::string_view text);

}  // namespace colibri
