// SPDX-License-Identifier: Apache-2.0
//
// Finding added tokens. Expected values come from Hugging Face tokenizers 0.23.

#include "lib/tokenizer/added_tokens.h"

#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/tokenizer/tokenizer.h"

#include "tests/support/catch.h"
#include "tests/tokenizer/cases.h"

namespace colibri::test {
namespace {

using Ids = std::vector<int32_t>;

std::string token(int id, const std::string &content, const std::string &flags) {
  return R"({"id":)" + std::to_string(id) + R"(,"content":")" + content + "\"" + flags + "}";
}

std::unique_ptr<Tokenizer> open_tokens(const std::string &tokens, const std::string &normalizer) {
  return Tokenizer::from_json(R"({"added_tokens":[)" + tokens + R"(],"normalizer":)" + normalizer +
                                  R"(,"pre_tokenizer":null,"decoder":{"type":"Fuse"},"model":
      {"type":"BPE","vocab":{"a":0,"b":1," ":2,"x":3,"_":4},"merges":[]}})",
                              "test");
}

TEST_CASE("added tokens are found leftmost, longest, with their flags") {
  const auto tokenizer = open_tokens(
      token(5, "ab", R"(,"single_word":true)") + "," + token(6, "<l>", R"(,"lstrip":true)") + "," +
          token(7, "<r>", R"(,"rstrip":true)") + "," + token(8, "xx", "") + "," +
          token(9, "xxx", R"(,"special":true)"),
      "null");
  // "<", ">" and so on are not in the vocabulary and vanish.
  const std::vector<std::tuple<std::string, Ids, Ids>> cases = {
      {"ab", {5}, {5}},
      {"aba", {0, 1, 0}, {0, 1, 0}},
      {"ab ab", {5, 2, 5}, {5, 2, 5}},
      {"_ab ab_", {4, 0, 1, 2, 0, 1, 4}, {4, 0, 1, 2, 0, 1, 4}},
      {"a  <l>  b", {0, 6, 2, 2, 1}, {0, 6, 2, 2, 1}},
      {"a  <r>  b", {0, 2, 2, 7, 1}, {0, 2, 2, 7, 1}},
      {"a <r>  <l> b", {0, 2, 7, 6, 2, 1}, {0, 2, 7, 6, 2, 1}},
      {"xxxx", {9, 3}, {8, 8}},
      {"xxxxx", {9, 8}, {8, 8, 3}},
      {"a<r> <r> <l>", {0, 7, 7, 6}, {0, 7, 7, 6}},
  };
  for (const auto &[text, allowed, plain] : cases) {
    CAPTURE(text);
    CHECK(encode(*tokenizer, text, ControlTokens::kAllowed) == allowed);
    CHECK(encode(*tokenizer, text, ControlTokens::kNotSpecial) == plain);
  }
  CHECK(encode(*tokenizer, "xxxx<l>ab", ControlTokens::kPlain) == Ids{3, 3, 3, 3, 0, 1});
}

TEST_CASE("normalised tokens are found after normalisation, the others before") {
  const auto tokenizer = open_tokens(
      token(5, "a b", R"(,"normalized":true)") + "," + token(6, "b b", R"(,"normalized":false)"),
      R"({"type":"Replace","pattern":{"String":" "},"content":"_"})");
  CHECK(encode(*tokenizer, "a b", ControlTokens::kAllowed) == Ids{5});
  CHECK(encode(*tokenizer, "a_b", ControlTokens::kAllowed) == Ids{5});
  CHECK(encode(*tokenizer, "b b", ControlTokens::kAllowed) == Ids{6});
  CHECK(encode(*tokenizer, "b_b", ControlTokens::kAllowed) == Ids{1, 4, 1});
  CHECK(encode(*tokenizer, "a b b", ControlTokens::kAllowed) == Ids{0, 4, 6});
}

StatusCode code_of(const std::string &tokens) {
  try {
    open_tokens(tokens, "null");
  } catch (const Error &error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

TEST_CASE("damaged added tokens are refused") {
  CHECK(code_of(token(5, "ok", "")) == StatusCode::kOk);
  CHECK(code_of(token(0, "a", "")) == StatusCode::kOk);  // the same token twice
  CHECK(code_of(token(0, "other", "")) == StatusCode::kFormat);
  CHECK(code_of(token(5, "a", "")) == StatusCode::kFormat);
  CHECK(code_of(token(5, "n", "") + "," + token(6, "n", "")) == StatusCode::kFormat);
  CHECK(code_of(token(5, "n", "") + "," + token(5, "m", "")) == StatusCode::kFormat);
  CHECK(code_of(token(-1, "n", "")) == StatusCode::kFormat);
  CHECK(code_of(token(2000000000, "n", "")) == StatusCode::kFormat);
  CHECK(code_of(token(5, "", "")) == StatusCode::kFormat);
  CHECK(code_of(token(5, std::string(2000, 'n'), "")) == StatusCode::kFormat);
  CHECK(code_of(token(5, "n", R"(,"special":"yes")")) == StatusCode::kFormat);
  CHECK(code_of("7") == StatusCode::kFormat);
}

}  // namespace
}  // namespace colibri::test
