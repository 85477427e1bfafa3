// SPDX-License-Identifier: Apache-2.0
//
// AddedTokens: the tokens that are found in the text before any splitting, and the search for them.
// At each position the longest one wins, the leftmost position first.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/function_ref.h"
#include "lib/snapshot/json.h"
#include "lib/tokenizer/tokenizer.h"

namespace colibri {

class Normalizer;

struct AddedToken {
  int32_t id;
  std::string text;
  bool is_special;
  bool is_normalized;  // looked for after normalisation, with its own text normalised
  bool strips_left;    // takes the white space before it
  bool strips_right;
  bool is_single_word;  // only where no word character touches it
};

// Reads "added_tokens". Throws Error(kFormat).
std::vector<AddedToken> read_added_tokens(const JsonValue &section, const std::string &name);

// A part of a text: an added token, or -1 and what lies between.
struct TokenPart {
  int32_t id;
  size_t begin;
  size_t end;
};

// Finds the tokens of one set in a text.
class TokenFinder {
 public:
  // `text` of at most kMaxAddedTokenBytes. The first of two equal texts wins.
  void add(std::string_view text, const AddedToken &token);
  bool is_empty() const noexcept { return nodes_.size() == 1; }

  // Calls visit for all parts of a non-empty text in order. O(length x longest token).
  void split(std::string_view text, ControlTokens control,
             FunctionRef<void(const TokenPart &part)> visit) const;

 private:
  struct Flags {
    int32_t id;
    bool is_special;
    bool strips_left;
    bool strips_right;
    bool is_single_word;
    bool is_space;  // white space alone
  };
  struct Node {  // of a trie over bytes; children are a list of siblings
    uint8_t byte = 0;
    int32_t first_child = -1;
    int32_t next_sibling = -1;
    int32_t token = -1;  // index in tokens_
  };
  struct Match {
    int32_t token = -1;
    size_t length = 0;
  };
  int32_t find_child(int32_t node, uint8_t byte) const noexcept;
  bool is_taken(int32_t token, ControlTokens control) const noexcept;
  Match match_at(std::string_view text, size_t position, ControlTokens control) const noexcept;

  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<int32_t, 256> roots_ = make_roots();  // child of the root by byte
  std::vector<Flags> tokens_;
  bool has_spaces_ = false;  // one of them is white space alone

  static std::array<int32_t, 256> make_roots() noexcept {
    std::array<int32_t, 256> roots;
    roots.fill(-1);
    return roots;
  }
};

constexpr size_t kMaxAddedTokenBytes = 1024;

}  // namespace colibri
