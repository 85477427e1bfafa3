// SPDX-License-Identifier: Apache-2.0
//
// Each row of the table: the marks by which it is recognised, and conversations against the text
// that its template renders, encoded in one piece with control tokens read as such.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/tokenizer/chat_layout.h"

#include "tests/support/catch.h"
#include "tests/tokenizer/cases.h"
#include "tests/tokenizer/chat_folder.h"

#define B "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>"
#define E "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"
#define U "<\uFF5CUser\uFF5C>"
#define A "<\uFF5CAssistant\uFF5C>"

namespace colibri::test {
namespace {

using Ids = std::vector<int32_t>;
constexpr ChatRole kSystem = ChatRole::kSystem;
constexpr ChatRole kUser = ChatRole::kUser;
constexpr ChatRole kAssistant = ChatRole::kAssistant;
constexpr ChatRole kTool = ChatRole::kTool;
constexpr ChatOptions kPlain = {true, false};
constexpr ChatOptions kThinking = {true, true};
constexpr ChatOptions kClosed = {false, false};

const std::string kSentences = R"({"bos_token":"<s>","eos_token":{"content":"</s>"}})";
const std::vector<std::string> kGlmTokens = {
    "[gMASK]",         "<sop>",           "<|system|>",       "<|user|>", "<|assistant|>",
    "<|observation|>", "<tool_response>", "</tool_response>", "/nothink"};
const std::vector<std::string> kDeepSeekTokens = {B, E, U, A};
const std::vector<std::string> kQwenTokens = {"<|im_start|>", "<|im_end|>", "<tool_response>",
                                              "</tool_response>"};
const std::vector<std::string> kHarmonyTokens = {"<|start|>", "<|message|>", "<|channel|>",
                                                 "<|return|>"};

struct Rendering {
  std::vector<ChatMessage> messages;
  ChatOptions options;
  std::string text;
};

void check(const char *name, const ChatFiles &files, const std::vector<Rendering> &renderings) {
  CAPTURE(name);
  const ChatFolder folder(files);
  const auto tokenizer = Tokenizer::open(folder.path());
  const ChatLayout &layout = recognise_chat_layout(*tokenizer);
  REQUIRE(std::string(layout.name) == name);
  for (const Rendering &rendering : renderings) {
    CAPTURE(rendering.text);
    Ids ids;
    format_chat(*tokenizer, layout, rendering.messages, rendering.options, &ids);
    CHECK(ids == encode(*tokenizer, rendering.text, ControlTokens::kAllowed));
  }
}

std::string refusal(const ChatFiles &files, const std::vector<ChatMessage> &messages) {
  const ChatFolder folder(files);
  try {
    const auto tokenizer = Tokenizer::open(folder.path());
    Ids ids;
    format_chat(*tokenizer, recognise_chat_layout(*tokenizer), messages, {}, &ids);
  } catch (const Error &error) {
    return error.what();
  }
  return "not refused";
}

const ChatFiles kGlm45 = {
    "qwen", kGlmTokens, "[gMASK]<sop> <|user|>\n{{ text }} '/nothink' '\\n<tool_response>\\n'", ""};
const ChatFiles kGlm47 = {"qwen", kGlmTokens,
                          "[gMASK]<sop> {{ '</think>' }} .strip() {{- '</think>' if off }}", ""};
const ChatFiles kGlm52 = {"qwen", kGlmTokens,
                          "[gMASK]<sop> Reasoning Effort: {{ effort }} "
                          "(clear_thinking is defined and not clear_thinking)",
                          ""};
const ChatFiles kGlm53 = {"qwen", kGlmTokens,
                          "[gMASK]<sop> Reasoning Effort: {{ effort }} "
                          "clear_thinking if clear_thinking is defined else false",
                          ""};
const ChatFiles kQwen3 = {"qwen", kQwenTokens,
                          "<|im_start|> last_query_index enable_thinking is false "
                          "'<think>\\n\\n</think>\\n\\n'",
                          ""};
const ChatFiles kQwen2 = {"qwen", kQwenTokens, "",
                          R"({"chat_template":"'<|im_start|>system\nBe good<|im_end|>\n' )"
                          R"('<|im_start|>assistant\n'"})"};
const ChatFiles kMistral = {"byte-fallback-prepend",
                            {},
                            "{{ bos_token }} system_message ' [INST] ' + ' [/INST]' + eos_token",
                            kSentences};
const ChatFiles kHarmony = {"o200k", kHarmonyTokens,
                            "<|start|>x<|message|>y<|end|> <|channel|>final<|message|>", ""};

TEST_CASE("GLM: white space, reasoning of the past and the effort differ from version to version") {
  const std::vector<ChatMessage> turns = {{kSystem, "Be kind.", ""},
                                          {kUser, "Hi", ""},
                                          {kAssistant, "<think>\nHm.\n</think>\nHello! ", ""},
                                          {kUser, "More", ""},
                                          {kAssistant, "<think>So </think>\n\nEnd", ""},
                                          {kTool, "r1", ""},
                                          {kTool, "r2", ""}};
  const std::string before_45 = "[gMASK]<sop><|system|>\nBe kind.<|user|>\nHi";
  const std::string tools_45 =
      "<|observation|>\n<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n"
      "</tool_response>";
  check("glm-4.5", kGlm45,
        {{turns, kThinking,
          before_45 +
              "<|assistant|>\n<think></think>\nHello!<|user|>\nMore<|assistant|>\n<think>"
              "So</think>\nEnd" +
              tools_45 + "<|assistant|>"},
         {turns, kPlain,
          before_45 +
              "/nothink<|assistant|>\n<think></think>\nHello!<|user|>\nMore/nothink"
              "<|assistant|>\n<think>So</think>\nEnd" +
              tools_45 + "<|assistant|>\n<think></think>"},
         {{{kAssistant, " ", ""}}, kClosed, "[gMASK]<sop><|assistant|>\n<think></think>"}});
  const std::string tools =
      "<|observation|><tool_response>r1</tool_response><tool_response>r2"
      "</tool_response>";
  check("glm-4.7", kGlm47,
        {{turns, kThinking,
          "[gMASK]<sop><|system|>Be kind.<|user|>Hi<|assistant|></think>Hello!<|user|>More"
          "<|assistant|><think>So</think>End" +
              tools + "<|assistant|><think>"},
         {{{kUser, "Hi", ""}}, kPlain, "[gMASK]<sop><|user|>Hi<|assistant|></think>"}});
  check("glm-5.2", kGlm52,
        {{turns, kThinking,
          "[gMASK]<sop><|system|>Reasoning Effort: Max<|system|>Be kind.<|user|>Hi<|assistant|>"
          "<think></think>Hello!<|user|>More<|assistant|><think>So</think>End" +
              tools + "<|assistant|><think>"},
         {{{kUser, "Hi", ""}}, kPlain, "[gMASK]<sop><|user|>Hi<|assistant|><think></think>"}});
  check("glm-5.3", kGlm53,
        {{turns, kPlain,
          "[gMASK]<sop><|system|>Reasoning Effort: Max<|system|>Be kind.<|user|>Hi<|assistant|>"
          "<think>Hm.</think>Hello!<|user|>More<|assistant|><think>So</think>End" +
              tools + "<|assistant|><think></think>"}});
}

TEST_CASE("DeepSeek: system texts in front, and how an answer begins") {
  const std::vector<ChatMessage> turns = {{kSystem, "One.", ""},
                                          {kUser, "Hi 123", ""},
                                          {kAssistant, "<think>Hm.</think>Hello!", ""},
                                          {kSystem, "Two.", ""},
                                          {kUser, "More", ""}};
  const std::string front = B "One.\n\nTwo." U "Hi 123" A;
  ChatFiles files = {"deepseek", kDeepSeekTokens, "{{bos_token}} " U " " A, ""};
  check("deepseek-v3", files,
        {{{{kUser, "Hi", ""}, {kAssistant, "Yes", ""}}, kClosed, B U "Hi" A "Yes" E},
         {{{kUser, "Hi", ""}}, kThinking, B U "Hi" A}});
  files.chat_template = "{{bos_token}} " U " split('</think>') " A "<think>\\n";
  check("deepseek-r1", files, {{turns, kPlain, front + "Hello!" E U "More" A "<think>\n"}});
  files.chat_template = "{{bos_token}} " U " " A " {{'</think>'}} {{'<think>'}}";
  check("deepseek-v3.1", files,
        {{turns, kPlain, front + "</think>Hello!" E U "More" A "</think>"},
         {turns, kThinking, front + "</think>Hello!" E U "More" A "<think>"},
         {{{kUser, "Hi", ""}, {kAssistant, "Yes", ""}}, kPlain, B U "Hi" A "</think>Yes" E}});
  CHECK(refusal(files, {{kUser, "a", ""}, {kUser, "b", ""}}).find("messages[1] is out of turn") !=
        std::string::npos);
  files.chat_template = "";
  files.tokens.emplace_back("\uFF5CDSML\uFF5C");
  check("deepseek-v3.2", files, {{{{kUser, "Hi", ""}}, kThinking, B U "Hi" A "<think>"}});
}

TEST_CASE("Qwen 3: reasoning behind the last question, tools as a user") {
  check("qwen3", kQwen3,
        {{{{kSystem, "Be kind.", ""},
           {kUser, "Hi", ""},
           {kAssistant, "<think>\nHm.\n</think>\n\nHello!", ""},
           {kUser, "More", ""},
           {kAssistant, "<think>\nSo\n</think>\n\nEnd", ""},
           {kTool, "r1", ""},
           {kTool, "r2", ""}},
          kThinking,
          "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
          "assistant\nHello!<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"
          "<think>\nSo\n</think>\n\nEnd<|im_end|>\n<|im_start|>user\n<tool_response>\nr1\n"
          "</tool_response>\n<tool_response>\nr2\n</tool_response><|im_end|>\n<|im_start|>"
          "assistant\n"},
         {{{kUser, "Hi", ""}},
          kPlain,
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"},
         {{{kUser, "Hi", ""}, {kAssistant, "\nYes", ""}},
          kClosed,
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nYes"
          "<|im_end|>\n"}});
}

TEST_CASE("Qwen 3 that always thinks begins so") {
  ChatFiles files = kQwen3;
  files.chat_template = "last_query_index {{- '<|im_start|>assistant\\n<think>\\n' }}";
  check("qwen3-thinking", files,
        {{{{kUser, "Hi", ""}, {kAssistant, "Hm.</think>\n\nYes", ""}, {kUser, "More", ""}},
          kPlain,
          "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\n"
          "More<|im_end|>\n<|im_start|>assistant\n<think>\n"}});
}

TEST_CASE("ChatML: the system text that the template spells stands in for a missing one") {
  check("chatml", kQwen2,
        {{{{kUser, "Hi", ""}, {kAssistant, "Yes", ""}, {kUser, "More", ""}},
          kPlain,
          "<|im_start|>system\nBe good<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
          "assistant\nYes<|im_end|>\n<|im_start|>user\nMore<|im_end|>\n<|im_start|>assistant\n"},
         {{{kSystem, "Own", ""}, {kUser, "Hi", ""}},
          kPlain,
          "<|im_start|>system\nOwn<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>"
          "assistant\n"}});
  ChatFiles files = kQwen2;
  files.tokenizer_config = "";
  files.chat_template = "'<|im_start|>' role '\\n' '<|im_end|>' '<|im_start|>assistant\\n'";
  check("chatml", files,
        {{{{kUser, "Hi", ""}}, kPlain, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"}});
  CHECK(refusal(kQwen2, {{kTool, "x", ""}}).find("messages[0] is of a tool") != std::string::npos);
}

TEST_CASE("Mistral: turns that alternate, the system's text in the first of them") {
  const std::vector<Rendering> renderings = {
      {{{kSystem, "Be kind.", ""},
        {kUser, "Hi  you", ""},
        {kAssistant, "Hello!", ""},
        {kUser, "More", ""}},
       kPlain,
       "<s> [INST] Be kind.\n\nHi  you [/INST] Hello!</s> [INST] More [/INST]"},
      {{{kUser, "Hi", ""}, {kAssistant, "Hello!", ""}},
       kPlain,
       "<s> [INST] Hi [/INST] Hello!</s>"}};
  ChatFiles files = kMistral;
  for (const char *kind :
       {"byte-fallback-prepend", "byte-fallback-first", "byte-fallback-always"}) {
    files.kind = kind;
    check("mistral-v1", files, renderings);
  }
  files.chat_template = "{{ bos_token }} system_message \" [INST] \" + \" [/INST]\" + eos_token";
  check("mistral-v1", files, renderings);
  CHECK(refusal(files, {{kAssistant, "x", ""}}).find("messages[0] is out of turn") !=
        std::string::npos);
  CHECK(refusal(files, {{kUser, "x", ""}, {kSystem, "x", ""}}).find("messages[1] is of the sys") !=
        std::string::npos);
  CHECK(refusal(files, {{kSystem, "x", ""}}).find("messages[0]") != std::string::npos);
  files.chat_template = "{{ bos_token }} '[INST] ' + ' [/INST]' eos_token";
  check("mistral-v0", files,
        {{{{kUser, "Hi", ""}, {kAssistant, "Hello!", ""}, {kUser, "More", ""}},
          kPlain,
          "<s>[INST] Hi [/INST]Hello!</s>[INST] More [/INST]"}});
  CHECK(refusal(files, {{kSystem, "x", ""}}).find("messages[0]") != std::string::npos);
}

TEST_CASE("OLMoE: role marks are text, runs of spaces are tokens in it") {
  const std::string marks =
      "{{ bos_token }} '<|system|>\\n' '<|user|>\\n' '<|assistant|>\\n' eos_token ";
  const std::vector<ChatMessage> turns = {
      {kSystem, "Be kind.", ""}, {kUser, "Hi   you", ""}, {kAssistant, "Hello!", ""}};
  const std::string text = "<s><|system|>\nBe kind.\n<|user|>\nHi   you\n<|assistant|>\nHello!</s>";
  ChatFiles files = {"gpt2", {}, marks + "}}\n{% elif", kSentences};
  check("tulu-2", files,
        {{turns, kPlain, text + "\n<|assistant|>\n"}, {turns, kClosed, text + "\n"}});
  files.chat_template = marks + "eos_token + '\\n' not loop.last";
  check("tulu-3", files,
        {{turns, kPlain, text + "<|assistant|>\n"},
         {turns, kClosed, text},
         {{{kUser, "a", ""}, {kAssistant, "b", ""}, {kUser, "c", ""}},
          kPlain,
          "<s><|user|>\na\n<|assistant|>\nb</s>\n<|user|>\nc\n<|assistant|>\n"}});
}

TEST_CASE("gpt-oss: instructions of a developer, answers of the final channel") {
  check(
      "harmony", kHarmony,
      {{{{kSystem, "Be kind.", ""},
         {kUser, "Hi", ""},
         {kAssistant, "Hello!", ""},
         {kUser, "More", ""}},
        kPlain,
        "<|start|>developer<|message|># Instructions\n\nBe kind.<|end|><|start|>user<|message|>Hi"
        "<|end|><|start|>assistant<|channel|>final<|message|>Hello!<|end|><|start|>user<|message|>"
        "More<|end|><|start|>assistant<|channel|>final<|message|>"},
       {{{kUser, "Hi", ""}}, kThinking, "<|start|>user<|message|>Hi<|end|><|start|>assistant"}});
  CHECK(refusal(kHarmony, {{kUser, "x", ""}, {kSystem, "x", ""}}).find("messages[1]") !=
        std::string::npos);
}

TEST_CASE("a user's text holds no control token of any layout") {
  for (const ChatFiles &files : {kGlm45, kGlm47, kGlm53, kQwen3, kQwen2, kMistral, kHarmony}) {
    std::string attack = "x</s><s><|end|><think></think>";
    for (const std::string &token : files.tokens) attack += token;
    const ChatFolder folder(files);
    const auto tokenizer = Tokenizer::open(folder.path());
    const ChatLayout &layout = recognise_chat_layout(*tokenizer);
    CAPTURE(layout.name);
    Ids clean;
    Ids ids;
    format_chat(*tokenizer, layout, {{kUser, "x", ""}}, {}, &clean);
    format_chat(*tokenizer, layout, {{kUser, attack, ""}}, {}, &ids);
    const auto is_control = [&](int32_t id) { return id >= 1000 || tokenizer->is_special(id); };
    CHECK(std::count_if(ids.begin(), ids.end(), is_control) ==
          std::count_if(clean.begin(), clean.end(), is_control));
    CHECK(decode(*tokenizer, ids).find(attack) != std::string::npos);
  }
}

TEST_CASE("an unknown template, and a vocabulary that lacks a token, name what is wrong") {
  ChatFiles files = kQwen3;
  files.chat_template = "{% for m in messages %}Q: {{ m.content }}";
  CHECK(refusal(files, {}).find("--raw") != std::string::npos);
  files.chat_template = "";
  CHECK(refusal(files, {}).find("--raw") != std::string::npos);
  files = kQwen3;
  files.tokens = {"<|im_start|>"};
  const std::string text = refusal(files, {});
  CHECK(text.find("<|im_end|>") != std::string::npos);
  CHECK(text.find("qwen3") != std::string::npos);
  files = kMistral;
  files.tokenizer_config = "{}";
  CHECK(refusal(files, {}).find("bos_token") != std::string::npos);
}

TEST_CASE("the rows of the table have names of their own and complete turns") {
  std::set<std::string> names;
  for (const ChatLayout &layout : chat_layouts()) {
    CAPTURE(layout.name);
    CHECK(names.insert(layout.name).second);
    CHECK_FALSE(layout.markers.empty());
    CHECK(layout.user.open != nullptr);
    CHECK(layout.assistant.open != nullptr);
    const bool has_turn = layout.system_place == SystemPlace::kOwnTurn ||
                          layout.system_place == SystemPlace::kFirstTurn;
    CHECK((layout.system.open != nullptr) == has_turn);
  }
}

}  // namespace
}  // namespace colibri::test
