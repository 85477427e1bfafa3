// SPDX-License-Identifier: Apache-2.0

#include "lib/convert/source_state.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "lib/base/file.h"
#include "lib/snapshot/hash.h"
#include "lib/snapshot/printable.h"

namespace colibri {

uint64_t read_source_state(const TensorIndex &index) {
  uint64_t state = 0;
  for (const ShardFile &file : index.files()) {
    const std::string path = join_path(index.directory(), file.name);
    std::error_code error;  // a file that is gone has no time; reading it says more
    const auto time = std::filesystem::last_write_time(path, error);
    const auto ticks = static_cast<uint64_t>(error ? 0 : time.time_since_epoch().count());
    const uint64_t bytes = std::filesystem::file_size(path, error);
    const uint64_t facts[] = {state, ticks, error ? 0 : bytes};
    state = hash_bytes({reinterpret_cast<const char *>(facts), sizeof facts}, 0);
  }
  return state;
}

void require_outside(const std::string &destination, const std::string &source_directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path source = fs::canonical(source_directory, error);
  if (error) return;  // it was just opened; what is wrong with it shows where it is read
  const fs::path absolute = fs::absolute(destination, error);
  const fs::path target = error ? fs::path() : fs::weakly_canonical(absolute, error);
  if (error) return;  // the writer says what is wrong with it
  const auto end = std::mismatch(source.begin(), source.end(), target.begin(), target.end());
  if (end.first != source.end()) return;
  throw_error(StatusCode::kArgument,
              "the destination '%s' lies in the source folder '%s'; give a place outside of it",
              printable(destination, 80).c_str(), printable(source_directory, 80).c_str());
}

}  // namespace colibri
