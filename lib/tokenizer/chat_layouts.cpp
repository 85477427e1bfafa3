// SPDX-License-Identifier: Apache-2.0
//
// The table of layouts. A row is written only from a published template; what a template says for
// tools beyond their results is left out. Markers are the shortest texts that tell the templates of
// a family apart, in the spelling that unify_spelling() of chat_layout.cpp makes. Order matters
// where a row's markers also occur in the template of another.

#include "lib/tokenizer/chat_layout.h"

namespace colibri {
namespace {

#define BOS COLIBRI_CHAT_BOS
#define EOS COLIBRI_CHAT_EOS

// GLM.
constexpr const char *kGlmControls[] = {
    "[gMASK]",         "<sop>",   "<|system|>", "<|user|>",        "<|assistant|>",
    "<|observation|>", "<think>", "</think>",   "<tool_response>", "</tool_response>"};
constexpr const char *kGlm45Controls[] = {"[gMASK]",          "<sop>",         "<|system|>",
                                          "<|user|>",         "<|assistant|>", "<|observation|>",
                                          "<think>",          "</think>",      "<tool_response>",
                                          "</tool_response>", "/nothink"};
constexpr const char *kGlm45Markers[] = {"[gMASK]<sop>", "'/nothink'", "<|user|>\n{{",
                                         "\n<tool_response>\n"};
constexpr const char *kGlm47Markers[] = {"[gMASK]<sop>", "{{ '</think>' }}", "{{- '</think>' if"};
constexpr const char *kGlm52Markers[] = {"[gMASK]<sop>",
                                         "Reasoning Effort:", "is defined and not clear_thinking"};
constexpr const char *kGlm53Markers[] = {
    "[gMASK]<sop>", "Reasoning Effort:", "clear_thinking is defined else false"};
constexpr const char *kGlmPlainMarkers[] = {"[gMASK]<sop>", "<|user|>{{", "<|observation|>",
                                            "<think>"};
constexpr const char *kGlmPlainExclusions[] = {"strip()", "/nothink", "Reasoning Effort"};

constexpr ChatLayout kGlmPlain = {.name = "glm",
                                  .controls = kGlmControls,
                                  .markers = kGlmPlainMarkers,
                                  .exclusions = kGlmPlainExclusions,
                                  .fits_without_template = true,
                                  .start = "[gMASK]<sop>",
                                  .system = {"<|system|>"},
                                  .user = {"<|user|>"},
                                  .assistant = {"<|assistant|>"},
                                  .tool = {"<tool_response>", "</tool_response>"},
                                  .tool_run_open = "<|observation|>",
                                  .reasoning = {.open = "<think>",
                                                .close = "</think>",
                                                .absent = "<think></think>",
                                                .is_split = true},
                                  .answer_tokens = ControlTokens::kNotSpecial,
                                  .generation = "<|assistant|><think></think>",
                                  .thinking_generation = "<|assistant|><think>"};

constexpr ChatLayout make_glm47() {
  ChatLayout layout = kGlmPlain;
  layout.name = "glm-4.7";
  layout.markers = kGlm47Markers;
  layout.exclusions = kGlmPlainExclusions;
  layout.exclusions = layout.exclusions.subspan(1);
  layout.fits_without_template = false;
  layout.reasoning.absent = "</think>";
  layout.trim = ChatTrim::kSpaces;
  layout.generation = "<|assistant|></think>";
  return layout;
}

constexpr ChatLayout make_glm52() {
  ChatLayout layout = kGlmPlain;
  layout.name = "glm-5.2";
  layout.markers = kGlm52Markers;
  layout.exclusions = {};
  layout.fits_without_template = false;
  layout.thinking_start = "<|system|>Reasoning Effort: Max";
  layout.trim = ChatTrim::kSpaces;
  return layout;
}

constexpr ChatLayout make_glm53() {
  ChatLayout layout = make_glm52();
  layout.name = "glm-5.3";
  layout.markers = kGlm53Markers;
  layout.start = "[gMASK]<sop><|system|>Reasoning Effort: Max";
  layout.thinking_start = "";
  layout.reasoning.keeps_past = true;
  return layout;
}

constexpr ChatLayout make_glm45() {
  ChatLayout layout = kGlmPlain;
  layout.name = "glm-4.5";
  layout.controls = kGlm45Controls;
  layout.markers = kGlm45Markers;
  layout.exclusions = {};
  layout.fits_without_template = false;
  layout.system = {"<|system|>\n"};
  layout.user = {"<|user|>\n"};
  layout.tool = {"\n<tool_response>\n", "\n</tool_response>"};
  layout.user_close_without_thinking = "/nothink";
  layout.reasoning.open = "\n<think>";
  layout.reasoning.absent = "\n<think></think>";
  layout.trim = ChatTrim::kSpaces;
  layout.answer_open = "\n";
  layout.generation = "<|assistant|>\n<think></think>";
  layout.thinking_generation = "<|assistant|>";
  return layout;
}

// DeepSeek. V3.2 comes without a template; its vocabulary has a token that no earlier one has.
constexpr const char *kDeepSeekControls[] = {"<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>",
                                             "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
                                             "<\uFF5CUser\uFF5C>", "<\uFF5CAssistant\uFF5C>"};
constexpr const char *kDeepSeekThinkControls[] = {"<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>",
                                                  "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
                                                  "<\uFF5CUser\uFF5C>",
                                                  "<\uFF5CAssistant\uFF5C>",
                                                  "<think>",
                                                  "</think>"};
constexpr const char *kDeepSeek32Controls[] = {"<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>",
                                               "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
                                               "<\uFF5CUser\uFF5C>",
                                               "<\uFF5CAssistant\uFF5C>",
                                               "<think>",
                                               "</think>",
                                               "\uFF5CDSML\uFF5C"};
constexpr const char *kDeepSeekMarkers[] = {"bos_token", "<\uFF5CUser\uFF5C>",
                                            "<\uFF5CAssistant\uFF5C>"};
constexpr const char *kDeepSeekExclusions[] = {"think>"};
constexpr const char *kDeepSeekR1Markers[] = {"bos_token", "<\uFF5CUser\uFF5C>",
                                              "<\uFF5CAssistant\uFF5C><think>\n", "'</think>'"};
constexpr const char *kDeepSeek31Markers[] = {"bos_token", "<\uFF5CUser\uFF5C>", "{{'</think>'}}",
                                              "{{'<think>'}}"};

constexpr ChatLayout kDeepSeek3 = {
    .name = "deepseek-v3",
    .controls = kDeepSeekControls,
    .markers = kDeepSeekMarkers,
    .exclusions = kDeepSeekExclusions,
    .start = "<\uFF5Cbegin\u2581of\u2581sentence\uFF5C>",
    .user = {"<\uFF5CUser\uFF5C>"},
    .assistant = {"<\uFF5CAssistant\uFF5C>", "<\uFF5Cend\u2581of\u2581sentence\uFF5C>"},
    .system_place = SystemPlace::kInFront,
    .system_join = "\n\n",
    .generation = "<\uFF5CAssistant\uFF5C>",
    .thinking_generation = "<\uFF5CAssistant\uFF5C>"};

constexpr ChatLayout make_deepseek_r1() {
  ChatLayout layout = kDeepSeek3;
  layout.name = "deepseek-r1";
  layout.controls = kDeepSeekThinkControls;
  layout.markers = kDeepSeekR1Markers;
  layout.exclusions = {};
  layout.reasoning.is_split = true;
  layout.generation = "<\uFF5CAssistant\uFF5C><think>\n";
  layout.thinking_generation = layout.generation;
  return layout;
}

constexpr ChatLayout make_deepseek31() {
  ChatLayout layout = kDeepSeek3;
  layout.name = "deepseek-v3.1";
  layout.controls = kDeepSeekThinkControls;
  layout.markers = kDeepSeek31Markers;
  layout.exclusions = {};
  layout.reasoning.is_split = true;
  layout.reasoning.absent = "</think>";
  layout.generation = "<\uFF5CAssistant\uFF5C></think>";
  layout.thinking_generation = "<\uFF5CAssistant\uFF5C><think>";
  layout.must_alternate = true;
  return layout;
}

constexpr ChatLayout make_deepseek32() {
  ChatLayout layout = make_deepseek31();
  layout.name = "deepseek-v3.2";
  layout.controls = kDeepSeek32Controls;
  layout.fits_without_template = true;
  return layout;
}

// ChatML: Qwen 1.5 and 2, and Qwen 3.
constexpr const char *kChatMlControls[] = {"<|im_start|>", "<|im_end|>"};
constexpr const char *kChatMlMarkers[] = {"<|im_start|>", "<|im_end|>", "<|im_start|>assistant\n"};
constexpr const char *kChatMlExclusions[] = {"think>", "<|im_sep|>", "<function=", "bos_token"};
constexpr const char *kQwen3Controls[] = {"<|im_start|>", "<|im_end|>",      "<think>",
                                          "</think>",     "<tool_response>", "</tool_response>"};
constexpr const char *kQwen3Markers[] = {"<|im_start|>", "last_query_index",
                                         "enable_thinking is false", "<think>\n\n</think>\n\n"};
constexpr const char *kQwen3Exclusions[] = {"<function=", "preserve_thinking", "'<think>\n' }}"};

constexpr const char *kQwen3ThinkingMarkers[] = {"last_query_index",
                                                 "<|im_start|>assistant\n<think>\n' }}"};
constexpr const char *kQwen3ThinkingExclusions[] = {"<function=", "preserve_thinking",
                                                    "enable_thinking"};

constexpr ChatLayout kChatMl = {.name = "chatml",
                                .controls = kChatMlControls,
                                .markers = kChatMlMarkers,
                                .exclusions = kChatMlExclusions,
                                .system = {"<|im_start|>system\n", "<|im_end|>\n"},
                                .user = {"<|im_start|>user\n", "<|im_end|>\n"},
                                .assistant = {"<|im_start|>assistant\n", "<|im_end|>\n"},
                                .spells_default_system = true,
                                .generation = "<|im_start|>assistant\n",
                                .thinking_generation = "<|im_start|>assistant\n"};

constexpr ChatLayout make_qwen3() {
  ChatLayout layout = kChatMl;
  layout.name = "qwen3";
  layout.controls = kQwen3Controls;
  layout.markers = kQwen3Markers;
  layout.exclusions = kQwen3Exclusions;
  layout.tool = {"\n<tool_response>\n", "\n</tool_response>"};
  layout.tool_run_open = "<|im_start|>user";
  layout.tool_run_close = "<|im_end|>\n";
  layout.spells_default_system = false;
  layout.reasoning = {.open = "<think>\n",
                      .close = "\n</think>\n\n",
                      .absent = "",
                      .is_split = true,
                      .fills_last = true};
  layout.trim = ChatTrim::kNewlines;
  layout.answer_tokens = ControlTokens::kNotSpecial;
  layout.generation = "<|im_start|>assistant\n<think>\n\n</think>\n\n";
  return layout;
}

// Thinks whatever is asked.
constexpr ChatLayout make_qwen3_thinking() {
  ChatLayout layout = make_qwen3();
  layout.name = "qwen3-thinking";
  layout.markers = kQwen3ThinkingMarkers;
  layout.exclusions = kQwen3ThinkingExclusions;
  layout.generation = "<|im_start|>assistant\n<think>\n";
  layout.thinking_generation = layout.generation;
  return layout;
}

// Mistral. [INST] is no token of these vocabularies.
constexpr const char *kMistralMarkers[] = {"bos_token", "eos_token", "' [INST] '", "' [/INST]'",
                                           "system_message"};
constexpr const char *kMistralExclusions[] = {"<<SYS>>", "[AVAILABLE_TOOLS]", "[SYSTEM_PROMPT]",
                                              "' ' + eos_token"};
constexpr const char *kMistralBareMarkers[] = {"bos_token", "eos_token", "'[INST] '", "' [/INST]'"};
constexpr const char *kMistralBareExclusions[] = {
    "<<SYS>>", "[AVAILABLE_TOOLS]", "[SYSTEM_PROMPT]", "system", "' ' +", "bos_token +"};

constexpr ChatLayout kMistral = {.name = "mistral-v1",
                                 .controls = {},
                                 .markers = kMistralMarkers,
                                 .exclusions = kMistralExclusions,
                                 .start = BOS,
                                 .user = {" [INST] ", " [/INST]"},
                                 .assistant = {" ", EOS},
                                 .system_place = SystemPlace::kBeforeFirstUser,
                                 .system_join = "\n\n",
                                 .must_alternate = true};

constexpr ChatLayout make_mistral_bare() {
  ChatLayout layout = kMistral;
  layout.name = "mistral-v0";
  layout.markers = kMistralBareMarkers;
  layout.exclusions = kMistralBareExclusions;
  layout.user.open = "[INST] ";
  layout.assistant.open = "";
  layout.system_place = SystemPlace::kRefused;
  return layout;
}

// OLMoE. Its role marks are no tokens either. The older template ends the last answer with a line
// feed, the newer one does not.
constexpr const char *kTuluLinesMarkers[] = {"bos_token",    "eos_token",         "'<|system|>\n'",
                                             "'<|user|>\n'", "'<|assistant|>\n'", "}}\n{% elif"};
constexpr const char *kTuluMarkers[] = {"bos_token",    "eos_token",         "'<|system|>\n'",
                                        "'<|user|>\n'", "'<|assistant|>\n'", "eos_token + '\n'",
                                        "not loop.last"};
constexpr const char *kTuluExclusions[] = {"[gMASK]", "<|end|>", "+ '\n' }}\n"};

constexpr ChatLayout kTuluLines = {.name = "tulu-2",
                                   .controls = {},
                                   .markers = kTuluLinesMarkers,
                                   .exclusions = kTuluExclusions,
                                   .start = BOS,
                                   .system = {"<|system|>\n", "\n"},
                                   .user = {"<|user|>\n", "\n"},
                                   .assistant = {"<|assistant|>\n", EOS "\n"},
                                   .generation = "<|assistant|>\n",
                                   .thinking_generation = "<|assistant|>\n"};

constexpr ChatLayout make_tulu() {
  ChatLayout layout = kTuluLines;
  layout.name = "tulu-3";
  layout.markers = kTuluMarkers;
  layout.exclusions = {};
  layout.assistant_close_last = EOS;
  return layout;
}

// gpt-oss, the least form: no system turn with identity and date, an answer of the final channel.
constexpr const char *kHarmonyControls[] = {"<|start|>", "<|message|>", "<|end|>", "<|channel|>"};
constexpr const char *kHarmonyMarkers[] = {"<|start|>", "<|message|>", "<|end|>",
                                           "<|channel|>final<|message|>"};

constexpr ChatLayout kHarmony = {
    .name = "harmony",
    .controls = kHarmonyControls,
    .markers = kHarmonyMarkers,
    .system = {"<|start|>developer<|message|># Instructions\n\n", "<|end|>"},
    .user = {"<|start|>user<|message|>", "<|end|>"},
    .assistant = {"<|start|>assistant<|channel|>final<|message|>", "<|end|>"},
    .system_place = SystemPlace::kFirstTurn,
    .generation = "<|start|>assistant<|channel|>final<|message|>",
    .thinking_generation = "<|start|>assistant"};

constexpr ChatLayout kLayouts[] = {make_glm53(),
                                   make_glm52(),
                                   make_glm45(),
                                   make_glm47(),
                                   kGlmPlain,
                                   kDeepSeek3,
                                   make_deepseek_r1(),
                                   make_deepseek31(),
                                   make_deepseek32(),
                                   make_qwen3(),
                                   make_qwen3_thinking(),
                                   kChatMl,
                                   kMistral,
                                   make_mistral_bare(),
                                   kTuluLines,
                                   make_tulu(),
                                   kHarmony};

#undef BOS
#undef EOS

}  // namespace

std::span<const ChatLayout> chat_layouts() noexcept {
  return kLayouts;
}

}  // namespace colibri
