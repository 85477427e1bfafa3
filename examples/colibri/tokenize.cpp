// SPDX-License-Identifier: Apache-2.0
//
// colibri tokenize and colibri detokenize: text to ids and back. They open the tokenizer alone,
// never the model.

#include <memory>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/prompt_text.h"
#include "examples/colibri/terminal.h"
#include "examples/colibri/text_input.h"

namespace colibri::command {
namespace {

struct Tokenize {
  ModelFlags model;
  std::string text;
  std::string file;
  bool allows_control = false;
  bool wants_json = false;
};

struct Detokenize {
  ModelFlags model;
  std::vector<int32_t> ids;
  bool skips_special = false;
  bool wants_json = false;
};

TokenizerPtr open_tokenizer(const ModelFlags &flags) {
  colibri_tokenizer *tokenizer = nullptr;
  const std::string path = model_path(flags, "a model folder, or its tokenizer.json");
  call(colibri_tokenizer_open, path.c_str(), &tokenizer);
  return TokenizerPtr(tokenizer);
}

// The library decodes unknown ids to nothing; who wrote them down should know.
void require_known(std::span<const int32_t> ids, const colibri_tokenizer *tokenizer) {
  const auto n_ids = static_cast<int64_t>(colibri_tokenizer_size(tokenizer));
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < n_ids) continue;
    throw CLI::ValidationError("--ids item " + std::to_string(i + 1),
                               std::to_string(ids[i]) +
                                   " is not an id of this tokenizer; its ids are 0 to " +
                                   std::to_string(n_ids - 1));
  }
}

int run_tokenize(const Tokenize &tokenize) {
  const std::string text = tokenize.file.empty() ? tokenize.text : read_text_file(tokenize.file);
  const TokenizerPtr tokenizer = open_tokenizer(tokenize.model);
  const std::vector<int32_t> ids =
      encode_text(tokenizer.get(), text,
                  tokenize.allows_control ? COLIBRI_CONTROL_ALLOWED : COLIBRI_CONTROL_PLAIN);
  if (tokenize.wants_json) {
    JsonOutput json;
    json.begin_object().member("ids", std::span<const int32_t>(ids)).end_object();
    print(json.text() + "\n");
  } else {
    print(join_numbers(ids) + "\n");
  }
  return 0;
}

int run_detokenize(const Detokenize &detokenize) {
  const TokenizerPtr tokenizer = open_tokenizer(detokenize.model);
  require_known(detokenize.ids, tokenizer.get());
  const std::string text = decode_ids(tokenizer.get(), detokenize.ids, detokenize.skips_special);
  if (detokenize.wants_json) {
    JsonOutput json;
    json.begin_object().member("text", text).end_object();
    print(json.text() + "\n");
  } else {
    print(text + "\n");
  }
  return 0;
}

}  // namespace

void add_tokenize(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("tokenize", "Turn text into token ids");
  const auto tokenize = std::make_shared<Tokenize>();
  add_model_path(*sub, &tokenize->model, ModelArgument::kPositional);
  CLI::Option *text = sub->add_option("TEXT", tokenize->text, "Text to encode");
  CLI::Option *file =
      sub->add_option("--file", tokenize->file, "Encode this file; - is standard input")
          ->type_name("FILE")
          ->excludes(text);
  sub->add_flag("--special", tokenize->allows_control, "Read tokens such as <|user|> as such");
  sub->add_flag("--json", tokenize->wants_json, "Print one JSON object");
  sub->callback([tokenize, text, file, run] {
    if (text->count() == 0 && file->count() == 0) {
      throw CLI::RequiredError("MODEL and TEXT, or --file");
    }
    *run = [tokenize] { return run_tokenize(*tokenize); };
  });
}

void add_detokenize(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("detokenize", "Turn token ids into text");
  const auto detokenize = std::make_shared<Detokenize>();
  add_model_path(*sub, &detokenize->model, ModelArgument::kPositional);
  add_ids_option(*sub, &detokenize->ids, "Token ids to decode")->required();
  sub->add_flag("--skip-special", detokenize->skips_special, "Leave out control tokens");
  sub->add_flag("--json", detokenize->wants_json, "Print one JSON object");
  sub->callback([detokenize, run] { *run = [detokenize] { return run_detokenize(*detokenize); }; });
}

}  // namespace colibri::command
