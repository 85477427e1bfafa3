// SPDX-License-Identifier: Apache-2.0
//
// The source is only read. Each result is made from its start and handed to the writer in pieces,
// so no result is ever in memory as a whole.

#include "lib/convert/converter.h"

#include <algorithm>
#include <cmath>

#include "lib/base/parallel.h"
#include "lib/convert/conversion_plan.h"
#include "lib/convert/head_packer.h"
#include "lib/convert/matrix_packer.h"
#include "lib/convert/packed_writer.h"
#include "lib/convert/partial_folder.h"
#include "lib/convert/plain_writer.h"
#include "lib/convert/source_state.h"
#include "lib/snapshot/printable.h"

namespace colibri {
namespace {

// Makes results and hands them to the writer.
class Conversion {
 public:
  Conversion(const Snapshot &source, const ConversionOptions &options, PackedWriter *writer)
      : index_(source.index()),
        options_(options),
        writer_(*writer),
        threads_(options.n_threads),
        matrices_(index_, threads_, options.search),
        heads_(index_, threads_, options.search),
        plain_(index_, threads_) {}

  void make(size_t tensor, const ConversionStep &step) {
    const OutputTensor &output = writer_.plan().tensors[tensor];
    uint64_t n_bytes = 0;
    const auto append = [&](std::span<const uint8_t> bytes) {
      writer_.append(tensor, bytes);
      n_bytes += bytes.size();
      report(writer_.done_bytes());
    };
    run(step, output, append);
    const std::vector<uint8_t> padding(output.bytes - n_bytes, 0);
    append(padding);
    writer_.finish_tensor(tensor);
  }

  // Every byte of the result counts twice: written, then read back.
  void report(uint64_t done_bytes) const {
    const uint64_t total_bytes = 2 * writer_.total_bytes();
    if (!options_.progress || options_.progress(done_bytes, total_bytes)) return;
    throw_error(StatusCode::kCancelled,
                "the conversion was stopped at %llu of %llu bytes; resume to go on with it",
                static_cast<unsigned long long>(done_bytes),
                static_cast<unsigned long long>(total_bytes));
  }

  void publish() {
    const uint64_t written = writer_.total_bytes();
    writer_.publish([&](uint64_t done_bytes, uint64_t) {
      return !options_.progress || options_.progress(written + done_bytes, 2 * written);
    });
  }

  double relative_error() const noexcept {
    return sums_.weight > 0 ? std::sqrt(sums_.error / sums_.weight) : 0.0;
  }

 private:
  void run(const ConversionStep &step, const OutputTensor &output, ByteSink append) {
    switch (step.kind) {
      case ConversionStep::Kind::kCopy:
        plain_.copy(step.copied_name, append);
        break;
      case ConversionStep::Kind::kRound:
        plain_.round(step.sources[0], append);
        break;
      case ConversionStep::Kind::kHeads:
        sums_ += heads_.stream(step.sources[0], *output.layout, append);
        break;
      case ConversionStep::Kind::kPack:
      case ConversionStep::Kind::kExpert:
        for (size_t i = 0; i < step.sources.size(); ++i) {
          sums_ += matrices_.stream(step.sources[i], output.layout->parts[i], append);
        }
        break;
    }
  }

  const TensorIndex &index_;
  const ConversionOptions &options_;
  PackedWriter &writer_;
  ThreadPool threads_;
  MatrixPacker matrices_;
  HeadPacker heads_;
  PlainWriter plain_;
  ErrorSums sums_;
};

uint64_t sum_source_bytes(const ConversionPlan &plan) {
  uint64_t bytes = 0;  // spans of files, which do not overlap
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const ConversionStep &step = plan.steps[i];
    if (step.kind == ConversionStep::Kind::kCopy) bytes += plan.output.tensors[i].bytes;
    for (const WeightSource &source : step.sources) bytes += source.stored_bytes();
  }
  return bytes;
}

void require_unchanged(const Snapshot &source, uint64_t state) {
  if (read_source_state(source.index()) == state) return;
  throw_error(StatusCode::kMismatch,
              "files of '%s' were written to while they were converted; remove the unfinished "
              "result and convert again",
              printable(source.directory(), 120).c_str());
}

}  // namespace

ConversionReport convert_snapshot(const std::string &source, const std::string &destination,
                                  const ConversionOptions &options) {
  check_options(options);
  const Snapshot snapshot = Snapshot::open(source);
  require_outside(destination, snapshot.directory());
  require_outside(partial_directory(destination), snapshot.directory());  // it may be a link
  ConversionPlan plan = plan_conversion(snapshot, options);
  plan.output.destination = destination;
  const uint64_t state = read_source_state(snapshot.index());
  plan.output.source_state = state;

  ConversionReport report;
  report.source_bytes = sum_source_bytes(plan);
  report.n_tensors = plan.steps.size();
  report.n_kept_matrices = plan.n_kept_matrices;
  report.n_quantised_matrices = plan.n_quantised_matrices;
  PackedWriter writer(std::move(plan.output), options.resumes);
  report.result_bytes = writer.total_bytes();
  Conversion conversion(snapshot, options, &writer);
  conversion.report(writer.done_bytes());
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    if (writer.is_done(i)) {
      ++report.n_resumed_tensors;
    } else {
      conversion.make(i, plan.steps[i]);
    }
  }
  require_unchanged(snapshot, state);
  conversion.publish();
  report.relative_error = conversion.relative_error();
  return report;
}

}  // namespace colibri
