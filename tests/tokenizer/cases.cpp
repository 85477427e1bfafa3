// SPDX-License-Identifier: Apache-2.0
//
// Reading case files with the library's own JSON reader.

#include "tests/tokenizer/cases.h"

#include <cstdlib>

#include "lib/base/file.h"
#include "lib/snapshot/json.h"

namespace colibri::test {
namespace {

std::vector<int32_t> read_ids(const JsonValue &value) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < value.size(); ++i) {
    ids.push_back(static_cast<int32_t>(value.at(i).as_integer().value()));
  }
  return ids;
}

}  // namespace

std::vector<TokenizerCase> read_cases(const std::string &path) {
  const std::vector<uint8_t> bytes = read_whole_file(path, kMaxJsonBytes);
  const JsonDocument document =
      JsonDocument::parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, path);
  const JsonValue list = document.root().get("cases");
  std::vector<TokenizerCase> cases;
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonValue entry = list.at(i);
    cases.push_back({std::string(entry.get("text").as_string().value()), read_ids(entry.get("ids")),
                     read_ids(entry.get("ids_plain")),
                     std::string(entry.get("decoded").as_string().value()),
                     std::string(entry.get("decoded_skip_special").as_string().value_or("")),
                     entry.has("decoded_skip_special")});
  }
  return cases;
}

std::string tiny_tokenizer_path() {
  return COLIBRI_REPOSITORY "/examples/models/colibri-tiny-packed/tokenizer.json";
}

std::string tiny_cases_path() {
  return COLIBRI_REPOSITORY "/tests/tokenizer/data/tokenizer_cases.json";
}

std::string kinds_path() {
  return COLIBRI_REPOSITORY "/tests/tokenizer/data/kinds";
}

std::optional<std::string> find_vocabulary_folder(const std::string &name) {
  const char *folder = std::getenv("COLIBRI_TOKENIZERS");
  if (folder == nullptr || folder[0] == '\0') return std::nullopt;
  return join_path(folder, name);
}

std::vector<int32_t> encode(const Tokenizer &tokenizer, std::string_view text,
                            ControlTokens control) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, control, &ids);
  return ids;
}

std::string decode(const Tokenizer &tokenizer, const std::vector<int32_t> &ids, bool skip_special) {
  return tokenizer.decode(ids.data(), ids.size(), skip_special);
}

}  // namespace colibri::test
