// SPDX-License-Identifier: Apache-2.0
//
// Chat layouts as data (the table is chat_layouts.cpp): roles and texts to one list of ids. Control
// tokens come from the layout alone; message texts are encoded as plain text, so a user cannot
// forge a turn. No template code of a model file is run: its text only tells the layout.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/tokenizer/tokenizer.h"

namespace colibri {

enum class ChatRole : uint8_t { kSystem, kUser, kAssistant, kTool };

// A <think> part inside an assistant's text is its reasoning if the layout has such.
struct ChatMessage {
  ChatRole role;
  std::string_view text;       // for an assistant: the answer, without its reasoning
  std::string_view reasoning;  // assistant only
};

struct ChatOptions {
  bool adds_generation_prompt = true;
  bool has_thinking = false;
};

// Literals below mix plain text and control tokens: the texts in `controls`, and these two, which
// stand for the tokens that tokenizer_config.json names. Plain text of literals and messages that
// meet is encoded as one run, as it would be in a rendered template.
#define COLIBRI_CHAT_BOS "\1"
#define COLIBRI_CHAT_EOS "\2"

struct ChatTurn {
  const char *open = nullptr;  // nullptr: the layout has no such role
  const char *close = "";
};

enum class SystemPlace : uint8_t {
  kOwnTurn,          // as any other message
  kFirstTurn,        // a turn of its own, but only as the first message
  kInFront,          // all system texts behind `start`, wherever they stand
  kBeforeFirstUser,  // the first message, in the turn of the user that follows
  kRefused
};

// What white space of an answer the template takes away.
enum class ChatTrim : uint8_t { kNothing, kSpaces, kNewlines };

struct ChatReasoning {
  const char *open = nullptr;  // nullptr: never written
  const char *close = "";
  const char *absent =
      "";                 // written instead, in turns before the last user and where there is none
  bool is_split = false;  // what stands before </think> in an answer is its reasoning
  bool keeps_past = false;  // written in turns before the last user too
  bool fills_last = false;  // written even if empty in a last message
};

struct ChatLayout {
  const char *name;
  std::span<const char *const> controls;         // all must be in the vocabulary
  std::span<const char *const> markers;          // all occur in the template's text
  std::span<const char *const> exclusions = {};  // none occurs in it
  bool fits_without_template = false;            // the vocabulary alone tells
  const char *start = "";
  const char *thinking_start = "";  // behind `start`, with thinking
  ChatTurn system = {};
  ChatTurn user = {};
  ChatTurn assistant = {};
  ChatTurn tool = {};
  const char *user_close_without_thinking = "";  // before the close of a user's turn
  const char *assistant_close_last = nullptr;    // instead of the close, in the last message
  const char *tool_run_open = "";                // around consecutive tool messages
  const char *tool_run_close = "";
  SystemPlace system_place = SystemPlace::kOwnTurn;
  const char *system_join = "";  // kInFront: between texts; kBeforeFirstUser: before the user's
  bool spells_default_system = false;  // the template spells a system turn for chats without one
  ChatReasoning reasoning = {};
  ChatTrim trim = ChatTrim::kNothing;
  const char *answer_open = "";  // before an answer that is not empty
  // Added tokens in an answer: one that holds tool calls must come back as the tokens it was.
  ControlTokens answer_tokens = ControlTokens::kPlain;
  const char *generation = "";
  const char *thinking_generation = "";
  bool must_alternate =
      false;  // user and assistant take turns; nothing is generated behind an answer
};

std::span<const ChatLayout> chat_layouts() noexcept;

// The first layout that fits the tokenizer and its chat_template(). Throws Error(kUnsupported) that
// says what is missing and how to do without.
const ChatLayout &recognise_chat_layout(const Tokenizer &tokenizer);

// Ids that a text without a layout begins with: the tokenizer's prefix_ids(), else [gMASK]<sop> if
// it has both.
std::vector<int32_t> find_prefix(const Tokenizer &tokenizer);

// Appends the ids of a conversation; `layout` is one that fits the tokenizer. Throws
// Error(kArgument) for messages that it cannot hold, by number: a role that it lacks, turns that do
// not alternate.
void format_chat(const Tokenizer &tokenizer, const ChatLayout &layout,
                 const std::vector<ChatMessage> &messages, const ChatOptions &options,
                 std::vector<int32_t> *ids);

}  // namespace colibri
