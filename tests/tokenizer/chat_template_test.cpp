// SPDX-License-Identifier: Apache-2.0

#include "lib/tokenizer/chat_template.h"

#include "lib/base/status.h"
#include "lib/tokenizer/tokenizer.h"

#include "tests/support/catch.h"
#include "tests/tokenizer/chat_folder.h"

namespace colibri::test {
namespace {

ChatTemplate read(const std::string &config, const std::string &chat_template = "") {
  ChatFiles files;
  files.tokenizer_config = config;
  files.chat_template = chat_template;
  return read_chat_template(ChatFolder(files).path());
}

TEST_CASE("a chat template is a file, a text, or the default of a list") {
  CHECK(read(R"({"chat_template":"a"})").text == "a");
  CHECK(read(R"({"chat_template":"a"})", "b\n").text == "b\n");
  CHECK(read("", "b").text == "b");
  CHECK(read(R"({"chat_template":[{"name":"tool_use","template":"t"},
                                  {"name":"default","template":"d"}]})")
            .text == "d");
  CHECK(read(R"({"chat_template":[{"name":"rag","template":"t"}]})").text.empty());
  CHECK(read(R"({"chat_template":null})").text.empty());
  CHECK(read("").text.empty());
}

TEST_CASE("the tokens that templates call by role are a text or an object") {
  const ChatTemplate chat = read(R"({"bos_token":{"content":"<s>"},"eos_token":"</s>"})");
  CHECK(chat.bos_token == "<s>");
  CHECK(chat.eos_token == "</s>");
  CHECK(read(R"({"bos_token":null})").bos_token.empty());
}

TEST_CASE("damaged or huge template files are refused") {
  CHECK_THROWS_AS(read("<html>"), Error);
  const std::string huge(kMaxChatTemplateBytes + 1, 'x');
  CHECK_THROWS_AS(read(R"({"chat_template":")" + huge + "\"}"), Error);
  CHECK_THROWS_AS(read("", huge), Error);
}

TEST_CASE("a tokenizer reads what stands beside its file") {
  ChatFiles files;
  files.chat_template = "x";
  const ChatFolder folder(files);
  CHECK(Tokenizer::open(folder.path())->chat_template().text == "x");
  CHECK(Tokenizer::open(folder.path() + "/tokenizer.json")->chat_template().text == "x");
}

}  // namespace
}  // namespace colibri::test
