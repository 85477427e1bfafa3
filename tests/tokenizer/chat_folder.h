// SPDX-License-Identifier: Apache-2.0
//
// A tokenizer folder for tests of chats: one of the small vocabularies with further added tokens
// and the files that name a chat template.

#pragma once

#include <string>
#include <vector>

namespace colibri::test {

struct ChatFiles {
  std::string kind = "qwen";        // of data/kinds
  std::vector<std::string> tokens;  // added, special
  std::string chat_template;        // chat_template.jinja; "": none
  std::string tokenizer_config;     // tokenizer_config.json; "": none
};

// Removed at the end.
class ChatFolder {
 public:
  explicit ChatFolder(const ChatFiles &files);
  ~ChatFolder();
  ChatFolder(const ChatFolder &) = delete;
  ChatFolder &operator=(const ChatFolder &) = delete;
  const std::string &path() const noexcept { return path_; }

 private:
  std::string path_;
};

}  // namespace colibri::test
