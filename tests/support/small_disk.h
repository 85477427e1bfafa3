// SPDX-License-Identifier: Apache-2.0
//
// A disk of a chosen size, for tests of what happens when it is full: a file system in memory that
// only a child process sees.

#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

namespace colibri::test {

namespace small_disk {

inline bool write_map(const char *path, const std::string &text) {
  const int file = open(path, O_WRONLY);
  if (file < 0) return false;
  const bool is_written =
      write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  return is_written;
}

// Root has a mount namespace for the asking; an ordinary user needs to be root of a user namespace.
inline bool leave_namespaces() {
  if (unshare(CLONE_NEWNS) == 0) return true;
  const std::string user = "0 " + std::to_string(getuid()) + " 1";
  const std::string group = "0 " + std::to_string(getgid()) + " 1";
  return unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && write_map("/proc/self/setgroups", "deny") &&
         write_map("/proc/self/uid_map", user) && write_map("/proc/self/gid_map", group);
}

inline bool mount_disk(const std::string &folder, uint64_t bytes) {
  const std::string size = "size=" + std::to_string(bytes);
  return leave_namespaces() && mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, size.c_str()) == 0;
}

}  // namespace small_disk

// Runs `body` in a forked child in which `folder` is an empty disk of `bytes`; gives the text that
// body returned, or that of its exception, or nullopt where the system lets a process mount
// nothing.
inline std::optional<std::string> run_on_small_disk(const std::string &folder, uint64_t bytes,
                                                    const std::function<std::string()> &body) {
  int ends[2];
  if (pipe(ends) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) {
    if (!small_disk::mount_disk(folder, bytes)) _exit(2);
    std::string text;
    try {
      text = body();
    } catch (const std::exception &error) {
      text = std::string("exception: ") + error.what();
    }
    const ssize_t n = write(ends[1], text.data(), text.size());
    _exit(n == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char piece[256];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<size_t>(n));
  }
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return std::nullopt;
  return status == 0 ? text : "the child failed with status " + std::to_string(status);
}

}  // namespace colibri::test
