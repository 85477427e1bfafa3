// SPDX-License-Identifier: Apache-2.0
//
// colibri chat: a conversation in the layout of the model. The whole conversation is encoded at
// every turn; the scheduler finds that the slot holds its beginning, so only the rest is computed.

#include <cstdio>
#include <iostream>
#include <memory>
#include <stdexcept>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/request_runner.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

struct Chat {
  ModelFlags model;
  GenerationFlags generation;
  std::string system;
  std::string once;
  bool has_once = false;
  bool thinks = false;
  bool wants_json = false;
};

constexpr const char *kHelp =
    "/reset begins a new conversation, /quit or Ctrl-D ends the chat, Ctrl-C stops an answer\n";

struct Message {
  int32_t role;
  std::string text;
};

class Conversation {
 public:
  Conversation(const Chat &chat, const colibri_model *model, colibri_scheduler *scheduler)
      : chat_(chat), model_(model), scheduler_(scheduler) {
    reset();
  }

  void reset() {
    messages_.clear();
    if (!chat_.system.empty()) messages_.push_back({COLIBRI_ROLE_SYSTEM, chat_.system});
  }

  // Answers `text`. If the request is refused, the conversation is as before.
  RequestResult answer(const std::string &text) {
    messages_.push_back({COLIBRI_ROLE_USER, text});
    try {
      RequestResult result =
          run_request(scheduler_, encode(), chat_.generation, [this](const auto &event) {
            if (!chat_.wants_json) print_event(event);
          });
      messages_.push_back({COLIBRI_ROLE_ASSISTANT, result.text});
      return result;
    } catch (const CallFailure &) {
      messages_.pop_back();
      throw;
    }
  }

  std::vector<int32_t> encode() const {
    std::vector<colibri_chat_message> messages;
    for (const Message &message : messages_) {
      messages.push_back({sizeof(colibri_chat_message), message.role, message.text.c_str()});
    }
    const uint32_t flags = chat_.thinks ? COLIBRI_CHAT_THINKING : 0;
    return read_sized<std::vector<int32_t>>([&](int32_t *ids, size_t capacity, size_t *n_ids) {
      call(colibri_chat_encode, colibri_model_tokenizer(model_), messages.data(), messages.size(),
           flags, ids, capacity, n_ids);
    });
  }

 private:
  const Chat &chat_;
  const colibri_model *model_;
  colibri_scheduler *scheduler_;
  std::vector<Message> messages_;
};

int answer_once(const Chat &chat, Conversation *conversation) {
  const RequestResult result = conversation->answer(chat.once);
  if (chat.wants_json) {
    JsonOutput json;
    json.begin_object()
        .member("ids", std::span<const int32_t>(result.ids))
        .member("text", result.text);
    json.member("finish", finish_name(result.finish))
        .member("prefill_seconds", result.prefill_seconds);
    json.member("decode_seconds", result.decode_seconds).end_object();
    print(json.text());
  }
  print("\n");
  if (result.finish == COLIBRI_FINISH_FAILED) throw std::runtime_error(result.failure);
  return result.finish == COLIBRI_FINISH_STOPPED ? kExitInterrupted : 0;
}

void answer_turn(const std::string &line, Conversation *conversation) {
  try {
    const RequestResult result = conversation->answer(line);
    print("\n");
    if (result.finish == COLIBRI_FINISH_FAILED) print_error(result.failure);
    if (result.finish == COLIBRI_FINISH_LENGTH)
      print_note("[the answer was cut; --tokens N allows more]");
  } catch (const CallFailure &failure) {
    if (failure.status() != COLIBRI_E_CONTEXT) throw;
    print_error(std::string(failure.what()) + "; /reset begins a new conversation");
  }
  reset_interrupt();
}

// Reads a line; false at the end of input or after Ctrl-C.
bool read_line(std::string *line) {
  if (is_stdin_terminal()) print(std::string(bold()) + "> " + std::string(plain()));
  return static_cast<bool>(std::getline(std::cin, *line));
}

int talk(Conversation *conversation) {
  if (is_stdin_terminal()) print(std::string(dim()) + kHelp + std::string(plain()));
  std::string line;
  while (read_line(&line)) {
    if (line == "/quit") return 0;
    if (line == "/reset") {
      conversation->reset();
    } else if (line == "/help") {
      print(kHelp);
    } else if (!line.empty() && line[0] == '/') {
      print_error("there is no " + line + "; " + kHelp);
    } else if (!line.empty()) {
      answer_turn(line, conversation);
    }
  }
  if (is_stdin_terminal()) print("\n");
  return is_interrupted() ? kExitInterrupted : 0;
}

int run_chat(const Chat &chat) {
  colibri_model_options options = make_model_options(chat.model);
  options.context_tokens = chat.generation.context_tokens;
  const ModelPtr model = open_model(chat.model, options);
  if (colibri_model_tokenizer(model.get()) == nullptr) {
    throw std::runtime_error("the model has no tokenizer.json; chat needs one");
  }
  const char *layout = nullptr;  // a model without one is refused before anybody types
  call(colibri_chat_layout, colibri_model_tokenizer(model.get()), &layout);
  colibri_scheduler *created = nullptr;
  call(colibri_scheduler_create, model.get(), nullptr, &created);
  const SchedulerPtr scheduler(created);
  Conversation conversation(chat, model.get(), scheduler.get());
  return chat.has_once ? answer_once(chat, &conversation) : talk(&conversation);
}

}  // namespace

void add_chat(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("chat", "Talk with a model whose chat layout is known");
  const auto chat = std::make_shared<Chat>();
  add_model_path(*sub, &chat->model, ModelArgument::kPositional);
  sub->add_option("--system", chat->system, "What the model is told before the conversation")
      ->type_name("TEXT");
  CLI::Option *once =
      sub->add_option("--once", chat->once, "Answer this message and end")->type_name("TEXT");
  sub->add_flag("--thinking", chat->thinks, "Let the model think before it answers");
  add_generation_flags(*sub, &chat->generation);
  add_model_flags(*sub, &chat->model);
  sub->add_flag("--json", chat->wants_json, "Print the answer as one JSON object")->needs(once);
  sub->callback([chat, once, run] {
    chat->has_once = once->count() > 0;
    *run = [chat] { return run_chat(*chat); };
  });
}

}  // namespace colibri::command
