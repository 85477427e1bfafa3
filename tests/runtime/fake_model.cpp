// SPDX-License-Identifier: Apache-2.0
//
// Definitions of Model and Workspace that take the place of the library's in this test program.

#include "tests/runtime/fake_model.h"

#include <cmath>
#include <map>

namespace colibri {
namespace {

// Kept in three floats of 21 bits each, which are exact and finite.
constexpr int kPartBits = 21;

uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  return (x ^ (x >> 29)) & ((1ull << (3 * kPartBits)) - 1);
}

test::FakeControls controls;
uint32_t load_vocabulary = 0;

}  // namespace

class Workspace {
 public:
  std::vector<std::vector<float>> logits;
};

void WorkspaceDeleter::operator()(Workspace *workspace) const noexcept {
  delete workspace;
}

struct Model::Impl {
  ModelConfig config;
  KvLayout layout;
};

Model::Model(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const Snapshot &, Backend &, ThreadPool &, ExpertCache *,
                                   const KvShape &kv, const ModelOptions &,
                                   const std::function<bool(uint64_t, uint64_t)> &) {
  auto impl = std::make_unique<Impl>();
  impl->config = test::make_fake_config(load_vocabulary);
  impl->layout = KvLayout(impl->config, kv);
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

const ModelConfig &Model::config() const noexcept {
  return impl_->config;
}
const KvLayout &Model::kv_layout() const noexcept {
  return impl_->layout;
}

WorkspacePtr Model::make_workspace(uint32_t, uint32_t max_logits_rows) const {
  WorkspacePtr workspace(new Workspace);
  workspace->logits.assign(max_logits_rows, std::vector<float>(impl_->config.vocabulary_size));
  return workspace;
}

const float *Model::logits(const Workspace &workspace, uint32_t logits_row) const noexcept {
  return workspace.logits[logits_row].data();
}

void Model::forward(std::span<const ForwardRow> rows, Workspace &workspace,
                    std::span<Status> row_status, ForwardObserver *) const noexcept {
  if (controls.on_pass) controls.on_pass();
  ++controls.n_passes;
  controls.last_rows.assign(rows.begin(), rows.end());
  const KvLayout &layout = impl_->layout;
  for (size_t i = 0; i < rows.size(); ++i) {
    const ForwardRow &row = rows[i];
    for (size_t j = 0; j < i; ++j) {
      if (controls.forgets_failures) break;
      if (rows[j].slot == row.slot && !row_status[j].is_ok()) row_status[i] = row_status[j];
    }
    if (row_status[i].is_ok() && row.token == controls.failing_token) {
      row_status[i] =
          make_status(StatusCode::kIo, "expert of token %d could not be read", row.token);
    }
    if (!row_status[i].is_ok()) continue;
    // The last layer's entries are chained as well, so that copies must reach every layer.
    const uint32_t layer = row.position % 2;
    uint64_t state = 0;
    if (row.position > 0) {
      const auto *before = reinterpret_cast<const float *>(
          layout.key_at(row.slot, (row.position - 1) % 2, row.position - 1));
      for (int part = 0; part < 3; ++part) {
        state |= static_cast<uint64_t>(before[part]) << (part * kPartBits);
      }
    }
    state = mix(state * 31 + static_cast<uint64_t>(row.token) + 1);
    auto *entry = reinterpret_cast<float *>(layout.key_at(row.slot, layer, row.position));
    for (int part = 0; part < 3; ++part) {
      entry[part] = static_cast<float>((state >> (part * kPartBits)) & ((1u << kPartBits) - 1));
    }
    if (row.logits_row < 0) continue;
    std::vector<float> &logits = workspace.logits[static_cast<size_t>(row.logits_row)];
    for (size_t id = 0; id < logits.size(); ++id) {
      logits[id] = static_cast<float>(mix(state + id * 977) % 4096) / 512.0f;
    }
    if (!controls.script.empty()) {
      logits[static_cast<size_t>(controls.script[row.position % controls.script.size()])] = 100.0f;
    }
    if (row.token == controls.spoiled_token) logits[3] = std::nanf("");
  }
}

}  // namespace colibri

namespace colibri::test {
namespace {

constexpr uint32_t kMaxPassRows = 64;  // of the tests' batches and schedulers

std::unique_ptr<Model> load_fake(uint32_t capacity, uint32_t vocabulary_size) {
  fake_controls() = FakeControls();
  // A pass allocates nothing, as a real one.
  fake_controls().last_rows.reserve(4096);
  load_vocabulary = vocabulary_size;
  // The stand-in looks at neither; the interface wants references.
  alignas(16) static std::byte nothing[sizeof(Snapshot) + sizeof(ThreadPool) + sizeof(Backend)];
  return Model::load(reinterpret_cast<const Snapshot &>(nothing),
                     reinterpret_cast<Backend &>(nothing), reinterpret_cast<ThreadPool &>(nothing),
                     nullptr, {capacity, kMaxPassRows}, {}, nullptr);
}

}  // namespace

FakeControls &fake_controls() {
  return controls;
}

ModelConfig make_fake_config(uint32_t vocabulary_size) {
  ModelConfig config;
  config.vocabulary_size = vocabulary_size;
  config.n_layers = 2;
  config.kv_latent = 4;
  config.rotary.width = 2;
  config.index_width = 3;
  config.index_top_k = 8;
  config.indexer_kinds = {IndexerKind::kFull, IndexerKind::kShared};
  return config;
}

FakeEngine::FakeEngine(uint32_t n_slots, uint32_t capacity, uint32_t vocabulary_size)
    : model(load_fake(capacity, vocabulary_size)), pool(model->kv_layout(), n_slots) {}

}  // namespace colibri::test
