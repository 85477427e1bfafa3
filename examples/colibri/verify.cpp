// SPDX-License-Identifier: Apache-2.0
//
// colibri verify: compares a packed model folder with the checksums it carries.

#include <chrono>
#include <cstdio>
#include <memory>

#include "examples/colibri/commands.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/model_options.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"
#include "examples/colibri/transfer_progress.h"

namespace colibri::command {
namespace {

constexpr int kExitDamaged = 1;

struct Verify {
  ModelFlags model;
  uint32_t n_threads = 0;
  bool wants_json = false;
};

std::string make_json(const colibri_verify_report &report, double seconds) {
  JsonOutput json;
  json.begin_object().member("tensors", report.n_tensors).member("files", report.n_files);
  json.member("bytes", report.bytes).member("seconds", seconds);
  json.member("damaged", uint64_t{report.n_damaged}).key("first_damaged");
  if (report.n_damaged == 0) {
    json.null();
  } else {
    json.value(static_cast<const char *>(report.first_damaged));
  }
  return json.end_object().text() + "\n";
}

std::string count_all(const colibri_verify_report &report) {
  return std::to_string(report.n_tensors) + " tensors and " + std::to_string(report.n_files) +
         " other files";
}

std::string make_text(const colibri_verify_report &report, double seconds) {
  char rate[48] = "";
  if (seconds > 0) {
    std::snprintf(rate, sizeof rate, ", %.0f MB/s",
                  static_cast<double>(report.bytes) / seconds / 1e6);
  }
  return "sound: " + count_all(report) + ", " + format_bytes(report.bytes) + rate + "\n";
}

int run_verify(const Verify &verify) {
  const std::string path = model_path(verify.model);
  auto report = sized<colibri_verify_report>();
  const auto begin = std::chrono::steady_clock::now();
  {
    TransferProgress progress("checking");
    call(colibri_snapshot_verify, path.c_str(), verify.n_threads, &show_transfer,
         static_cast<void *>(&progress), &report);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  if (verify.wants_json) print(make_json(report, elapsed.count()));
  if (report.n_damaged != 0) {
    print_error(std::to_string(report.n_damaged) + " of " + count_all(report) +
                " differ from their checksums or are absent, the first is " + report.first_damaged +
                "; copy or convert " + path + " again");
    return kExitDamaged;
  }
  if (!verify.wants_json) print(make_text(report, elapsed.count()));
  return 0;
}

}  // namespace

void add_verify(CLI::App &app, Run *run) {
  CLI::App *sub = app.add_subcommand("verify", "Compare a packed model folder with its checksums");
  const auto verify = std::make_shared<Verify>();
  sub->add_option("SNAPSHOT", verify->model.path, "Folder that colibri convert made")
      ->required()
      ->type_name("PATH");
  add_whole_number(*sub, "--threads", {1, 1024}, &verify->n_threads, "Threads [physical cores]");
  sub->add_flag("--json", verify->wants_json, "Print one JSON object");
  sub->callback([verify, run] { *run = [verify] { return run_verify(*verify); }; });
}

}  // namespace colibri::command
