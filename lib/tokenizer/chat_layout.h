// SPDX-License-Identifier: Apache-2.0
//
// Chat layouts as data: roles and texts to one list of ids. Control tokens come from the layout
// alone; message texts are encoded as plain text, so a user cannot forge a turn. No template code
// of a model file is run.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace colibri {

enum class ChatRole : uint8_t { kSystem, kUser, kAssistant, kTool };

struct ChatMessage {
  ChatRole role;
  std::string_view text;       // for an assistant: the answer, without its reasoning
  std::string_view reasoning;  // assistant only; written only after the last user message
};

// GLM layout (glm_moe_dsa):
//   start              [gMASK]<sop>
//   system             <|system|>..
//   user               <|user|>..
//   assistant          <|assistant|><think>..</think>..
//   tool               <|observation|><tool_response>..</tool_response>
//   generation prompt  <|assistant|><think></think>, or <|assistant|><think> when has_thinking
// A <think> part inside an assistant's text is treated as its reasoning.
struct ChatOptions {
  bool adds_generation_prompt = true;
  bool has_thinking = false;
};

// True if the tokenizer has every control token of the layout.
bool has_glm_layout(const Tokenizer &tokenizer) noexcept;

// Appends the ids of a conversation. Throws Error(kUnsupported) naming the first missing token.
void format_glm_chat(const Tokenizer &tokenizer, const std::vector<ChatMessage> &messages,
                     const ChatOptions &options, std::vector<int32_t> *ids);

}  // namespace colibri
