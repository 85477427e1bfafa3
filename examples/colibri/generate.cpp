// SPDX-License-Identifier: Apache-2.0
//
// colibri generate: continues a text or a list of ids.

#include <cstdio>
#include <memory>
#include <stdexcept>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/prompt_text.h"
#include "examples/colibri/request_runner.h"
#include "examples/colibri/terminal.h"
#include "examples/colibri/text_input.h"

namespace colibri::command {
namespace {

struct Generate {
  ModelFlags model;
  GenerationFlags generation;
  std::string prompt;
  std::vector<int32_t> ids;
  bool has_ids = false;
  PromptForm form;
  bool echoes = false;
  bool wants_json = false;
};

std::string make_json(std::span<const int32_t> prompt, const RequestResult &result,
                      const colibri_model_stats &stats) {
  JsonOutput json;
  json.begin_object().member("prompt_ids", prompt);
  json.member("ids", std::span<const int32_t>(result.ids)).key("text");
  if (result.has_text) {
    json.value(result.text);
  } else {
    json.null();
  }
  json.member("finish", finish_name(result.finish));
  if (!result.failure.empty()) json.member("error", result.failure);
  json.member("prefill_seconds", result.prefill_seconds)
      .member("decode_seconds", result.decode_seconds);
  json.member("expert_hits", stats.expert_hits).member("expert_misses", stats.expert_misses);
  json.member("read_bytes", stats.read_bytes).end_object();
  return json.text() + "\n";
}

void note_speed(std::span<const int32_t> prompt, const RequestResult &result) {
  char line[160];
  const double rate = result.decode_seconds > 0
                          ? static_cast<double>(result.ids.size()) / result.decode_seconds
                          : 0;
  std::snprintf(line, sizeof line,
                "[%zu prompt tokens in %.2f s, %zu tokens in %.2f s, %.0f tokens/s, %s]",
                prompt.size(), result.prefill_seconds, result.ids.size(), result.decode_seconds,
                rate, finish_name(result.finish));
  print_note(line);
}

int exit_code(const RequestResult &result) {
  if (result.finish == COLIBRI_FINISH_FAILED) throw std::runtime_error(result.failure);
  return result.finish == COLIBRI_FINISH_STOPPED ? kExitInterrupted : 0;
}

int run_generate(const Generate &generate) {
  colibri_model_options options = make_model_options(generate.model);
  options.context_tokens = generate.generation.context_tokens;
  const ModelPtr model = open_model(generate.model, options);
  const colibri_tokenizer *tokenizer = colibri_model_tokenizer(model.get());
  const std::string text = generate.prompt == "-" ? read_text_file("-") : generate.prompt;
  const std::vector<int32_t> prompt =
      generate.has_ids ? generate.ids : encode_prompt(tokenizer, text, generate.form);
  colibri_scheduler *created = nullptr;
  call(colibri_scheduler_create, model.get(), nullptr, &created);
  const SchedulerPtr scheduler(created);

  const bool streams = !generate.wants_json;
  if (streams && generate.echoes) print(text);
  const RequestResult result = run_request(scheduler.get(), prompt, generate.generation,
                                           [streams](const colibri_event &event) {
                                             if (streams) print_event(event);
                                           });
  if (streams) {
    print("\n");
    note_speed(prompt, result);
  } else {
    print(make_json(prompt, result, read_stats(model.get())));
  }
  return exit_code(result);
}

}  // namespace

void add_generate(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("generate", "Continue a prompt");
  const auto generate = std::make_shared<Generate>();
  CLI::Option *prompt = sub->add_option("PROMPT", generate->prompt,
                                        "Text to continue; - reads it from standard input");
  CLI::Option *ids =
      add_ids_option(*sub, &generate->ids, "Token ids to continue, used as they are");
  ids->excludes(prompt);
  add_model_path(*sub, &generate->model, ModelArgument::kFlagOnly);
  add_generation_flags(*sub, &generate->generation);
  add_model_flags(*sub, &generate->model);
  sub->add_flag("--raw", generate->form.is_raw,
                "Take the prompt as it is, without the prefix of the model");
  sub->add_flag("--special", generate->form.allows_control,
                "Read tokens such as <|user|> in the prompt as such");
  sub->add_flag("--echo", generate->echoes, "Print the prompt before its continuation");
  sub->add_flag("--json", generate->wants_json, "Print one JSON object at the end");
  sub->callback([generate, prompt, ids, run] {
    generate->has_ids = ids->count() > 0;
    if (prompt->count() == 0 && ids->count() == 0) {
      throw CLI::RequiredError("PROMPT or --ids");
    }
    *run = [generate] { return run_generate(*generate); };
  });
}

}  // namespace colibri::command
