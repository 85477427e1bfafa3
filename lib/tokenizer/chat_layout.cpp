// SPDX-License-Identifier: Apache-2.0
//
// Recognising a layout, and writing a conversation in it. Texts of system, user and tools are
// encoded with no control token at all, so nothing in them can open or close a turn.

#include "lib/tokenizer/chat_layout.h"

#include <algorithm>
#include <optional>

#include "lib/base/status.h"

namespace colibri {
namespace {

constexpr std::string_view kThinkOpen = "<think>";
constexpr std::string_view kThinkClose = "</think>";
constexpr std::string_view kSpaces = " \t\n\v\f\r";
constexpr const char *kWithout =
    "give the prompt as it is (colibri generate --raw, colibri_tokenizer_encode)";

bool has_text(std::string_view text, std::string_view part) noexcept {
  return text.find(part) != std::string_view::npos;
}

// Templates write the same literal in several ways; markers have line feeds and single quotes.
std::string unify_spelling(std::string_view text) {
  std::string unified;
  unified.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "\\n") {
      unified += '\n';
      ++i;
    } else {
      unified += text[i] == '"' ? '\'' : text[i];
    }
  }
  return unified;
}

bool fits_template(const ChatLayout &layout, std::string_view text) noexcept {
  if (text.empty()) return layout.fits_without_template;
  const auto occurs = [&](const char *part) { return has_text(text, part); };
  return std::all_of(layout.markers.begin(), layout.markers.end(), occurs) &&
         std::none_of(layout.exclusions.begin(), layout.exclusions.end(), occurs);
}

// The first token that the layout needs and the tokenizer has not; empty if it has all.
std::string find_missing(const ChatLayout &layout, const Tokenizer &tokenizer) {
  for (const char *token : layout.controls) {
    if (!tokenizer.find_token(token)) return token;
  }
  const ChatTemplate &chat = tokenizer.chat_template();
  const auto uses = [&layout](const char *mark) {
    return has_text(layout.start, mark) || has_text(layout.assistant.close, mark);
  };
  if (uses(COLIBRI_CHAT_BOS) && !tokenizer.find_token(chat.bos_token)) return "bos_token";
  if (uses(COLIBRI_CHAT_EOS) && !tokenizer.find_token(chat.eos_token)) return "eos_token";
  return "";
}

std::string_view trim_left(std::string_view text, std::string_view characters) noexcept {
  const size_t begin = text.find_first_not_of(characters);
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin);
}

std::string_view trim_both(std::string_view text, std::string_view characters) noexcept {
  text = trim_left(text, characters);
  return text.substr(0, text.find_last_not_of(characters) + 1);
}

// The system text that a template spells out between the marks of a system turn; empty without one.
std::string find_default_system(const std::string &spelled) {
  constexpr std::string_view kOpen = "<|im_start|>system\n";
  constexpr std::string_view kClose = "<|im_end|>";
  const std::string unified = unify_spelling(spelled);
  const std::string_view text = unified;
  for (size_t hit = text.find(kOpen); hit != std::string_view::npos;
       hit = text.find(kOpen, hit + 1)) {
    const std::string_view rest = text.substr(hit + kOpen.size());
    const std::string_view found = rest.substr(0, rest.find(kClose));
    if (found.size() < rest.size() && !found.empty() &&
        found.find_first_of("'{}") == std::string_view::npos) {
      return std::string(found);
    }
  }
  return {};
}

// Collects plain text into runs and puts control tokens between them.
class ChatWriter {
 public:
  ChatWriter(const Tokenizer &tokenizer, const ChatLayout &layout, std::vector<int32_t> *ids)
      : tokenizer_(tokenizer), layout_(layout), ids_(*ids), n_before_(ids->size()) {}

  void write_literal(std::string_view literal) {
    while (!literal.empty()) {
      const std::string_view control = control_at(literal);
      if (control.empty()) {
        run_ += literal[0];
        literal.remove_prefix(1);
      } else {
        flush();
        ids_.push_back(*tokenizer_.find_token(spelling(control)));
        literal.remove_prefix(control.size());
      }
    }
  }

  void write_text(std::string_view text) {
    run_.append(text);
    has_text_ = true;
  }
  void write_answer(std::string_view text) {
    run_.append(text);
    has_answer_ = true;
  }

  // In a run that also holds a text of somebody else, an answer is plain as well.
  void flush() {
    if (!run_.empty()) {
      const ControlTokens control =
          has_answer_ && !has_text_ ? layout_.answer_tokens : ControlTokens::kPlain;
      if (ids_.size() == n_before_) {
        tokenizer_.encode(run_, control, &ids_);
      } else {
        tokenizer_.encode_continued(run_, control, &ids_);
      }
    }
    run_.clear();
    has_text_ = false;
    has_answer_ = false;
  }

 private:
  std::string_view control_at(std::string_view literal) const noexcept {
    if (literal[0] == COLIBRI_CHAT_BOS[0] || literal[0] == COLIBRI_CHAT_EOS[0]) {
      return literal.substr(0, 1);
    }
    for (const std::string_view control : layout_.controls) {
      if (literal.substr(0, control.size()) == control) return control;
    }
    return {};
  }
  std::string_view spelling(std::string_view control) const noexcept {
    if (control == COLIBRI_CHAT_BOS) return tokenizer_.chat_template().bos_token;
    if (control == COLIBRI_CHAT_EOS) return tokenizer_.chat_template().eos_token;
    return control;
  }

  const Tokenizer &tokenizer_;
  const ChatLayout &layout_;
  std::vector<int32_t> &ids_;
  const size_t n_before_;
  std::string run_;
  bool has_text_ = false;    // the run holds a text that must stay plain
  bool has_answer_ = false;  // .. and one of the assistant
};

// One conversation.
class ChatFormatter {
 public:
  ChatFormatter(const Tokenizer &tokenizer, const ChatLayout &layout,
                const std::vector<ChatMessage> &messages, const ChatOptions &options,
                std::vector<int32_t> *ids)
      : layout_(layout), messages_(messages), options_(options), writer_(tokenizer, layout, ids) {
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].role == ChatRole::kUser) n_until_last_user_ = i + 1;
    }
    if (layout.spells_default_system) {
      default_system_ = find_default_system(tokenizer.chat_template().text);
    }
  }

  void check() const {
    size_t n_turns = 0;
    for (size_t i = 0; i < messages_.size(); ++i) {
      const ChatRole role = messages_[i].role;
      if (role == ChatRole::kSystem) {
        check_system(i);
        continue;
      }
      if (role == ChatRole::kTool && layout_.tool.open == nullptr) {
        refuse(i, "is of a tool, which has no place");
      }
      if (layout_.must_alternate && (role == ChatRole::kUser) != (n_turns % 2 == 0)) {
        refuse(i, "is out of turn: user and assistant must alternate, the user first");
      }
      ++n_turns;
    }
  }

  void write() {
    writer_.write_literal(layout_.start);
    if (options_.has_thinking) writer_.write_literal(layout_.thinking_start);
    write_front();
    for (size_t i = 0; i < messages_.size(); ++i) write_message(i);
    if (options_.adds_generation_prompt && can_generate()) {
      writer_.write_literal(options_.has_thinking ? layout_.thinking_generation
                                                  : layout_.generation);
    }
    writer_.flush();
  }

 private:
  [[noreturn]] void refuse(size_t i, const char *what) const {
    throw_error(StatusCode::kArgument, "messages[%zu] %s in the chat layout %s", i, what,
                layout_.name);
  }

  void check_system(size_t i) const {
    const SystemPlace place = layout_.system_place;
    if (place == SystemPlace::kRefused) refuse(i, "is of the system, which has no place");
    if (i != 0 && (place == SystemPlace::kFirstTurn || place == SystemPlace::kBeforeFirstUser)) {
      refuse(i, "is of the system, which must come first");
    }
    if (place == SystemPlace::kBeforeFirstUser && messages_.size() < 2) {
      refuse(i, "is of the system, which needs a user behind it");
    }
  }

  bool can_generate() const noexcept {
    return !layout_.must_alternate || messages_.empty() || messages_.back().role == ChatRole::kUser;
  }

  // What stands before all turns.
  void write_front() {
    if (!default_system_.empty() && (messages_.empty() || messages_[0].role != ChatRole::kSystem)) {
      writer_.write_literal(layout_.system.open);
      writer_.write_text(default_system_);
      writer_.write_literal(layout_.system.close);
    }
    if (layout_.system_place != SystemPlace::kInFront) return;
    bool is_first = true;
    for (const ChatMessage &message : messages_) {
      if (message.role != ChatRole::kSystem) continue;
      if (!is_first) writer_.write_literal(layout_.system_join);
      writer_.write_text(message.text);
      is_first = false;
    }
  }

  void write_message(size_t i) {
    const ChatMessage &message = messages_[i];
    switch (message.role) {
      case ChatRole::kSystem:
        if (layout_.system.open == nullptr) break;  // written elsewhere
        write_turn(layout_.system, message.text);
        break;
      case ChatRole::kUser:
        write_user(i);
        break;
      case ChatRole::kAssistant:
        write_assistant(i);
        break;
      case ChatRole::kTool:
        if (i == 0 || messages_[i - 1].role != ChatRole::kTool) {
          writer_.write_literal(layout_.tool_run_open);
        }
        write_turn(layout_.tool, message.text);
        if (i + 1 == messages_.size() || messages_[i + 1].role != ChatRole::kTool) {
          writer_.write_literal(layout_.tool_run_close);
        }
        break;
    }
  }

  void write_turn(const ChatTurn &turn, std::string_view text) {
    writer_.write_literal(turn.open);
    writer_.write_text(text);
    writer_.write_literal(turn.close);
  }

  void write_user(size_t i) {
    writer_.write_literal(layout_.user.open);
    if (i == 1 && layout_.system_place == SystemPlace::kBeforeFirstUser &&
        messages_[0].role == ChatRole::kSystem) {
      writer_.write_text(messages_[0].text);
      writer_.write_literal(layout_.system_join);
    }
    writer_.write_text(messages_[i].text);
    if (!options_.has_thinking) writer_.write_literal(layout_.user_close_without_thinking);
    writer_.write_literal(layout_.user.close);
  }

  // Reasoning inside the answer's text wins over the separate one.
  void write_assistant(size_t i) {
    const ChatReasoning &rules = layout_.reasoning;
    std::string_view reasoning = messages_[i].reasoning;
    std::string_view text = messages_[i].text;
    const size_t first_end = rules.is_split ? text.find(kThinkClose) : std::string_view::npos;
    const bool is_split = first_end != std::string_view::npos;
    if (is_split) {
      reasoning = text.substr(0, first_end);
      const size_t begin = reasoning.rfind(kThinkOpen);
      if (begin != std::string_view::npos) reasoning.remove_prefix(begin + kThinkOpen.size());
      text.remove_prefix(text.rfind(kThinkClose) + kThinkClose.size());
    }
    const bool is_recent = i >= n_until_last_user_;
    const bool is_last = i + 1 == messages_.size();
    trim(is_split || is_recent, &reasoning, &text);

    writer_.write_literal(layout_.assistant.open);
    const bool keeps = is_recent || rules.keeps_past;
    if (rules.open != nullptr && keeps && (!reasoning.empty() || (rules.fills_last && is_last))) {
      writer_.write_literal(rules.open);
      writer_.write_text(reasoning);
      writer_.write_literal(rules.close);
    } else {
      writer_.write_literal(rules.absent);
    }
    if (!text.empty()) writer_.write_literal(layout_.answer_open);
    writer_.write_answer(text);
    const bool has_own_close = is_last && layout_.assistant_close_last != nullptr;
    writer_.write_literal(has_own_close ? layout_.assistant_close_last : layout_.assistant.close);
  }

  void trim(bool trims_newlines, std::string_view *reasoning,
            std::string_view *text) const noexcept {
    if (layout_.trim == ChatTrim::kSpaces) {
      *reasoning = trim_both(*reasoning, kSpaces);
      *text = trim_both(*text, kSpaces);
    } else if (layout_.trim == ChatTrim::kNewlines && trims_newlines) {
      *reasoning = trim_both(*reasoning, "\n");
      *text = trim_left(*text, "\n");
    }
  }

  const ChatLayout &layout_;
  const std::vector<ChatMessage> &messages_;
  const ChatOptions options_;
  ChatWriter writer_;
  std::string default_system_;
  size_t n_until_last_user_ = 0;  // messages up to and with the last one of the user
};

}  // namespace

const ChatLayout &recognise_chat_layout(const Tokenizer &tokenizer) {
  const std::string text = unify_spelling(tokenizer.chat_template().text);
  const ChatLayout *nearest = nullptr;
  std::string nearest_missing;
  for (const ChatLayout &layout : chat_layouts()) {
    if (!fits_template(layout, text)) continue;
    const std::string missing = find_missing(layout, tokenizer);
    if (missing.empty()) return layout;
    if (nearest == nullptr) {
      nearest = &layout;
      nearest_missing = missing;
    }
  }
  if (nearest == nullptr) {
    throw_error(StatusCode::kUnsupported,
                "the model's chat template is none of the built-in layouts (GLM, DeepSeek, Qwen, "
                "Mistral, OLMoE, gpt-oss); %s",
                kWithout);
  }
  throw_error(
      StatusCode::kUnsupported,
      "%s chat layout %s, but the tokenizer has no \"%s\", which that needs; %s",
      text.empty() ? "there is no chat template, hence the" : "the chat template is that of",
      nearest->name, nearest_missing.c_str(), kWithout);
}

std::vector<int32_t> find_prefix(const Tokenizer &tokenizer) {
  if (!tokenizer.prefix_ids().empty()) return tokenizer.prefix_ids();
  const std::optional<int32_t> mask = tokenizer.find_token("[gMASK]");
  const std::optional<int32_t> start = tokenizer.find_token("<sop>");
  if (!mask || !start) return {};
  return {*mask, *start};
}

void format_chat(const Tokenizer &tokenizer, const ChatLayout &layout,
                 const std::vector<ChatMessage> &messages, const ChatOptions &options,
                 std::vector<int32_t> *ids) {
  ChatFormatter formatter(tokenizer, layout, messages, options, ids);
  formatter.check();
  formatter.write();
}

}  // namespace colibri
