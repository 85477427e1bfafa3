// SPDX-License-Identifier: Apache-2.0
//
// One table of magic bytes, plus HTML, which may begin with white space and in either case.

#include "lib/snapshot/foreign_format.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace colibri {
namespace {

struct Magic {
  std::string_view bytes;
  const char *name;
};

constexpr std::string_view kHdf5("\x89HDF\r\n\x1a\n", 8);
constexpr Magic kMagics[] = {
    {"GGUF", "a GGUF file"},
    {"ggml", "a GGML file"},
    {"tjgg", "a GGML file"},
    {std::string_view("PK\x03\x04", 4), "a ZIP archive (PyTorch checkpoints are)"},
    {kHdf5, "an HDF5 file"},
    {"version https://git-lfs", "a Git LFS pointer, not the file itself"},
    {std::string_view("\x93NUMPY", 6), "a NumPy array"},
    {std::string_view("\x1f\x8b", 2), "a gzip archive"},
    {"Entry not found", "an error text of a download"},
};

char to_lower(char letter) noexcept {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
}

bool is_html(std::string_view head) noexcept {
  const size_t first = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (first == std::string_view::npos) return false;
  head.remove_prefix(first);
  for (const std::string_view tag : {"<!doctype", "<html", "<head", "<?xml"}) {
    if (head.size() >= tag.size() &&
        std::equal(tag.begin(), tag.end(), head.begin(),
                   [](char wanted, char letter) { return wanted == to_lower(letter); })) {
      return true;
    }
  }
  return false;
}

// Python's pickle: protocol byte, then an opcode that opens a stream.
bool is_pickle(std::string_view head) noexcept {
  return head.size() >= 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 && head[2] != 0;
}

}  // namespace

const char *recognise_foreign_format(const Reader &reader) noexcept {
  std::array<char, 64> bytes{};
  const size_t n_bytes = static_cast<size_t>(std::min<uint64_t>(bytes.size(), reader.size()));
  if (!reader.read_at(0, bytes.data(), n_bytes).is_ok()) return nullptr;
  const std::string_view head(bytes.data(), n_bytes);
  for (const Magic &magic : kMagics) {
    if (head.substr(0, magic.bytes.size()) == magic.bytes) return magic.name;
  }
  if (is_html(head)) return "an HTML page";
  if (is_pickle(head)) return "a Python pickle (PyTorch checkpoint)";
  return nullptr;
}

}  // namespace colibri
