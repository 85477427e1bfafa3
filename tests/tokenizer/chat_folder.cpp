// SPDX-License-Identifier: Apache-2.0

#include "tests/tokenizer/chat_folder.h"

#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "tests/tokenizer/cases.h"

namespace colibri::test {
namespace {

constexpr int kFirstId = 1000;  // above all vocabularies of data/kinds; holes are allowed

void write(const std::string &path, const std::string &text) {
  if (!text.empty()) std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

ChatFolder::ChatFolder(const ChatFiles &files)
    : path_((std::filesystem::temp_directory_path() /
             ("colibri_chat_" + std::to_string(std::random_device{}())))
                .string()) {
  std::filesystem::create_directory(path_);
  std::ifstream source(kinds_path() + "/" + files.kind + "/tokenizer.json", std::ios::binary);
  std::ostringstream text;
  text << source.rdbuf();
  std::string json = text.str();
  const std::string place = "\"added_tokens\":[";
  std::string tokens;
  int id = kFirstId;
  for (const std::string &token : files.tokens) {
    tokens += "{\"id\":" + std::to_string(id++) + ",\"content\":\"" + token +
              "\",\"special\":true,\"normalized\":false},";
  }
  json.insert(json.find(place) + place.size(), tokens);
  write(path_ + "/tokenizer.json", json);
  write(path_ + "/chat_template.jinja", files.chat_template);
  write(path_ + "/tokenizer_config.json", files.tokenizer_config);
}

ChatFolder::~ChatFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace colibri::test
