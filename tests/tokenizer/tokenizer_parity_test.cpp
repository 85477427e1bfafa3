// SPDX-License-Identifier: Apache-2.0
//
// The same ids and texts as the reference implementation, for the vocabularies of the repository (a
// model's, and a small one for each kind of pipeline that a family has) and for three published
// ones where they are at hand: the environment variable COLIBRI_TOKENIZERS then names a folder with
// deepseek/, qwen/ and mixtral/, each with tokenizer.json and cases.json. A folder that is named
// and absent is a failure.

#include <iostream>

#include "tests/support/catch.h"
#include "tests/tokenizer/cases.h"

namespace colibri::test {
namespace {

std::string stream(const Tokenizer &tokenizer, const std::vector<int32_t> &ids) {
  StreamDecoder decoder(tokenizer, false);
  std::string text;
  for (const int32_t id : ids) decoder.push(id, &text);
  decoder.flush(&text);
  return text;
}

void check_cases(const Tokenizer &tokenizer, const std::string &cases_path, ControlTokens plain) {
  const std::vector<TokenizerCase> cases = read_cases(cases_path);
  REQUIRE(cases.size() > 50);
  for (const TokenizerCase &c : cases) {
    CAPTURE(c.text);
    CHECK(encode(tokenizer, c.text, ControlTokens::kAllowed) == c.ids);
    CHECK(encode(tokenizer, c.text, plain) == c.ids_plain);
    CHECK(decode(tokenizer, c.ids) == c.decoded);
    CHECK(stream(tokenizer, c.ids) == c.decoded);
    if (c.has_skip_special) {
      CHECK(decode(tokenizer, c.ids, true) == c.decoded_skip_special);
    }
  }
}

void check_vocabulary(const std::string &name) {
  const std::optional<std::string> folder = find_vocabulary_folder(name);
  if (!folder) {
    std::cout << "skipped: vocabulary " << name << ": COLIBRI_TOKENIZERS is not set\n";
    return;
  }
  const auto tokenizer = Tokenizer::open(*folder);
  check_cases(*tokenizer, *folder + "/cases.json", ControlTokens::kNotSpecial);
}

TEST_CASE("the vocabulary of the repository gives the reference ids and texts") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  check_cases(*tokenizer, tiny_cases_path(), ControlTokens::kPlain);
}

TEST_CASE("a vocabulary of each kind of pipeline gives the reference ids and texts") {
  for (const char *kind : {"gpt2", "cl100k", "qwen", "o200k", "deepseek", "byte-fallback-prepend",
                           "byte-fallback-first", "byte-fallback-always"}) {
    CAPTURE(kind);
    const std::string folder = kinds_path() + "/" + kind;
    check_cases(*Tokenizer::open(folder), folder + "/cases.json", ControlTokens::kNotSpecial);
  }
}

TEST_CASE("the DeepSeek vocabulary gives the reference ids and texts, or is skipped") {
  check_vocabulary("deepseek");
}

TEST_CASE("the Qwen vocabulary gives the reference ids and texts, or is skipped") {
  check_vocabulary("qwen");
}

TEST_CASE("the Mixtral vocabulary gives the reference ids and texts, or is skipped") {
  check_vocabulary("mixtral");
}

}  // namespace
}  // namespace colibri::test
