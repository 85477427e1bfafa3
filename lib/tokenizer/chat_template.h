// SPDX-License-Identifier: Apache-2.0
//
// ChatTemplate: what the files beside a tokenizer.json say about chats. The template's text is
// never run; chat_layout.cpp looks for marks in it to tell which built-in layout it describes.

#pragma once

#include <cstdint>
#include <string>

namespace colibri {

constexpr uint64_t kMaxChatTemplateBytes = 1ull << 20;

struct ChatTemplate {
  std::string text;       // empty without one
  std::string bos_token;  // empty if the files name none
  std::string eos_token;
};

// chat_template.jinja, else `chat_template` of tokenizer_config.json: a text, or of a list the one
// named "default". A folder without these files gives an empty one. Throws Error: kIo, kFormat (no
// JSON, or a template above kMaxChatTemplateBytes).
ChatTemplate read_chat_template(const std::string &directory);

}  // namespace colibri
