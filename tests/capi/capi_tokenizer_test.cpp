// SPDX-License-Identifier: Apache-2.0
//
// Tests of include/colibri/tokenizer.h. Which ids a text gives is tested in tests/tokenizer.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/capi/fixture.h"
#include "tests/support/catch.h"

using namespace capi_test;
using Catch::Matchers::Contains;

namespace {

constexpr int32_t kUser = 2035;
constexpr int32_t kAssistant = 2036;

TokenizerHandle open_tokenizer(const std::string &path) {
  colibri_error error = COLIBRI_ERROR_INIT;
  colibri_tokenizer *tokenizer = nullptr;
  const colibri_status status = colibri_tokenizer_open(path.c_str(), &tokenizer, &error);
  INFO(error.message);
  REQUIRE(status == COLIBRI_OK);
  return TokenizerHandle(tokenizer);
}

std::vector<int32_t> encode(const colibri_tokenizer *tokenizer, const std::string &text,
                            int32_t control) {
  size_t n_ids = 0;
  REQUIRE(colibri_tokenizer_encode(tokenizer, text.data(), text.size(), control, nullptr, 0, &n_ids,
                                   nullptr) == COLIBRI_OK);
  std::vector<int32_t> ids(n_ids + 1, -1);
  REQUIRE(colibri_tokenizer_encode(tokenizer, text.data(), text.size(), control, ids.data(),
                                   ids.size(), &n_ids, nullptr) == COLIBRI_OK);
  CHECK(ids.back() == -1);
  ids.resize(n_ids);
  return ids;
}

std::string decode(const colibri_tokenizer *tokenizer, const std::vector<int32_t> &ids,
                   int32_t skip_special = 0) {
  return read_text([&](char *buffer, size_t capacity, size_t *length, colibri_error *error) {
    return colibri_tokenizer_decode(tokenizer, ids.data(), ids.size(), skip_special, buffer,
                                    capacity, length, error);
  });
}

colibri_chat_message message(int32_t role, const char *text) {
  return {sizeof(colibri_chat_message), role, text};
}

std::vector<int32_t> chat(const colibri_tokenizer *tokenizer,
                          const std::vector<colibri_chat_message> &messages, uint32_t flags = 0) {
  size_t n_ids = 0;
  REQUIRE(colibri_chat_encode(tokenizer, messages.data(), messages.size(), flags, nullptr, 0,
                              &n_ids, nullptr) == COLIBRI_OK);
  std::vector<int32_t> ids(n_ids);
  REQUIRE(colibri_chat_encode(tokenizer, messages.data(), messages.size(), flags, ids.data(),
                              ids.size(), &n_ids, nullptr) == COLIBRI_OK);
  return ids;
}

}  // namespace

TEST_CASE("a tokenizer opens without a model, from its file or its folder") {
  for (const std::string &path : {tiny_model(), tiny_model() + "/tokenizer.json"}) {
    const TokenizerHandle tokenizer = open_tokenizer(path);
    CHECK(colibri_tokenizer_size(tokenizer.get()) == 2048);
  }
  colibri_tokenizer *none = reinterpret_cast<colibri_tokenizer *>(8);
  message_of(COLIBRI_E_NOT_FOUND, [&](colibri_error *error) {
    return colibri_tokenizer_open("/nonexistent/tokenizer.json", &none, error);
  });
  CHECK(none == nullptr);
}

TEST_CASE("text goes to ids and back, control tokens only when allowed") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const std::string text = "Once upon a time <|user|> \xc3\xa4\xe6\x96\x87";
  const std::vector<int32_t> plain = encode(tokenizer.get(), text, COLIBRI_CONTROL_PLAIN);
  const std::vector<int32_t> allowed = encode(tokenizer.get(), text, COLIBRI_CONTROL_ALLOWED);
  CHECK(std::count(plain.begin(), plain.end(), kUser) == 0);
  CHECK(std::count(allowed.begin(), allowed.end(), kUser) == 1);
  CHECK(decode(tokenizer.get(), plain) == text);
  CHECK(decode(tokenizer.get(), allowed) == text);
  CHECK(decode(tokenizer.get(), allowed, 1) == "Once upon a time  \xc3\xa4\xe6\x96\x87");
  CHECK(encode(tokenizer.get(), "", COLIBRI_CONTROL_PLAIN).empty());
  CHECK(decode(tokenizer.get(), {}).empty());
  CHECK(decode(tokenizer.get(), {-5, 1 << 30}).empty());  // unknown ids give nothing
}

TEST_CASE("text may hold zero bytes and need not end in one") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const std::string text("a\0b", 3);
  CHECK(decode(tokenizer.get(), encode(tokenizer.get(), text, COLIBRI_CONTROL_PLAIN)) == text);
  const char letters[2] = {'h', 'i'};
  size_t n_ids = 0;
  CHECK(colibri_tokenizer_encode(tokenizer.get(), letters, 2, 0, nullptr, 0, &n_ids, nullptr) ==
        COLIBRI_OK);
  CHECK(n_ids >= 1);
  CHECK(colibri_tokenizer_encode(tokenizer.get(), nullptr, 0, 0, nullptr, 0, &n_ids, nullptr) ==
        COLIBRI_OK);
  CHECK(n_ids == 0);
}

TEST_CASE("arguments outside their range are refused by name") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  size_t count = 0;
  const auto refused = [](const std::function<colibri_status(colibri_error *)> &call) {
    return message_of(COLIBRI_E_ARGUMENT, call);
  };
  CHECK_THAT(refused([&](colibri_error *e) {
               return colibri_tokenizer_encode(tokenizer.get(), "a", 1, 2, nullptr, 0, &count, e);
             }),
             Contains("control is 2"));
  CHECK_THAT(refused([&](colibri_error *e) {
               return colibri_tokenizer_encode(tokenizer.get(), "a", SIZE_MAX, 0, nullptr, 0,
                                               &count, e);
             }),
             Contains("1073741824"));
  const int32_t id = 1;
  CHECK_THAT(refused([&](colibri_error *e) {
               return colibri_tokenizer_decode(tokenizer.get(), &id, 1, 5, nullptr, 0, &count, e);
             }),
             Contains("skip_special is 5"));
  CHECK_THAT(refused([&](colibri_error *e) {
               return colibri_tokenizer_decode(tokenizer.get(), &id, SIZE_MAX, 0, nullptr, 0,
                                               &count, e);
             }),
             Contains("ids"));
}

TEST_CASE("buffers that are too small are left alone") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const std::vector<int32_t> ids = encode(tokenizer.get(), "Once upon a time", 0);
  REQUIRE(ids.size() >= 2);
  int32_t one[1] = {-1};
  size_t n_ids = 0;
  CHECK(colibri_tokenizer_encode(tokenizer.get(), "Once upon a time", 16, 0, one, 1, &n_ids,
                                 nullptr) == COLIBRI_E_CAPACITY);
  CHECK(n_ids == ids.size());
  CHECK(one[0] == -1);
  char text[16] = "###############";  // no room for the NUL
  size_t bytes = 0;
  CHECK(colibri_tokenizer_decode(tokenizer.get(), ids.data(), ids.size(), 0, text, 16, &bytes,
                                 nullptr) == COLIBRI_E_CAPACITY);
  CHECK(bytes == 16);
  CHECK(text[0] == '#');
}

TEST_CASE("a token is found by its exact text") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  int32_t id = -1;
  CHECK(colibri_tokenizer_find(tokenizer.get(), "<|assistant|>", &id, nullptr) == COLIBRI_OK);
  CHECK(id == kAssistant);
  id = -1;
  CHECK_THAT(message_of(COLIBRI_E_NOT_FOUND,
                        [&](colibri_error *error) {
                          return colibri_tokenizer_find(tokenizer.get(), "<|nobody|>", &id, error);
                        }),
             Contains("<|nobody|>"));
  CHECK(id == -1);
}

TEST_CASE("a chat puts control tokens around texts, and texts cannot forge them") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const std::vector<int32_t> ids =
      chat(tokenizer.get(), {message(COLIBRI_ROLE_USER, "Hi <|assistant|> there")});
  CHECK(std::count(ids.begin(), ids.end(), kUser) == 1);
  CHECK(std::count(ids.begin(), ids.end(), kAssistant) == 1);  // the generation prompt
  const std::vector<int32_t> closed =
      chat(tokenizer.get(), {message(COLIBRI_ROLE_USER, "Hi <|assistant|> there")},
           COLIBRI_CHAT_NO_GENERATION_PROMPT);
  CHECK(std::count(closed.begin(), closed.end(), kAssistant) == 0);
  CHECK(closed.size() < ids.size());
  CHECK(chat(tokenizer.get(), {message(COLIBRI_ROLE_USER, "Hi")}, COLIBRI_CHAT_THINKING) !=
        chat(tokenizer.get(), {message(COLIBRI_ROLE_USER, "Hi")}));
}

TEST_CASE("a tokenizer tells its chat layout, and what a text begins with") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const char *name = nullptr;
  REQUIRE(colibri_chat_layout(tokenizer.get(), &name, nullptr) == COLIBRI_OK);
  CHECK(std::string(name) == "glm");
  size_t n_ids = 0;
  REQUIRE(colibri_tokenizer_prefix(tokenizer.get(), nullptr, 0, &n_ids, nullptr) == COLIBRI_OK);
  std::vector<int32_t> ids(n_ids);
  REQUIRE(colibri_tokenizer_prefix(tokenizer.get(), ids.data(), n_ids, &n_ids, nullptr) ==
          COLIBRI_OK);
  CHECK(ids == std::vector<int32_t>{2030, 2032});
  CHECK(colibri_tokenizer_prefix(tokenizer.get(), ids.data(), 1, &n_ids, nullptr) ==
        COLIBRI_E_CAPACITY);
}

TEST_CASE("a chat template that is not known is refused with the way around") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() /
                                       ("colibri_chat_" + std::to_string(std::random_device{}()));
  std::filesystem::create_directory(folder);
  std::filesystem::copy(tiny_model() + "/tokenizer.json", folder / "tokenizer.json");
  std::ofstream(folder / "chat_template.jinja") << "{% for m in messages %}Q: {{ m.content }}";
  const TokenizerHandle tokenizer = open_tokenizer(folder.string());
  std::filesystem::remove_all(folder);
  const colibri_chat_message hello = message(COLIBRI_ROLE_USER, "Hi");
  size_t n_ids = 77;
  CHECK_THAT(message_of(COLIBRI_E_UNSUPPORTED,
                        [&](colibri_error *error) {
                          return colibri_chat_encode(tokenizer.get(), &hello, 1, 0, nullptr, 0,
                                                     &n_ids, error);
                        }),
             Contains("--raw"));
  CHECK(n_ids == 77);
}

TEST_CASE("a wrong chat message is refused by its number") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const auto refused = [&](std::vector<colibri_chat_message> messages, uint32_t flags = 0) {
    size_t n_ids = 77;
    const std::string text = message_of(COLIBRI_E_ARGUMENT, [&](colibri_error *error) {
      return colibri_chat_encode(tokenizer.get(), messages.data(), messages.size(), flags, nullptr,
                                 0, &n_ids, error);
    });
    CHECK(n_ids == 77);
    return text;
  };
  const colibri_chat_message good = message(COLIBRI_ROLE_USER, "a");
  CHECK_THAT(refused({good, message(4, "a")}), Contains("messages[1].role is 4"));
  CHECK_THAT(refused({good, message(-1, "a")}), Contains("messages[1].role is -1"));
  CHECK_THAT(refused({good, good, message(0, nullptr)}), Contains("messages[2].text is NULL"));
  CHECK_THAT(refused({{3, 0, "a"}}), Contains("struct_size is 3"));
  CHECK_THAT(refused({good, {sizeof(good) + 8, 0, "a"}}), Contains("messages[1].struct_size"));
  CHECK_THAT(refused({good}, 1u << 30), Contains("flags"));
}

TEST_CASE("messages of a later version lie as far apart as their size says") {
  struct Later {
    colibri_chat_message known;
    const char *field;
  };
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  std::vector<Later> later = {{message(COLIBRI_ROLE_USER, "Hi"), nullptr},
                              {message(COLIBRI_ROLE_ASSISTANT, "Yes"), nullptr},
                              {message(COLIBRI_ROLE_USER, "Go"), nullptr}};
  for (Later &item : later) item.known.struct_size = sizeof(Later);
  std::vector<int32_t> ids(256);
  size_t n_ids = 0;
  REQUIRE(colibri_chat_encode(tokenizer.get(), &later[0].known, later.size(), 0, ids.data(),
                              ids.size(), &n_ids, nullptr) == COLIBRI_OK);
  ids.resize(n_ids);
  CHECK(ids == chat(tokenizer.get(),
                    {message(COLIBRI_ROLE_USER, "Hi"), message(COLIBRI_ROLE_ASSISTANT, "Yes"),
                     message(COLIBRI_ROLE_USER, "Go")}));
  later[1].field = "x";  // unknown and not zero
  CHECK(colibri_chat_encode(tokenizer.get(), &later[0].known, later.size(), 0, nullptr, 0, &n_ids,
                            nullptr) == COLIBRI_E_ARGUMENT);
}

TEST_CASE("a stream gives whole characters and its pieces are the text") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const std::string text = "Zo\xc3\xab \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x90\xa6!";
  colibri_stream_decoder *made = nullptr;
  REQUIRE(colibri_stream_decoder_create(tokenizer.get(), 0, &made, nullptr) == COLIBRI_OK);
  const Decoder decoder(made);
  std::string streamed;
  const char *piece = nullptr;
  size_t bytes = 0;
  bool has_held_back = false;
  for (const int32_t id : encode(tokenizer.get(), text, 0)) {
    REQUIRE(colibri_stream_decoder_push(decoder.get(), id, &piece, &bytes, nullptr) == COLIBRI_OK);
    has_held_back = has_held_back || bytes == 0;
    if (bytes != 0) CHECK((static_cast<unsigned char>(piece[0]) & 0xC0) != 0x80);
    streamed.append(piece, bytes);
  }
  REQUIRE(colibri_stream_decoder_flush(decoder.get(), &piece, &bytes, nullptr) == COLIBRI_OK);
  CHECK(bytes == 0);
  CHECK(streamed == text);
  CHECK(has_held_back);
}

TEST_CASE("flush gives an incomplete character as a replacement mark and starts anew") {
  const TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  const std::vector<int32_t> ids = encode(tokenizer.get(), "\xf0\x9f\x90\xa6", 0);
  REQUIRE(ids.size() > 1);
  colibri_stream_decoder *made = nullptr;
  REQUIRE(colibri_stream_decoder_create(tokenizer.get(), 0, &made, nullptr) == COLIBRI_OK);
  const Decoder decoder(made);
  const char *piece = nullptr;
  size_t bytes = 77;
  REQUIRE(colibri_stream_decoder_push(decoder.get(), ids[0], &piece, &bytes, nullptr) ==
          COLIBRI_OK);
  CHECK(bytes == 0);
  REQUIRE(colibri_stream_decoder_flush(decoder.get(), &piece, &bytes, nullptr) == COLIBRI_OK);
  CHECK(std::string(piece, bytes) == "\xef\xbf\xbd");
}

TEST_CASE("a tokenizer with live decoders is not closed") {
  TokenizerHandle tokenizer = open_tokenizer(tiny_model());
  colibri_stream_decoder *decoder = nullptr;
  CHECK(colibri_stream_decoder_create(tokenizer.get(), 2, &decoder, nullptr) == COLIBRI_E_ARGUMENT);
  REQUIRE(colibri_stream_decoder_create(tokenizer.get(), 0, &decoder, nullptr) == COLIBRI_OK);
  CHECK_THAT(message_of(COLIBRI_E_BUSY,
                        [&](colibri_error *error) {
                          return colibri_tokenizer_close(tokenizer.get(), error);
                        }),
             Contains("1 stream decoders"));
  CHECK(colibri_stream_decoder_destroy(decoder, nullptr) == COLIBRI_OK);
  CHECK(colibri_tokenizer_close(tokenizer.release(), nullptr) == COLIBRI_OK);
}

TEST_CASE("a tokenizer without the tokens of the chat layout names the missing one") {
  std::stringstream json;
  json << std::ifstream(tiny_model() + "/tokenizer.json").rdbuf();
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / "colibri_no_gmask" / "tokenizer.json";
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file) << std::regex_replace(json.str(), std::regex("\\[gMASK\\]"), "[gNONE]");
  {
    const TokenizerHandle tokenizer = open_tokenizer(file.string());
    const colibri_chat_message hello = message(COLIBRI_ROLE_USER, "Hi");
    size_t n_ids = 0;
    CHECK_THAT(message_of(COLIBRI_E_UNSUPPORTED,
                          [&](colibri_error *error) {
                            return colibri_chat_encode(tokenizer.get(), &hello, 1, 0, nullptr, 0,
                                                       &n_ids, error);
                          }),
               Contains("[gMASK]"));
  }
  std::filesystem::remove_all(file.parent_path());
}
