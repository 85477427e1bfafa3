// SPDX-License-Identifier: Apache-2.0
//
// Merging: order, ties, unknown symbols, and long pieces against a plain definition.

#include "lib/tokenizer/bpe_model.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/snapshot/json.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

using Ids = std::vector<int32_t>;

BpeModel read(const std::string &json, bool is_byte_level = false) {
  const JsonDocument document = JsonDocument::parse(json, "test");
  return BpeModel::read(document.root(), is_byte_level, "test");
}

Ids run(const BpeModel &model, std::string_view piece) {
  BpeScratch scratch;
  Ids ids;
  model.encode_piece(piece, &scratch, &ids);
  return ids;
}

StatusCode code_of(const std::string &json) {
  try {
    read(json);
  } catch (const Error &error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

const char *const kLetters =
    R"({"type":"BPE","vocab":{"a":0,"b":1,"c":2,"ab":3,"bc":4,"aa":5,"abc":6,"aab":7},)";

TEST_CASE("the lowest rank merges first, ties from the left") {
  const BpeModel model = read(std::string(kLetters) + R"("merges":["b c","a b","a a"]})");
  CHECK(run(model, "abc") == Ids{0, 4});
  CHECK(run(model, "ab") == Ids{3});
  CHECK(run(model, "aaa") == Ids{5, 0});
  CHECK(run(model, "aaaa") == Ids{5, 5});
  CHECK(run(model, "").empty());
}

TEST_CASE("both spellings of merges give the same ids") {
  const BpeModel text = read(std::string(kLetters) + R"("merges":["a b","ab c","a a"]})");
  const BpeModel pair =
      read(std::string(kLetters) + R"("merges":[["a","b"],["ab","c"],["a","a"]]})");
  for (const char *piece : {"abc", "aabc", "abcabc", "aab", "cba", "aaaaabbbc"}) {
    CHECK(run(text, piece) == run(pair, piece));
  }
  CHECK(run(pair, "aabc") == Ids{0, 6});
}

TEST_CASE("a whole piece is looked up first only where the file says so") {
  const std::string tail = R"("merges":["b c"]})";
  CHECK(run(read(std::string(kLetters) + R"("ignore_merges":true,)" + tail), "aab") == Ids{7});
  CHECK(run(read(std::string(kLetters) + tail), "aab") == Ids{0, 0, 1});
}

TEST_CASE("unknown symbols become the unknown token, bytes, or nothing") {
  // Expected values: Hugging Face tokenizers.
  const std::string plain = R"({"vocab":{"<u>":0,"a":1},"merges":[])";
  CHECK(run(read(plain + R"(,"unk_token":"<u>","fuse_unk":true})"), "axyza\xC3\xA9") ==
        Ids{1, 0, 1, 0});
  CHECK(run(read(plain + R"(,"unk_token":"<u>"})"), "axyza\xC3\xA9") == Ids{1, 0, 0, 0, 1, 0});
  CHECK(run(read(plain + "}"), "axyza") == Ids{1, 1});
  const BpeModel bytes = read(
      R"({"vocab":{"<u>":0,"a":1,"<0xC3>":2,"<0xA9>":3},"merges":[],"unk_token":"<u>",
          "fuse_unk":true,"byte_fallback":true})");
  CHECK(run(bytes, "ax\xC3\xA9xa") == Ids{1, 2, 3, 0, 1});
  CHECK(run(bytes, "x\xC3\xA9") == Ids{2, 3, 0});
}

TEST_CASE("a byte-level model merges raw bytes") {
  const BpeModel model = read(
      R"({"vocab":{"\u0120":0,"a":1,"\u0120a":2,"\u00c3":3,"\u00a9":4},"merges":["\u0120 a"]})",
      true);
  CHECK(run(model, " a") == Ids{2});
  CHECK(run(model, "\xC3\xA9") == Ids{3, 4});
  CHECK(model.find("\xC4\xA0"
                   "a") == 2);
}

// The definition: find the lowest rank among all pairs, join the leftmost, again and again.
Ids merge_plainly(const std::string &piece, const std::vector<std::string> &merges,
                  const std::vector<std::string> &vocabulary) {
  std::vector<std::string> symbols;
  for (const char c : piece) symbols.emplace_back(1, c);
  const auto rank = [&](size_t i) {
    const std::string line = symbols[i] + " " + symbols[i + 1];
    return std::find(merges.begin(), merges.end(), line) - merges.begin();
  };
  while (true) {
    size_t best = 0;
    auto best_rank = static_cast<ptrdiff_t>(merges.size());
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (rank(i) < best_rank) {
        best = i;
        best_rank = rank(i);
      }
    }
    if (best_rank == static_cast<ptrdiff_t>(merges.size())) break;
    symbols[best] += symbols[best + 1];
    symbols.erase(symbols.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
  Ids ids;
  for (const std::string &symbol : symbols) {
    ids.push_back(static_cast<int32_t>(std::find(vocabulary.begin(), vocabulary.end(), symbol) -
                                       vocabulary.begin()));
  }
  return ids;
}

TEST_CASE("short and long pieces follow the definition") {
  const std::vector<std::string> vocabulary = {"a",  "b",   "c",   "ab",  "bc",   "ca",
                                               "aa", "abc", "aab", "bca", "abca", "aaaa"};
  const std::vector<std::string> merges = {"a b",  "c a", "a a",   "ab c",  "b ca",
                                           "a ab", "b c", "aa aa", "abc a", "ab ca"};
  std::string json = R"({"vocab":{)";
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    json += (i > 0 ? ",\"" : "\"") + vocabulary[i] + "\":" + std::to_string(i);
  }
  json += R"(},"merges":[)";
  for (size_t i = 0; i < merges.size(); ++i) json += (i > 0 ? ",\"" : "\"") + merges[i] + "\"";
  const BpeModel model = read(json + "]}");
  uint32_t state = 7;
  for (size_t length = 1; length < 120; ++length) {
    std::string piece;
    for (size_t i = 0; i < length; ++i) {
      state = state * 1664525u + 1013904223u;
      piece += static_cast<char>('a' + (state >> 16) % 3);
    }
    CAPTURE(piece);
    REQUIRE(run(model, piece) == merge_plainly(piece, merges, vocabulary));
  }
}

TEST_CASE("a damaged model section is refused with the place") {
  CHECK(code_of("{}") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":[],"merges":[]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":"0"},"merges":[]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":-1},"merges":[]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":99999999999},"merges":[]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0.5},"merges":[]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":{}})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":["a"]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":["a a a"]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":[["a"]]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":[["a",1]]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":["a a"]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":[],"unk_token":"u"})") == StatusCode::kFormat);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":[],"ignore_merges":1})") == StatusCode::kFormat);
  CHECK(code_of(R"({"type":"Unigram","vocab":[]})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":[],"dropout":0.1})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"vocab":{"a":0},"merges":[],"end_of_word_suffix":"x"})") ==
        StatusCode::kUnsupported);
}

}  // namespace
}  // namespace colibri::test
