// SPDX-License-Identifier: Apache-2.0
//
// A large file that is no known kind of weights is refused and not left out: nobody would notice
// that a tokenizer stayed behind before the source is deleted.

#include "lib/convert/side_files.h"

#include <algorithm>
#include <string_view>

#include "lib/base/file.h"
#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

constexpr std::string_view kWeightSuffixes[] = {".safetensors", ".index.json", ".bin",     ".pt",
                                                ".pth",         ".ckpt",       ".gguf",    ".ggml",
                                                ".onnx",        ".h5",         ".msgpack", ".npz"};

bool is_side_file(const std::string &name) {
  if (name.starts_with('.') || count_valid_utf8(name) != name.size()) return false;
  return std::none_of(std::begin(kWeightSuffixes), std::end(kWeightSuffixes),
                      [&name](std::string_view suffix) { return name.ends_with(suffix); });
}

std::vector<uint8_t> read_side_file(const std::string &path) {
  const uint64_t bytes = open_file(path)->size();
  if (bytes <= kMaxSideFileBytes) return read_whole_file(path, kMaxSideFileBytes);
  throw_error(StatusCode::kUnsupported,
              "'%s' has %llu bytes; files beside the weights are copied up to %llu: move it away",
              printable(path, 120).c_str(), static_cast<unsigned long long>(bytes),
              static_cast<unsigned long long>(kMaxSideFileBytes));
}

}  // namespace

std::vector<std::pair<std::string, std::vector<uint8_t>>> read_side_files(
    const std::string &directory) {
  std::vector<std::pair<std::string, std::vector<uint8_t>>> files;
  for (const std::string &name : list_files(directory)) {
    if (!is_side_file(name)) continue;
    if (files.size() == kMaxSideFiles) {
      throw_error(StatusCode::kUnsupported,
                  "'%s' holds more than %zu files beside the weights; move away what is no part of "
                  "the model",
                  printable(directory, 120).c_str(), kMaxSideFiles);
    }
    files.emplace_back(name, read_side_file(join_path(directory, name)));
  }
  return files;
}

}  // namespace colibri
