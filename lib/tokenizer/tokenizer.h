// SPDX-License-Identifier: Apache-2.0
//
// Tokenizer: text to ids and back, from a tokenizer.json. Byte-level BPE (GLM, Qwen, DeepSeek,
// gpt-oss) and the SentencePiece-style BPE of Mixtral. Immutable after open; all const methods may
// run in several threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/chat_template.h"

namespace colibri {

// What encode() does with text that spells an added token.
enum class ControlTokens : uint8_t {
  kPlain,       // no added token matches but those of white space alone, which control nothing:
                // the text of a user stays text
  kNotSpecial,  // tokens marked special are read as plain text; other added tokens match
  kAllowed,     // all added tokens match
};

constexpr uint64_t kMaxTextBytes = 1ull << 30;

class Tokenizer {
 public:
  // `path`: a tokenizer.json or a folder that holds one. Throws Error: kNotFound, kIo, kFormat
  // (what, where), kUnsupported (model type, normaliser, pre-tokenizer or decoder this version does
  // not know, by name). Token ids must be dense and unique after the added tokens are merged in;
  // holes are tolerated only above the model vocabulary and decode to nothing.
  static std::unique_ptr<Tokenizer> open(const std::string &path);
  static std::unique_ptr<Tokenizer> from_json(std::string_view json, const std::string &name);
  ~Tokenizer();

  // Largest id + 1. Ids at or above it are never produced.
  uint32_t size() const noexcept;

  // Appends ids of `text`. No prefix tokens (BOS) are added. Invalid UTF-8 is read as U+FFFD per
  // maximal bad part. Throws Error: kArgument above kMaxTextBytes. Time O(n log n) whatever the
  // text.
  void encode(std::string_view text, ControlTokens control, std::vector<int32_t> *ids) const;

  // As encode() for a text that stands behind something else: what belongs to the start of a whole
  // text (Metaspace with prepend scheme "first") is not put in front.
  void encode_continued(std::string_view text, ControlTokens control,
                        std::vector<int32_t> *ids) const;

  // What stands beside the tokenizer.json; empty if the tokenizer was made from JSON.
  const ChatTemplate &chat_template() const noexcept;

  // Ids the post-processor puts before a text (BOS); empty for GLM and Qwen.
  const std::vector<int32_t> &prefix_ids() const noexcept;

  // Text of all ids at once; the concatenation of a StreamDecoder's output. Unknown ids give
  // nothing. skip_special leaves out tokens marked special. Bytes that are no UTF-8 become U+FFFD:
  // one for each maximal bad part in a byte-level vocabulary, one for each byte with byte fallback.
  std::string decode(const int32_t *ids, size_t n_ids, bool skip_special) const;

  // Raw bytes of one token as it appears in a decoded stream (the leading space of a SentencePiece
  // piece is a space). Empty for an unknown id. Valid while the tokenizer lives.
  std::string_view token_bytes(int32_t id) const noexcept;
  bool is_special(int32_t id) const noexcept;
  // Id of an added token or vocabulary entry by its exact text.
  std::optional<int32_t> find_token(std::string_view text) const noexcept;

  struct Impl;

 private:
  friend class StreamDecoder;
  explicit Tokenizer(std::unique_ptr<Impl> impl) noexcept;
  std::unique_ptr<Impl> impl_;
};

// Turns a stream of ids into text that never splits a character. One per stream; not thread-safe.
class StreamDecoder {
 public:
  // The tokenizer must outlive the decoder.
  StreamDecoder(const Tokenizer &tokenizer, bool skip_special) noexcept;

  // Appends to `text` the characters completed by this id; incomplete UTF-8 stays behind. Bytes
  // that can never become a character come out as U+FFFD, exactly as decode() gives them.
  void push(int32_t id, std::string *text);
  // Appends what is held back (an incomplete character as U+FFFD) and returns to the start.
  void flush(std::string *text);

 private:
  void strip_start(size_t begin, std::string *text);

  const Tokenizer *tokenizer_;
  bool skips_special_;
  uint32_t n_stripped_ = 0;  // characters taken off the start so far
  bool is_at_start_ = true;  // nothing is written yet
  std::string pending_;      // start of a character, at most 3 bytes
};

}  // namespace colibri
