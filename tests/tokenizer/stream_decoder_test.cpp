// SPDX-License-Identifier: Apache-2.0
//
// Streams of ids to text: whole characters only, and the same text as decoding at once.

#include <string>
#include <vector>

#include "lib/base/utf8.h"
#include "lib/tokenizer/tokenizer.h"

#include "tests/support/catch.h"
#include "tests/tokenizer/cases.h"

namespace colibri::test {
namespace {

// One token per byte, ids as the byte's value; 256 is special.
std::unique_ptr<Tokenizer> open_bytes(bool has_byte_fallback) {
  std::string json = R"({"pre_tokenizer":null,"decoder":{"type":"Sequence","decoders":[
    {"type":"Replace","pattern":{"String":"_"},"content":" "})";
  json += has_byte_fallback ? R"(,{"type":"ByteFallback"})" : "";
  json += R"(,{"type":"Fuse"},{"type":"Strip","content":" ","start":2,"stop":0}]},
    "added_tokens":[{"id":256,"content":"<end>","special":true}],"model":{"merges":[],"vocab":{)";
  for (int i = 0; i < 256; ++i) {
    char entry[32];
    std::snprintf(entry, sizeof(entry), "\"<0x%02X>\":%d,", static_cast<unsigned>(i), i);
    json += entry;
  }
  return Tokenizer::from_json(json + R"("_":257,"_w":258,"\u00e9":259}}})", "test");
}

std::vector<std::string> pieces(const Tokenizer &tokenizer, const std::vector<int32_t> &ids) {
  StreamDecoder decoder(tokenizer, true);
  std::vector<std::string> result;
  for (const int32_t id : ids) {
    result.emplace_back();
    decoder.push(id, &result.back());
  }
  result.emplace_back();
  decoder.flush(&result.back());
  return result;
}

const std::string kMark(kReplacementText);

TEST_CASE("a character that comes in bytes is written when it is complete") {
  const auto tokenizer = open_bytes(true);
  CHECK(pieces(*tokenizer, {258, 0xF0, 0x9F, 0x98, 0x80, 258}) ==
        std::vector<std::string>{"w", "", "", "", "\xF0\x9F\x98\x80", " w", ""});
}

TEST_CASE("with byte fallback every bad byte becomes one mark") {
  const auto tokenizer = open_bytes(true);
  CHECK(decode(*tokenizer, {258, 0xE2, 0x82, 258}) == "w" + kMark + kMark + " w");
  CHECK(decode(*tokenizer, {258, 0xF0, 0x9F, 0x98}) == "w" + kMark + kMark + kMark);
  CHECK(decode(*tokenizer, {0xE2, 259}) == kMark + "\xC3\xA9");
}

TEST_CASE("the start of a text is stripped once, however it comes") {
  const auto tokenizer = open_bytes(true);
  CHECK(decode(*tokenizer, {257, 257, 257, 258}) == "  w");
  CHECK(decode(*tokenizer, {258, 258}) == "w w");
  CHECK(decode(*tokenizer, {256, 258}) == "<end> w");
  CHECK(decode(*tokenizer, {256, 258}, true) == "w");
  CHECK(pieces(*tokenizer, {257, 257, 257}) == std::vector<std::string>{"", "", " ", ""});
}

TEST_CASE("a decoder is as new after a flush") {
  const auto tokenizer = open_bytes(true);
  StreamDecoder decoder(*tokenizer, false);
  std::string text;
  decoder.push(258, &text);
  decoder.push(0xE2, &text);
  decoder.flush(&text);
  CHECK(text == "w" + kMark);
  text = "kept";
  decoder.push(258, &text);
  decoder.flush(&text);
  CHECK(text == "keptw");
}

TEST_CASE("ids outside the vocabulary write nothing") {
  const auto tokenizer = open_bytes(true);
  CHECK(decode(*tokenizer, {-1, 258, 260, 1 << 30, 259}) == "w\xC3\xA9");
}

TEST_CASE("byte-level streams never split a character and add up to the whole text") {
  const auto tokenizer = Tokenizer::open(tiny_tokenizer_path());
  uint32_t state = 99;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> ids;
    std::string bytes;
    for (int i = 0; i < 16; ++i) {
      state = state * 1664525u + 1013904223u;
      ids.push_back(static_cast<int32_t>((state >> 16) % (round % 2 == 0 ? 256 : 2048)));
      bytes += tokenizer->token_bytes(ids.back());
    }
    StreamDecoder decoder(*tokenizer, false);
    std::string text;
    for (const int32_t id : ids) {
      decoder.push(id, &text);
      REQUIRE(count_valid_utf8(text) == text.size());
    }
    decoder.flush(&text);
    REQUIRE(text == replace_invalid_utf8(bytes));
    REQUIRE(text == decode(*tokenizer, ids));
  }
}

}  // namespace
}  // namespace colibri::test
