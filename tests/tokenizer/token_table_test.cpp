// SPDX-License-Identifier: Apache-2.0
//
// What each token writes, and which decoder sections are understood.

#include "lib/tokenizer/token_table.h"

#include <string>

#include "lib/base/status.h"

#include "tests/support/catch.h"

namespace colibri::test {
namespace {

DecoderRules read(const std::string &json) {
  const JsonDocument document = JsonDocument::parse(json, "test");
  return DecoderRules::read(document.root(), "test");
}

StatusCode code_of(const std::string &json) {
  try {
    read(json);
  } catch (const Error &error) {
    return error.status().code();
  }
  return StatusCode::kOk;
}

const char *const kSentencePiece = R"({"type":"Sequence","decoders":[
    {"type":"Replace","pattern":{"String":"_"},"content":" "},{"type":"ByteFallback"},
    {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})";

TEST_CASE("byte-level tokens write the bytes they spell, added tokens their text") {
  const TokenTable table({{"\xC4\xA0"
                           "a",
                           true, false, false},
                          {"\xC4\xA0", true, true, true},
                          {"\xEF\xBD\x9C", true, false, false},
                          {"", false, false, false}},
                         read(R"({"type":"ByteLevel"})"));
  CHECK(table.size() == 4);
  CHECK(table.bytes(0) == " a");
  CHECK(table.bytes(1) == "\xC4\xA0");
  CHECK(table.bytes(2) == "\xEF\xBD\x9C");
  CHECK(table.bytes(3).empty());
  CHECK(table.is_special(1));
  CHECK_FALSE(table.is_special(0));
  CHECK_FALSE(table.contains(4));
  CHECK_FALSE(table.contains(-1));
}

TEST_CASE("byte tokens write their byte and are known as such") {
  const TokenTable table(
      {{"<0xE2>", true, false, false}, {"<0xG0>", true, false, false}, {"_a_", true, false, false}},
      read(kSentencePiece));
  CHECK(table.bytes(0) == "\xE2");
  CHECK(table.is_byte(0));
  CHECK(table.bytes(1) == "<0xG0>");
  CHECK_FALSE(table.is_byte(1));
  CHECK(table.bytes(2) == " a ");
}

TEST_CASE("decoder sections outside the known order are refused") {
  CHECK(code_of(kSentencePiece) == StatusCode::kOk);
  CHECK(code_of("null") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"WordPiece"})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Strip","content":" ","start":1,"stop":0})") ==
        StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Sequence","decoders":[{"type":"Fuse"},
      {"type":"Strip","content":" ","start":0,"stop":1}]})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Sequence","decoders":[{"type":"Fuse"},
      {"type":"Strip","content":"ab","start":1,"stop":0}]})") == StatusCode::kFormat);
  CHECK(code_of(R"({"type":"Sequence","decoders":[{"type":"ByteFallback"},
      {"type":"Replace","pattern":{"String":"a"},"content":"b"}]})") == StatusCode::kUnsupported);
  CHECK(code_of(R"({"type":"Replace","pattern":{"String":""},"content":"b"})") ==
        StatusCode::kFormat);
}

}  // namespace
}  // namespace colibri::test
