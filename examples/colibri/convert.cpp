// SPDX-License-Identifier: Apache-2.0
//
// colibri convert: from a model folder to a packed one. Ctrl-C leaves what was done for --resume.

#include <chrono>
#include <cstdio>
#include <memory>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_members.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"
#include "examples/colibri/transfer_progress.h"

namespace colibri::command {
namespace {

struct Convert {
  ModelFlags source;
  std::string destination;
  std::string experts = "int4";
  std::string dense = "int8";
  std::string embedding = "keep";
  std::string head = "keep";
  std::string group = "64";
  std::string scales = "search";
  uint32_t n_threads = 0;
  bool resumes = false;
  bool wants_json = false;
};

int32_t weights_code(const std::string &name) {
  if (name == "int4") return COLIBRI_WEIGHTS_INT4;
  if (name == "int8") return COLIBRI_WEIGHTS_INT8;
  return name == "bf16" ? COLIBRI_WEIGHTS_BF16 : COLIBRI_WEIGHTS_KEEP;
}

// The first half of the bytes is written, the second is read back.
int32_t show_conversion(void *user, uint64_t done_bytes, uint64_t total_bytes) {
  const uint64_t half = total_bytes / 2;
  const bool is_checking = done_bytes > half;
  static_cast<TransferProgress *>(user)->begin(is_checking ? "checking" : "converting");
  return show_transfer(user, is_checking ? done_bytes - half : done_bytes, half);
}

colibri_convert_options make_options(const Convert &convert) {
  colibri_convert_options options;
  colibri_convert_options_init(&options, sizeof options);
  options.experts = weights_code(convert.experts);
  options.dense = weights_code(convert.dense);
  options.embedding = weights_code(convert.embedding);
  options.head = weights_code(convert.head);
  options.group = static_cast<uint32_t>(std::stoul(convert.group));
  options.scales = convert.scales == "absmax" ? COLIBRI_SCALES_ABSMAX : COLIBRI_SCALES_SEARCH;
  options.n_threads = convert.n_threads;
  options.resume = convert.resumes ? 1 : 0;
  return options;
}

std::string describe_formats(const std::string &path) {
  const auto json = read_sized<std::string>([&](char *buffer, size_t capacity, size_t *length) {
    call(colibri_snapshot_describe, path.c_str(), buffer, capacity, length);
  });
  return std::string(json_member(json_member(json, "tensors"), "formats"));
}

void add_line(std::string *table, const char *name, const std::string &value,
              const std::string &remark = "") {
  char line[200];
  std::snprintf(line, sizeof line, "%-22s %12s  %s", name, value.c_str(), remark.c_str());
  *table += line;
  table->erase(table->find_last_not_of(' ') + 1);
  *table += '\n';
}

std::string make_table(const colibri_convert_report &report, const std::string &formats,
                       double seconds) {
  char remark[80];
  std::string table;
  const double share = report.source_bytes == 0 ? 1
                                                : static_cast<double>(report.result_bytes) /
                                                      static_cast<double>(report.source_bytes);
  add_line(&table, "source", format_bytes(report.source_bytes));
  std::snprintf(remark, sizeof remark, "%.1f %% of the source", 100 * share);
  add_line(&table, "result", format_bytes(report.result_bytes), remark);
  add_line(&table, "tensors", std::to_string(report.n_tensors),
           report.n_resumed_tensors == 0
               ? ""
               : std::to_string(report.n_resumed_tensors) + " of them by an earlier run");
  add_line(&table, "matrices kept", std::to_string(report.n_kept_matrices),
           "INT4 and INT8 before, values and scales unchanged");
  std::snprintf(remark, sizeof remark, "relative error %.5f", report.relative_error);
  add_line(&table, "matrices quantised", std::to_string(report.n_quantised_matrices),
           report.relative_error > 0 ? remark : "");
  std::snprintf(remark, sizeof remark, "%.1f", seconds);
  add_line(&table, "seconds", remark);
  table += '\n';
  for (const auto &[format, facts] : json_members(formats)) {
    const std::string bytes(json_member(facts, "bytes"));
    add_line(&table, std::string(format).c_str(), format_bytes(std::stoull(bytes)),
             std::string(json_member(facts, "count")) + " matrices and vectors");
  }
  return table;
}

std::string make_json(const Convert &convert, const colibri_convert_report &report,
                      const std::string &formats, double seconds) {
  JsonOutput json;
  json.begin_object().member("destination", convert.destination).member("seconds", seconds);
  json.member("source_bytes", report.source_bytes).member("result_bytes", report.result_bytes);
  json.member("tensors", report.n_tensors).member("resumed_tensors", report.n_resumed_tensors);
  json.member("kept_matrices", report.n_kept_matrices);
  json.member("quantised_matrices", report.n_quantised_matrices);
  json.member("relative_error", report.relative_error).key("formats").begin_object();
  for (const auto &[format, facts] : json_members(formats)) {
    json.key(format).begin_object();
    for (const auto &[name, number] : json_members(facts)) {
      json.member(name, uint64_t{std::stoull(std::string(number))});
    }
    json.end_object();
  }
  return json.end_object().end_object().text() + "\n";
}

int run_convert(const Convert &convert) {
  const std::string source = model_path(convert.source);
  colibri_convert_options options = make_options(convert);
  auto report = sized<colibri_convert_report>();
  const auto begin = std::chrono::steady_clock::now();
  {
    TransferProgress progress("converting");
    options.progress = show_conversion;
    options.progress_user = &progress;
    call(colibri_convert, source.c_str(), convert.destination.c_str(), &options, &report);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  const std::string formats = describe_formats(convert.destination);
  print(convert.wants_json ? make_json(convert, report, formats, elapsed.count())
                           : make_table(report, formats, elapsed.count()));
  return 0;
}

void add_choice(CLI::App &app, const char *option, std::string *value,
                const std::vector<std::string> &choices, const char *description) {
  app.add_option(option, *value, description)
      ->check(CLI::IsMember(choices))
      ->type_name("KIND")
      ->capture_default_str();
}

}  // namespace

void add_convert(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand(
      "convert", "Make a packed model folder, which opens faster and reads each expert at once");
  const auto convert = std::make_shared<Convert>();
  sub->add_option("SRC", convert->source.path, "Folder of the model, or a file in it")
      ->required()
      ->type_name("PATH");
  sub->add_option("DST", convert->destination, "Folder to make; it must not exist")
      ->required()
      ->type_name("PATH");
  add_choice(*sub, "--experts", &convert->experts, {"int4", "int8", "keep"},
             "Format of routed experts that are stored as floats or FP8");
  add_choice(*sub, "--dense", &convert->dense, {"int4", "int8", "bf16", "keep"},
             "Format of attention, dense MLPs and shared experts");
  add_choice(*sub, "--embedding", &convert->embedding, {"keep", "bf16", "int8"},
             "Format of the embedding");
  add_choice(*sub, "--head", &convert->head, {"keep", "bf16", "int8"}, "Format of the output head");
  add_choice(*sub, "--group", &convert->group, {"64", "128", "32"}, "Weights that share a scale");
  add_choice(*sub, "--scales", &convert->scales, {"search", "absmax"},
             "How scales are found: by trial, or from the largest weight");
  add_whole_number(*sub, "--threads", {1, 1024}, &convert->n_threads,
                   "Computing threads [physical cores]");
  sub->add_flag("--resume", convert->resumes, "Go on with an interrupted conversion to DST");
  sub->add_flag("--json", convert->wants_json, "Print one JSON object");
  sub->callback([convert, run] { *run = [convert] { return run_convert(*convert); }; });
}

}  // namespace colibri::command
