// SPDX-License-Identifier: Apache-2.0
//
// colibri bench kernels: one matrix kernel against what bounds it on this machine.

#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "examples/colibri/bench.h"
#include "examples/colibri/colibri_raii.h"
#include "examples/colibri/json_output.h"
#include "examples/colibri/number_list.h"
#include "examples/colibri/terminal.h"

namespace colibri::command {
namespace {

constexpr uint32_t kMostWidth = 1 << 20;

struct Kernels {
  std::string isa;
  std::string shape = "glm";
  std::string matrix = "int4";
  std::vector<int32_t> rows = {1, 2, 4, 8, 16, 32};
  uint32_t n_threads = 1;
  uint32_t n_runs = 0;
  uint64_t memory_bytes = 0;
  bool wants_json = false;
};

// Of the gate matrix of one expert.
struct Shape {
  uint32_t depth = 0;
  uint32_t columns = 0;
};

struct Figures {
  colibri_machine_figures machine = sized<colibri_machine_figures>();
  std::vector<colibri_kernel_figures> rows;
};

std::optional<uint32_t> parse_width(std::string_view text) {
  uint32_t number = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || number > kMostWidth) return std::nullopt;
    number = 10 * number + static_cast<uint32_t>(digit - '0');
  }
  if (number == 0 || number > kMostWidth) return std::nullopt;
  return number;
}

std::optional<Shape> parse_shape(std::string_view text) {
  if (text == "glm") return Shape{6144, 2048};
  if (text == "qwen3") return Shape{2048, 768};
  if (text == "mixtral") return Shape{4096, 14336};
  const size_t cross = text.find('x');
  if (cross == std::string_view::npos) return std::nullopt;
  const std::optional<uint32_t> depth = parse_width(text.substr(0, cross));
  const std::optional<uint32_t> columns = parse_width(text.substr(cross + 1));
  if (!depth || !columns) return std::nullopt;
  return Shape{*depth, *columns};
}

std::string check_shape(const std::string &text) {
  if (parse_shape(text)) return "";
  return "'" + text +
         "' is no shape; write glm, qwen3, mixtral, or inputs and outputs as 6144x2048" +
         " (each 1 to " + std::to_string(kMostWidth) + ")";
}

int32_t matrix_constant(const std::string &name) {
  if (name == "int8") return COLIBRI_MATRIX_INT8;
  return name == "bf16" ? COLIBRI_MATRIX_BF16 : COLIBRI_MATRIX_INT4;
}

Figures measure(const Kernels &kernels) {
  const Shape shape = *parse_shape(kernels.shape);
  colibri_measure_options options;
  colibri_measure_options_init(&options, sizeof options);
  options.n_threads = kernels.n_threads;
  options.kernel_set = kernels.isa.empty() ? nullptr : kernels.isa.c_str();
  options.matrix = matrix_constant(kernels.matrix);
  options.depth = shape.depth;
  options.columns = shape.columns;
  options.min_runs = kernels.n_runs;
  options.memory_bytes = kernels.memory_bytes;
  const std::vector<uint32_t> rows(kernels.rows.begin(), kernels.rows.end());
  Figures figures;
  figures.rows.resize(rows.size());
  call(colibri_measure_kernels, &options, rows.data(), rows.size(), &figures.machine,
       figures.rows.data(), sizeof(colibri_kernel_figures));
  return figures;
}

std::string make_json(const Kernels &kernels, const Figures &figures) {
  const Shape shape = *parse_shape(kernels.shape);
  JsonOutput json;
  json.begin_object().member("kernel_set", figures.machine.kernel_set);
  json.member("instruction", figures.machine.instruction);
  json.member("threads", uint64_t{figures.machine.n_threads});
  json.member("shape", kernels.shape).member("matrix", kernels.matrix);
  json.member("depth", uint64_t{shape.depth}).member("columns", uint64_t{shape.columns});
  json.member("read_gbps", figures.machine.read_gbps);
  json.member("peak_gmacs", figures.machine.peak_gmacs);
  json.member("cache_gmacs", figures.machine.cache_gmacs).key("rows").begin_array();
  for (const colibri_kernel_figures &row : figures.rows) {
    json.begin_object().member("rows", uint64_t{row.n_rows}).member("seconds", row.seconds);
    json.member("gbps", row.gbps).member("gmacs", row.gmacs);
    json.member("relative_time", row.relative_time).member("roof_share", row.roof_share);
    json.end_object();
  }
  json.end_array().end_object();
  return json.text() + "\n";
}

std::string make_table(const Kernels &kernels, const Figures &figures) {
  const Shape shape = *parse_shape(kernels.shape);
  char line[200];
  std::snprintf(line, sizeof line,
                "%s matrix of %u inputs and %u outputs, kernels %s (%s), threads %u\n"
                "read %.2f GB/s, peak %.1f GMAC/s, in cache %.1f GMAC/s\n",
                kernels.matrix.c_str(), shape.depth, shape.columns, figures.machine.kernel_set,
                figures.machine.instruction, figures.machine.n_threads, figures.machine.read_gbps,
                figures.machine.peak_gmacs, figures.machine.cache_gmacs);
  std::string table = line;
  table += " rows    us/matrix      GB/s    GMAC/s  relative time  share of roof\n";
  for (const colibri_kernel_figures &row : figures.rows) {
    std::snprintf(line, sizeof line, "%5u %12.1f %9.2f %9.1f %14.2f %14.2f\n", row.n_rows,
                  1e6 * row.seconds, row.gbps, row.gmacs, row.relative_time, row.roof_share);
    table += line;
  }
  return table;
}

int run_kernels(const Kernels &kernels) {
  print_note("measuring takes some seconds; the machine should have nothing else to do");
  end_on_interrupt();  // with many rows it takes minutes
  if (is_interrupted()) return kExitInterrupted;
  const Figures figures = measure(kernels);
  print(kernels.wants_json ? make_json(kernels, figures) : make_table(kernels, figures));
  return 0;
}

}  // namespace

void add_bench_kernels(CLI::App &bench, Run *run) {
  CLI::App *sub = bench.add_subcommand(
      "kernels", "Measure one matrix kernel against this machine's memory and registers");
  const auto kernels = std::make_shared<Kernels>();
  add_whole_number(*sub, "--threads", {1, 1024}, &kernels->n_threads, "Computing threads [1]");
  sub->add_option("--isa", kernels->isa,
                  "Kernel set: ref, avx2, avx512 [the best that this CPU has]")
      ->type_name("NAME");
  add_number_list(*sub, "--rows", {1, 4096}, &kernels->rows,
                  "Numbers of rows that share one reading of a matrix; the first is the measure of "
                  "relative time [1,2,4,8,16,32]");
  sub->add_option("--shape", kernels->shape,
                  "Inputs and outputs of a matrix: glm (6144x2048), qwen3 (2048x768), mixtral "
                  "(4096x14336), or numbers")
      ->check(CLI::Validator(check_shape, ""))
      ->type_name("SHAPE")
      ->capture_default_str();
  sub->add_option("--matrix", kernels->matrix, "Format of the weights: int4, int8 or bf16")
      ->check(CLI::IsMember({"int4", "int8", "bf16"}))
      ->type_name("KIND")
      ->capture_default_str();
  add_whole_number(*sub, "--runs", {1, 1000}, &kernels->n_runs,
                   "Measurements of each figure; the best counts [24]");
  add_size(*sub, "--memory", &kernels->memory_bytes,
           "Matrices that are read in turn, together, at least 1M [1.25G]");
  sub->add_flag("--json", kernels->wants_json, "Print one JSON object");
  sub->callback([kernels, run] { *run = [kernels] { return run_kernels(*kernels); }; });
}

}  // namespace colibri::command
