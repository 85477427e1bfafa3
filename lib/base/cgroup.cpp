// SPDX-License-Identifier: Apache-2.0
//
// In a container the path in /proc/self/cgroup may be the host's while the mount shows only the
// container's part; the root field of mountinfo tells how much of the path to drop. Folders that do
// not exist are listed all the same; reading them fails and that is the end of it.

#include "lib/base/cgroup.h"

#include <charconv>

namespace colibri {
namespace {

struct Mount {
  std::string root;
  std::string point;
};

// Cuts the part before `separator` off the front of text, and the separator with it.
std::string_view take_field(std::string_view &text, char separator) {
  const size_t end = text.find(separator);
  const std::string_view field = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return field;
}

bool has_item(std::string_view list, std::string_view item) {
  while (!list.empty()) {
    if (take_field(list, ',') == item) return true;
  }
  return false;
}

// mountinfo writes blank, tab, line feed and backslash as \ooo.
std::string unescape_octal(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char *digits = text.data() + i + 1;
    if (text[i] == '\\' && i + 3 < text.size() &&
        std::from_chars(digits, digits + 3, value, 8).ptr == digits + 3 && value < 256) {
      plain.push_back(static_cast<char>(value));
      i += 3;
    } else {
      plain.push_back(text[i]);
    }
  }
  return plain;
}

// The mount of v2, or of the v1 hierarchy that has `controller`.
std::optional<Mount> find_mount(std::string_view mountinfo, bool is_v2,
                                std::string_view controller) {
  while (!mountinfo.empty()) {
    const std::string_view line = take_field(mountinfo, '\n');
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    std::string_view before = line.substr(0, dash);
    std::string_view after = line.substr(dash + 3);
    for (int i = 0; i < 3; ++i) take_field(before, ' ');  // mount, parent, device
    const std::string_view root = take_field(before, ' ');
    const std::string_view point = take_field(before, ' ');
    const std::string_view type = take_field(after, ' ');
    take_field(after, ' ');  // source
    const bool is_wanted =
        is_v2 ? type == "cgroup2" : type == "cgroup" && has_item(after, controller);
    if (is_wanted && !point.empty()) return Mount{unescape_octal(root), unescape_octal(point)};
  }
  return std::nullopt;
}

// `path` as seen below `root`: "/docker/1/a" below "/docker/1" is "/a". A path outside is taken
// whole.
std::string_view strip_root(std::string_view path, std::string_view root) {
  if (root == "/" || root.empty() || !path.starts_with(root)) return path;
  const std::string_view rest = path.substr(root.size());
  return rest.empty() || rest.front() == '/' ? rest : path;
}

void append_ancestors(std::vector<CgroupFolder> &folders, bool is_v2, const Mount &mount,
                      std::string_view path) {
  // "/.." in the path: the process is outside the visible part, whose top is then all there is to
  // see.
  std::string_view rest = strip_root(path, mount.root);
  if (rest.find("/..") != std::string_view::npos) rest = "";
  while (!rest.empty() && rest != "/") {
    folders.push_back({is_v2, std::string(rest), mount.point + std::string(rest)});
    rest = rest.substr(0, rest.rfind('/') == std::string_view::npos ? 0 : rest.rfind('/'));
  }
  folders.push_back({is_v2, "/", mount.point});
}

}  // namespace

std::vector<CgroupFolder> list_cgroup_folders(std::string_view cgroup_text,
                                              std::string_view mountinfo_text,
                                              std::string_view controller) {
  std::vector<CgroupFolder> folders;
  while (!cgroup_text.empty()) {
    std::string_view line = take_field(cgroup_text, '\n');
    take_field(line, ':');  // number of the hierarchy
    const std::string_view controllers = take_field(line, ':');
    const bool is_v2 = controllers.empty();
    if (line.empty() || line.front() != '/') continue;
    if (!is_v2 && !has_item(controllers, controller)) continue;
    const std::string usual =
        is_v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + std::string(controller);
    const std::optional<Mount> mount = find_mount(mountinfo_text, is_v2, controller);
    append_ancestors(folders, is_v2, mount.value_or(Mount{"/", usual}), line);
  }
  return folders;
}

std::optional<uint64_t> parse_number(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\n");
  if (start == std::string_view::npos) return std::nullopt;
  uint64_t value = 0;
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + start, end, value);
  if (error != std::errc()) return std::nullopt;
  if (stop != end && *stop != ' ' && *stop != '\t' && *stop != '\n') return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_cgroup_limit(std::string_view text) {
  constexpr uint64_t kLeastUnlimited = uint64_t{1} << 60;  // v1 writes 2^63 rounded down to a page
  const std::optional<uint64_t> value = parse_number(text);
  return value && *value < kLeastUnlimited ? value : std::nullopt;
}

std::optional<uint64_t> find_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = take_field(text, '\n');
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    if (!line.empty() && line.front() == ':') line.remove_prefix(1);
    if (line.empty() || (line.front() != ' ' && line.front() != '\t')) continue;
    return parse_number(line);
  }
  return std::nullopt;
}

std::vector<uint32_t> parse_cpu_list(std::string_view text) {
  constexpr uint64_t kMaxCpu = 65535;
  std::vector<uint32_t> cpus;
  std::string_view line = take_field(text, '\n');
  while (!line.empty()) {
    std::string_view range = take_field(line, ',');
    const std::optional<uint64_t> first = parse_number(take_field(range, '-'));
    const std::optional<uint64_t> last = range.empty() ? first : parse_number(range);
    if (!first || !last || *last > kMaxCpu) continue;
    for (uint64_t cpu = *first; cpu <= *last; ++cpu) cpus.push_back(static_cast<uint32_t>(cpu));
  }
  return cpus;
}

}  // namespace colibri
