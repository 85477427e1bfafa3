// SPDX-License-Identifier: Apache-2.0
//
// colibri perplexity: how well a model predicts a text. The text is encoded in one call, control
// tokens recognised, and cut into windows. Each window is a sequence of its own from position 0.
// With a stride below the window, what a window shares with the one before is context only, so that
// every token is predicted once.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/logits_pass.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/prompt_text.h"
#include "examples/colibri/terminal.h"
#include "examples/colibri/text_input.h"

namespace colibri::command {
namespace {

struct Perplexity {
  ModelFlags model;
  std::string text_path;
  uint32_t window = 512;
  uint32_t stride = 0;  // 0: the window
  bool wants_json = false;
};

struct Score {
  double sum = 0;  // negative natural logarithms of the predicted tokens' probabilities
  uint64_t n_predicted = 0;
  uint64_t n_windows = 0;
  bool is_complete = true;
};

double negative_log_probability(std::span<const float> logits, int32_t token) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  return std::log(sum) + largest - logits[static_cast<size_t>(token)];
}

Score score_text(colibri_model *model, uint32_t chunk, std::span<const int32_t> ids,
                 const Perplexity &options) {
  LogitsPass pass(model, chunk);
  ProgressLine line;
  Score score;
  const size_t overlap = options.window - options.stride;
  for (size_t begin = 0; begin + 1 < ids.size(); begin += options.stride) {
    const auto window = ids.subspan(begin, std::min<size_t>(options.window, ids.size() - begin));
    const size_t first_predicted = begin == 0 ? 1 : std::max<size_t>(1, overlap);
    if (window.size() <= first_predicted) break;
    double sum = 0;
    // The last position predicts a token outside the window, so it is not computed.
    score.is_complete =
        pass.run(window.first(window.size() - 1), [&](size_t position, auto logits) {
          if (position + 1 >= first_predicted)
            sum += negative_log_probability(logits, window[position + 1]);
        });
    if (!score.is_complete) return score;
    score.sum += sum;
    score.n_predicted += window.size() - first_predicted;
    ++score.n_windows;
    line.show("token " + std::to_string(begin + window.size()) + " of " +
              std::to_string(ids.size()));
  }
  return score;
}

void print_score(const Score &score, double seconds, bool wants_json) {
  const double loss = score.sum / static_cast<double>(score.n_predicted);
  if (wants_json) {
    JsonOutput json;
    json.begin_object().member("loss", loss).member("perplexity", std::exp(loss));
    json.member("tokens_predicted", score.n_predicted).member("windows", score.n_windows);
    json.member("seconds", seconds).end_object();
    print(json.text() + "\n");
    return;
  }
  char text[200];
  std::snprintf(
      text, sizeof text,
      "perplexity  %.5f\nloss        %.5f\ntokens      %llu in %llu windows\nseconds     %.2f\n",
      std::exp(loss), loss, static_cast<unsigned long long>(score.n_predicted),
      static_cast<unsigned long long>(score.n_windows), seconds);
  print(text);
}

int run_perplexity(const Perplexity &perplexity) {
  const std::string text = read_text_file(perplexity.text_path);
  const uint32_t chunk = perplexity.model.chunk == 0 ? kDefaultChunk : perplexity.model.chunk;
  colibri_model_options options = make_model_options(perplexity.model);
  options.context_tokens = perplexity.window;
  options.max_rows = chunk;
  options.max_logits_rows = chunk;
  const ModelPtr model = open_model(perplexity.model, options);
  const colibri_tokenizer *tokenizer = colibri_model_tokenizer(model.get());
  if (tokenizer == nullptr)
    throw std::runtime_error("the model has no tokenizer.json; perplexity needs one");
  const std::vector<int32_t> ids = encode_text(tokenizer, text, COLIBRI_CONTROL_ALLOWED);
  if (ids.size() < 2)
    throw std::runtime_error(perplexity.text_path +
                             " has fewer than two tokens; nothing to predict");
  const auto begin = std::chrono::steady_clock::now();
  const Score score = score_text(model.get(), chunk, ids, perplexity);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (score.n_predicted > 0) print_score(score, elapsed.count(), perplexity.wants_json);
  return score.is_complete ? 0 : kExitInterrupted;
}

}  // namespace

void add_perplexity(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("perplexity", "Measure how well a model predicts a text");
  const auto perplexity = std::make_shared<Perplexity>();
  add_model_path(*sub, &perplexity->model, ModelArgument::kPositional);
  sub->add_option("--text", perplexity->text_path, "UTF-8 text; - reads it from standard input")
      ->required()
      ->type_name("FILE");
  add_whole_number(*sub, "--window", {2, 1 << 20}, &perplexity->window,
                   "Tokens of one window [512]");
  add_whole_number(*sub, "--stride", {1, 1 << 20}, &perplexity->stride,
                   "Tokens from window to window [the window]");
  add_model_flags(*sub, &perplexity->model);
  sub->add_flag("--json", perplexity->wants_json, "Print one JSON object");
  sub->callback([perplexity, run] {
    if (perplexity->stride == 0) perplexity->stride = perplexity->window;
    if (perplexity->stride > perplexity->window) {
      throw CLI::ValidationError(
          "--stride", "is larger than --window; tokens between the windows would be left out");
    }
    *run = [perplexity] { return run_perplexity(*perplexity); };
  });
}

}  // namespace colibri::command
