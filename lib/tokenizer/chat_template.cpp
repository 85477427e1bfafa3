// SPDX-License-Identifier: Apache-2.0
//
// Reading chat_template.jinja and the three members of tokenizer_config.json that chats need.

#include "lib/tokenizer/chat_template.h"

#include <string_view>
#include <vector>

#include "lib/base/file.h"
#include "lib/base/status.h"
#include "lib/snapshot/json.h"

namespace colibri {
namespace {

std::string to_string(const JsonValue &value) {
  return std::string(value.as_string().value_or(""));
}

// A text, or an added-token object.
std::string read_token(const JsonValue &value) {
  return to_string(value.is_object() ? value.get("content") : value);
}

std::string find_default_template(const JsonValue &value) {
  for (size_t i = 0; i < value.size() && value.is_array(); ++i) {
    if (to_string(value.at(i).get("name")) == "default") {
      return to_string(value.at(i).get("template"));
    }
  }
  return to_string(value);
}

void read_tokenizer_config(const std::string &file, ChatTemplate *chat) {
  const std::vector<uint8_t> bytes = read_whole_file(file, kMaxJsonBytes);
  const JsonDocument document =
      JsonDocument::parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, file);
  const JsonValue root = document.root();
  chat->bos_token = read_token(root.get("bos_token"));
  chat->eos_token = read_token(root.get("eos_token"));
  chat->text = find_default_template(root.get("chat_template"));
  if (chat->text.size() <= kMaxChatTemplateBytes) return;
  throw_error(StatusCode::kFormat, "%s: chat_template has %zu bytes; at most %llu are read",
              file.c_str(), chat->text.size(),
              static_cast<unsigned long long>(kMaxChatTemplateBytes));
}

}  // namespace

ChatTemplate read_chat_template(const std::string &directory) {
  ChatTemplate chat;
  const std::string config = join_path(directory, "tokenizer_config.json");
  if (file_exists(config)) read_tokenizer_config(config, &chat);
  const std::string file = join_path(directory, "chat_template.jinja");
  if (file_exists(file)) {
    const std::vector<uint8_t> bytes = read_whole_file(file, kMaxChatTemplateBytes);
    chat.text.assign(bytes.begin(), bytes.end());
  }
  return chat;
}

}  // namespace colibri
