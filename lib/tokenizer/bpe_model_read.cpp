// SPDX-License-Identifier: Apache-2.0
//
// The "model" section of a tokenizer.json to a BpeModel: options, vocabulary, merges in both
// spellings ("a b" or ["a", "b"]). Everything is checked here, so that merging never meets a bad
// id.

#include <algorithm>
#include <cstdio>
#include <string>

#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/bpe_model.h"
#include "lib/tokenizer/byte_alphabet.h"
#include "lib/tokenizer/section.h"

namespace colibri {
namespace {

bool read_flag(const JsonValue &section, const char *key, const std::string &name) {
  const JsonValue value = section.get(key);
  if (value.is_null()) return false;
  if (const std::optional<bool> flag = value.as_boolean()) return *flag;
  throw_error(StatusCode::kFormat, "%s: model.%s is not true or false", name.c_str(), key);
}

// Options that change what is encoded and that this reader does not implement.
void refuse_options(const JsonValue &section, const std::string &name) {
  for (const char *key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const JsonValue value = section.get(key);
    if (!value.is_null() && value.as_string() != std::string_view()) {
      throw_error(StatusCode::kUnsupported, "%s: model.%s is not supported", name.c_str(), key);
    }
  }
  const JsonValue dropout = section.get("dropout");
  if (!dropout.is_null() && dropout.as_number() != 0.0) {
    throw_error(StatusCode::kUnsupported, "%s: model.dropout is not supported", name.c_str());
  }
}

struct MergeTexts {
  std::string_view left;
  std::string_view right;
};

MergeTexts read_merge(const JsonValue &line, size_t index, const std::string &name) {
  if (const std::optional<std::string_view> text = line.as_string()) {
    const size_t space = text->find(' ');
    if (space != std::string_view::npos && text->find(' ', space + 1) == std::string_view::npos) {
      return {text->substr(0, space), text->substr(space + 1)};
    }
  } else if (line.is_array() && line.size() == 2 && line.at(0).is_string() &&
             line.at(1).is_string()) {
    return {*line.at(0).as_string(), *line.at(1).as_string()};
  }
  throw_error(StatusCode::kFormat,
              "%s: model.merges[%zu] is neither \"left right\" nor [\"left\", \"right\"]",
              name.c_str(), index);
}

}  // namespace

BpeModel BpeModel::read(const JsonValue &section, bool is_byte_level, const std::string &name) {
  const std::string_view type = section.get("type").as_string().value_or("BPE");
  if (type != "BPE") {
    throw_error(StatusCode::kUnsupported, "%s: model type \"%.*s\" is not supported; only BPE is",
                name.c_str(), print_length(type), type.data());
  }
  BpeModel model;
  model.is_byte_level_ = is_byte_level;
  refuse_options(section, name);
  model.ignores_merges_ = read_flag(section, "ignore_merges", name);
  model.fuses_unknown_ = read_flag(section, "fuse_unk", name);
  model.has_byte_fallback_ = read_flag(section, "byte_fallback", name);
  model.read_vocabulary(section.get("vocab"), name);
  model.fill_byte_tables();
  model.read_unknown(section.get("unk_token"), name);
  model.read_merges(section.get("merges"), name);
  return model;
}

// An unknown token outside the vocabulary matters only if something can be unknown.
void BpeModel::read_unknown(const JsonValue &unknown, const std::string &name) {
  if (unknown.is_null()) return;
  const std::string_view text = unknown.as_string().value_or("");
  unknown_id_ = find(text);
  const bool is_complete = is_byte_level_ && std::find(byte_symbols_.begin(), byte_symbols_.end(),
                                                       -1) == byte_symbols_.end();
  if (unknown_id_ < 0 && !is_complete) {
    throw_error(StatusCode::kFormat, "%s: model.unk_token \"%.*s\" is not in model.vocab",
                name.c_str(), print_length(text), text.data());
  }
}

void BpeModel::read_vocabulary(const JsonValue &vocabulary, const std::string &name) {
  if (!vocabulary.is_object()) {
    throw_error(StatusCode::kFormat, "%s: model.vocab is missing or not an object", name.c_str());
  }
  const size_t n = vocabulary.size();
  spellings_.reserve(n, n * 8);
  const bool has_pieces = is_byte_level_ && ignores_merges_;
  if (has_pieces) pieces_.reserve(n, n * 7);
  std::string bytes;
  for (size_t i = 0; i < n; ++i) {
    const std::string_view text = vocabulary.key_at(i);
    const std::optional<int64_t> id = vocabulary.at(i).as_integer();
    if (!id || *id < 0 || *id > kMaxTokenId) {
      throw_error(StatusCode::kFormat, "%s: model.vocab[\"%.*s\"] is not an id from 0 to %d",
                  name.c_str(), print_length(text), text.data(), kMaxTokenId);
    }
    if (!spellings_.insert(text, static_cast<int32_t>(*id))) {
      throw_error(StatusCode::kFormat, "%s: model.vocab has \"%.*s\" twice", name.c_str(),
                  print_length(text), text.data());
    }
    bytes.clear();
    if (has_pieces && append_spelled_bytes(text, &bytes)) {
      pieces_.insert(bytes, static_cast<int32_t>(*id));
    }
  }
}

void BpeModel::fill_byte_tables() {
  for (size_t byte = 0; byte < 256; ++byte) {
    byte_symbols_[byte] = find_spelling_of_byte(static_cast<uint8_t>(byte));
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", static_cast<unsigned>(byte));
    fallback_ids_[byte] = find(text);
  }
}

int32_t BpeModel::find_spelling_of_byte(uint8_t byte) const noexcept {
  std::string letter;  // at most 2 bytes: no allocation
  append_utf8(byte_to_letter(byte), &letter);
  return find(letter);
}

void BpeModel::read_merges(const JsonValue &merges, const std::string &name) {
  if (merges.is_null()) return;
  if (!merges.is_array()) {
    throw_error(StatusCode::kFormat, "%s: model.merges is not an array", name.c_str());
  }
  const size_t n = merges.size();
  merges_.reserve(n);
  std::string joined;
  for (size_t i = 0; i < n; ++i) {
    const MergeTexts texts = read_merge(merges.at(i), i, name);
    joined.assign(texts.left).append(texts.right);
    const int32_t left = find(texts.left);
    const int32_t right = find(texts.right);
    const int32_t id = find(joined);
    if (left < 0 || right < 0 || id < 0) {
      const std::string_view missing = left < 0 ? texts.left : right < 0 ? texts.right : joined;
      throw_error(StatusCode::kFormat, "%s: model.merges[%zu] needs \"%.*s\", not in model.vocab",
                  name.c_str(), i, print_length(missing), missing.data());
    }
    merges_.set(left, right, {static_cast<uint32_t>(i), id});
  }
}

}  // namespace colibri
