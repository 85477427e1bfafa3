// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a tokenizer.json: a tokenizer whose ids and texts keep their promises, or an Error
// that blames the file. A pattern that is refused only when it is applied counts as such an error.

#include <cstdlib>
#include <string_view>

#include "lib/base/status.h"
#include "lib/base/utf8.h"
#include "lib/tokenizer/chat_layout.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_driver.h"

namespace {

using namespace colibri;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_blames_file(const Error &error) {
  require(error.status().code() == StatusCode::kFormat ||
          error.status().code() == StatusCode::kUnsupported);
  require(error.what()[0] != '\0');
}

void check_ids(const Tokenizer &tokenizer, const std::vector<int32_t> &ids) {
  StreamDecoder stream(tokenizer, false);
  std::string text;
  for (const int32_t id : ids) {
    require(id >= 0 && static_cast<uint32_t>(id) < tokenizer.size());
    stream.push(id, &text);
    require(count_valid_utf8(text) == text.size());
  }
  stream.flush(&text);
  require(tokenizer.decode(ids.data(), ids.size(), false) == text);
}

void use(const Tokenizer &tokenizer) {
  static const std::string long_text = [] {
    std::string text;
    while (text.size() < 20000) text += "the end 123 ";  // long enough for the piece cache
    return text;
  }();
  const std::string_view texts[] = {
      "",
      "Hello, they'RE <|user|>  12345 \n\n x",
      "\xE6\xBC\xA2\xE5\xAD\x97 e\xCC\x81\xCC\xA3 \xF0\x9F\x98\x80 \xC2\xA0\xE2\x96\x81",
      "\xFF\xE2\x82 \x00 bad",
      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
      long_text,
  };
  for (const std::string_view text : texts) {
    for (const ControlTokens control :
         {ControlTokens::kNotSpecial, ControlTokens::kAllowed, ControlTokens::kPlain}) {
      std::vector<int32_t> ids;
      tokenizer.encode(text, control, &ids);
      check_ids(tokenizer, ids);
    }
  }
  for (const int32_t id : tokenizer.prefix_ids()) require(!tokenizer.token_bytes(id).empty());
  std::vector<int32_t> all;
  for (uint32_t id = 0; id < tokenizer.size() && id < 5000; ++id) {
    all.push_back(static_cast<int32_t>(id));
  }
  check_ids(tokenizer, all);
  std::vector<int32_t> ids;
  format_chat(tokenizer, recognise_chat_layout(tokenizer), {{ChatRole::kUser, "Hi", ""}}, {}, &ids);
  check_ids(tokenizer, ids);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    const auto tokenizer =
        Tokenizer::from_json({reinterpret_cast<const char *>(data), size}, "fuzz");
    use(*tokenizer);
  } catch (const Error &error) {
    require_blames_file(error);
  }
  return 0;
}

namespace colibri::test {

std::vector<std::string> fuzz_seeds() {
  const std::string byte_level =
      R"({"added_tokens":[{"id":9,"content":"<|user|>","special":true,"lstrip":true},
        {"id":10,"content":"<think>","special":false,"normalized":true,"single_word":true}],
        "normalizer":{"type":"NFC"},
        "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":
        "(?i:'s|'t|'re)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s+(?!\\S)|\\s+"},
        "behavior":"Isolated","invert":false},
        {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},
        "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a"}},
        {"Sequence":{"id":"A"}}],"special_tokens":{"a":{"id":"a","ids":[0]}}},
        "decoder":{"type":"ByteLevel"},
        "model":{"type":"BPE","ignore_merges":true,"unk_token":null,
        "vocab":{"a":0,"\u0120":1,"t":2,"h":3,"e":4,"he":5,"the":6,"\u0120the":7,"1":8},
        "merges":[["h","e"],["t","he"],["\u0120","the"]]}})";
  const std::string sentence_piece =
      R"({"added_tokens":[{"id":0,"content":"<unk>","special":true}],
        "normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},
        {"type":"Replace","pattern":{"String":" "},"content":"_"}]},"pre_tokenizer":null,
        "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"_"},
        "content":" "},{"type":"ByteFallback"},{"type":"Fuse"},
        {"type":"Strip","content":" ","start":1,"stop":0}]},
        "model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,
        "vocab":{"<unk>":0,"<0xE6>":1,"<0xBC>":2,"<0xA2>":3,"a":4,"_":5,"aa":6,"_a":7},
        "merges":["a a","_ a"]}})";
  const std::string metaspace =
      R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[
        {"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true},
        {"type":"Digits","individual_digits":false},
        {"type":"Split","pattern":{"String":"l"},"behavior":"MergedWithPrevious","invert":true}]},
        "decoder":{"type":"Fuse"},"model":{"vocab":{"l":0,"1":1,"_":2},"merges":[]}})";
  return {byte_level,
          sentence_piece,
          metaspace,
          "{}",
          R"({"model":{"vocab":{},"merges":[]}})",
          R"({"decoder":{"type":"Fuse"},"pre_tokenizer":{"type":"Split","pattern":
             {"Regex":"(?:(?:a|a)*)*b"},"behavior":"Removed"},
             "model":{"vocab":{"a":0},"merges":[]}})"};
}

}  // namespace colibri::test
