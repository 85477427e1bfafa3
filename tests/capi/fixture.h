// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the C API share: models of the tree, handles that end themselves, calls that
// must succeed. Public headers only.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "colibri/colibri.h"

namespace capi_test {

// The embedded demonstration model: INT4, with tokenizer, 8 layers, 32 experts of which 4 per
// token.
std::string tiny_model();
// A folder of tests/golden/data: without tokenizer.
std::string golden_model(const std::string &name);

// A copy of a model folder that a test may damage.
class ModelCopy {
 public:
  ModelCopy(const std::string &source, const std::string &name);
  ~ModelCopy();
  ModelCopy(const ModelCopy &) = delete;
  ModelCopy &operator=(const ModelCopy &) = delete;

  std::string path() const { return path_.string(); }
  std::filesystem::path file(const std::string &name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// A fresh folder for results, which is removed in the end.
class ResultFolder {
 public:
  ResultFolder();
  ~ResultFolder();
  ResultFolder(const ResultFolder &) = delete;
  ResultFolder &operator=(const ResultFolder &) = delete;

  // Of something in it, which does not exist at first.
  std::string path(const std::string &name = "model") const { return (folder_ / name).string(); }
  bool is_empty() const { return std::filesystem::is_empty(folder_); }

 private:
  std::filesystem::path folder_;
};

// Deletes with the function of the C API and requires that it succeeds.
struct End {
  void operator()(colibri_model *model) const;
  void operator()(colibri_tokenizer *tokenizer) const;
  void operator()(colibri_stream_decoder *decoder) const;
  void operator()(colibri_kv_slot *slot) const;
  void operator()(colibri_batch *batch) const;
  void operator()(colibri_scheduler *scheduler) const;
};
using Model = std::unique_ptr<colibri_model, End>;
using TokenizerHandle = std::unique_ptr<colibri_tokenizer, End>;
using Decoder = std::unique_ptr<colibri_stream_decoder, End>;
using Slot = std::unique_ptr<colibri_kv_slot, End>;
using Batch = std::unique_ptr<colibri_batch, End>;
using Scheduler = std::unique_ptr<colibri_scheduler, End>;

// Small and quick: 2 threads, 2 slots of 64 positions, 16 rows.
colibri_model_options small_options();
Model open_model(const std::string &path, const colibri_model_options &options);
Model open_tiny();
Slot make_slot(colibri_model *model);
Batch make_batch(colibri_model *model);
Scheduler make_scheduler(colibri_model *model);

// Points into `prompt`, which must live as long.
colibri_request_options request_of(const std::vector<int32_t> &prompt, uint32_t max_tokens);
colibri_request_id submit(colibri_scheduler *scheduler, const colibri_request_options &options);

// What became of a request.
struct Outcome {
  std::vector<int32_t> tokens;
  std::string text;
  int32_t finish = COLIBRI_FINISH_NONE;
  colibri_status status = COLIBRI_OK;
  uint32_t n_prompt_reused = 0;
};
// Steps until `request` has finished; events of other requests are dropped.
Outcome run_to_end(colibri_scheduler *scheduler, colibri_request_id request);
// Greedy, exactly max_tokens.
Outcome generate(colibri_scheduler *scheduler, const std::vector<int32_t> &prompt,
                 uint32_t max_tokens);

// Decodes tokens in a slot with a batch; logits of the last one.
std::vector<float> decode(colibri_batch *batch, colibri_kv_slot *slot,
                          const std::vector<int32_t> &tokens);

// The text of a call in the manner of colibri_model_plan_json(): size query, then text.
using TextCall = std::function<colibri_status(char *, size_t, size_t *, colibri_error *)>;
std::string read_text(const TextCall &call);

// Calls `call` with an error struct and returns the text; requires that code and return value
// agree.
std::string message_of(colibri_status expected,
                       const std::function<colibri_status(colibri_error *)> &call);

}  // namespace capi_test
