// SPDX-License-Identifier: Apache-2.0
//
// The folder in which a conversion works, DESTINATION.partial: made or taken up again, locked, and
// in the end renamed. Knows names, nothing of tensors.

#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "lib/base/file_writer.h"

namespace colibri {

// The folder in which a conversion to `destination` works.
std::string partial_directory(const std::string &destination);

class PartialFolder {
 public:
  // Errors as PackedWriter has them. With `resumes` and no folder one is made: what was killed may
  // not have come so far; a destination that was killed while it got its name is taken back. A new folder is only made if the disk has `needed_bytes` free.
  PartialFolder(const std::string &destination, bool resumes, uint64_t needed_bytes);

  const std::string &path() const noexcept { return path_; }
  std::string journal_path() const;
  // Throws Error(kMismatch) for the first file that is neither in `names` nor journal or lock: it
  // would become part of the snapshot.
  void require_only(const std::set<std::string> &names) const;
  // Throws Error(kIo) with both numbers if fewer bytes are free.
  void require_space(uint64_t needed_bytes) const;

  // Throws Error(kArgument) if the destination exists.
  void require_free_name() const;
  // Gives the folder its name and removes journal and lock, all of it to survive a loss of power.
  // Until the folder has its name nobody else can take it up.
  void publish();

 private:
  void take_back_unpublished() const;

  std::string destination_;
  std::string path_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace colibri
