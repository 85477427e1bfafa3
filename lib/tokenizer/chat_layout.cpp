// SPDX-License-Identifier: Apache-2.0
//
// The GLM layout. Texts of system, user and tools are encoded with no added token at all, so
// nothing in them can open or close a turn. In an answer of the assistant added tokens that are not
// special match: it may hold tool calls, which must come back as the tokens they were.

#include "lib/tokenizer/chat_layout.h"

#include <algorithm>
#include <array>

#include "lib/base/status.h"

namespace colibri {
namespace {

constexpr std::string_view kThinkBegin = "<think>";
constexpr std::string_view kThinkEnd = "</think>";

constexpr std::array<std::string_view, 10> kControlTokens = {
    "[gMASK]",         "<sop>",     "<|system|>", "<|user|>",        "<|assistant|>",
    "<|observation|>", kThinkBegin, kThinkEnd,    "<tool_response>", "</tool_response>"};

// Writes one conversation.
class GlmWriter {
 public:
  GlmWriter(const Tokenizer &tokenizer, std::vector<int32_t> *ids)
      : tokenizer_(tokenizer), ids_(*ids) {}

  void write_control(std::string_view token) {
    const std::optional<int32_t> id = tokenizer_.find_token(token);
    if (!id) {
      throw_error(StatusCode::kUnsupported,
                  "the tokenizer has no token \"%.*s\", which the GLM chat layout needs",
                  static_cast<int>(token.size()), token.data());
    }
    ids_.push_back(*id);
  }

  void write_turn(std::string_view role, std::string_view text) {
    write_control(role);
    tokenizer_.encode(text, ControlTokens::kPlain, &ids_);
  }

  // Reasoning inside the answer's text wins over the separate one; it is kept after the last user
  // turn only.
  void write_assistant(const ChatMessage &message, bool keeps_reasoning) {
    std::string_view reasoning = message.reasoning;
    std::string_view text = message.text;
    const size_t first_end = text.find(kThinkEnd);
    if (first_end != std::string_view::npos) {
      reasoning = text.substr(0, first_end);
      const size_t begin = reasoning.rfind(kThinkBegin);
      if (begin != std::string_view::npos) reasoning.remove_prefix(begin + kThinkBegin.size());
      text.remove_prefix(text.rfind(kThinkEnd) + kThinkEnd.size());
    }
    write_control("<|assistant|>");
    write_control(kThinkBegin);
    if (keeps_reasoning) tokenizer_.encode(reasoning, ControlTokens::kPlain, &ids_);
    write_control(kThinkEnd);
    tokenizer_.encode(text, ControlTokens::kNotSpecial, &ids_);
  }

  void write_tool(std::string_view text, bool is_first_of_run) {
    if (is_first_of_run) write_control("<|observation|>");
    write_turn("<tool_response>", text);
    write_control("</tool_response>");
  }

 private:
  const Tokenizer &tokenizer_;
  std::vector<int32_t> &ids_;
};

}  // namespace

bool has_glm_layout(const Tokenizer &tokenizer) noexcept {
  return std::all_of(kControlTokens.begin(), kControlTokens.end(), [&](std::string_view token) {
    return tokenizer.find_token(token).has_value();
  });
}

void format_glm_chat(const Tokenizer &tokenizer, const std::vector<ChatMessage> &messages,
                     const ChatOptions &options, std::vector<int32_t> *ids) {
  GlmWriter writer(tokenizer, ids);
  size_t n_until_last_user = 0;  // messages up to and with the last user turn
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == ChatRole::kUser) n_until_last_user = i + 1;
  }
  writer.write_control("[gMASK]");
  writer.write_control("<sop>");
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage &message = messages[i];
    switch (message.role) {
      case ChatRole::kSystem:
        writer.write_turn("<|system|>", message.text);
        break;
      case ChatRole::kUser:
        writer.write_turn("<|user|>", message.text);
        break;
      case ChatRole::kAssistant:
        writer.write_assistant(message, i >= n_until_last_user);
        break;
      case ChatRole::kTool:
        writer.write_tool(message.text, i == 0 || messages[i - 1].role != ChatRole::kTool);
        break;
    }
  }
  if (!options.adds_generation_prompt) return;
  writer.write_control("<|assistant|>");
  writer.write_control(kThinkBegin);
  if (!options.has_thinking) writer.write_control(kThinkEnd);
}

}  // namespace colibri
