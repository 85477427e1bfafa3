// SPDX-License-Identifier: Apache-2.0
//
// A second conversion to the same destination is told that the first one runs, not that its folder
// may be removed: so the lock is looked at before anything else is said about the folder.

#include "lib/convert/partial_folder.h"

#include "lib/base/file.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr const char *kJournalName = "conversion.journal";
constexpr const char *kLockName = "conversion.lock";

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

void check_space(const std::string &path, uint64_t needed_bytes) {
  const uint64_t free_bytes = free_disk_bytes(path);
  if (needed_bytes <= free_bytes) return;
  throw_error(StatusCode::kIo,
              "the disk is too small: %llu bytes are needed and %llu are free; make room or choose "
              "another place than '%s'",
              static_cast<unsigned long long>(needed_bytes),
              static_cast<unsigned long long>(free_bytes), path.c_str());
}

}  // namespace

std::string partial_directory(const std::string &destination) {
  return without_slashes(destination) + ".partial";
}

PartialFolder::PartialFolder(const std::string &destination, bool resumes, uint64_t needed_bytes)
    : destination_(without_slashes(destination)), path_(partial_directory(destination)) {
  if (destination.empty()) {
    throw_error(StatusCode::kArgument, "the destination is empty; give the path of a new folder");
  }
  if (resumes) take_back_unpublished();
  require_free_name();
  const bool is_there = is_named(path_);
  if (is_there && is_named(join_path(path_, kLockName))) {
    lock_ = std::make_unique<FileLock>(join_path(path_, kLockName));
  }
  if (is_there && !resumes) {
    throw_error(StatusCode::kArgument,
                "an unfinished conversion lies in '%s'; go on with it (option resume, --resume), "
                "or remove that folder",
                path_.c_str());
  }
  if (!is_there) check_space(parent_directory(destination_), needed_bytes);
  make_directory(path_);
  if (!lock_) lock_ = std::make_unique<FileLock>(join_path(path_, kLockName));
  // The conversion that held the lock a moment ago may have ended well.
  require_free_name();
}

std::string PartialFolder::journal_path() const {
  return join_path(path_, kJournalName);
}

void PartialFolder::require_only(const std::set<std::string> &names) const {
  for (const std::string &name : list_files(path_)) {
    if (name == kJournalName || name == kLockName || names.count(name) != 0) continue;
    throw_error(StatusCode::kMismatch,
                "file '%s' in '%s' does not belong to this conversion; remove the folder and begin "
                "anew",
                printable(name, 60).c_str(), path_.c_str());
  }
}

void PartialFolder::require_space(uint64_t needed_bytes) const {
  check_space(path_, needed_bytes);
}

// A kill between the renaming and the end of publish() leaves journal and lock, or the lock alone.
void PartialFolder::take_back_unpublished() const {
  const std::string lock = join_path(destination_, kLockName);
  if (is_named(path_) || !is_named(lock)) return;
  const FileLock held(lock);  // another process may be at that very place
  if (is_named(join_path(destination_, kJournalName))) {
    rename_new(destination_, path_);
  } else {
    remove_file(lock);
  }
}

void PartialFolder::require_free_name() const {
  if (!is_named(destination_)) return;
  throw_error(StatusCode::kArgument,
              "destination '%s' exists already; give the path of a new folder",
              destination_.c_str());
}

// Journal and lock go last: without the lock another conversion could begin to write in the folder
// just before it gets its name, and without the journal all work would be lost if it got none.
void PartialFolder::publish() {
  sync_directory(path_);
  rename_new(path_, destination_);
  remove_file(join_path(destination_, kJournalName));
  remove_file(join_path(destination_, kLockName));
  sync_directory(destination_);
  sync_directory(parent_directory(destination_));
}

}  // namespace colibri
