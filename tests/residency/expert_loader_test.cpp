// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/expert_loader.h"

#include <condition_variable>
#include <mutex>
#include <vector>

#include "lib/base/buffer.h"
#include "lib/residency/expert_layout.h"
#include "tests/residency/packed_experts.h"
#include "tests/support/catch.h"

namespace {

using namespace colibri;
using colibri::test::SyntheticModel;
using colibri::test::SyntheticShape;

struct Outcome {
  uint32_t tag;
  StatusCode code;
  uint64_t read_bytes;
};

// Collects outcomes and waits for them.
class Outcomes {
 public:
  ExpertLoader::Done done() {
    return [this](uint32_t tag, const Status &status, uint64_t read_bytes) {
      const std::lock_guard<std::mutex> lock(mutex_);
      outcomes_.push_back({tag, status.code(), read_bytes});
      changed_.notify_all();
    };
  }
  std::vector<Outcome> wait_for(size_t n) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return outcomes_.size() >= n; });
    return outcomes_;
  }
  size_t count() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return outcomes_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Outcome> outcomes_;
};

struct Fixture {
  Fixture() : slots(model.shape.n_experts * slot_bytes, "slots") {}
  ExpertLoader::Job job(uint32_t expert) {
    return {&experts[expert], {slots.data() + expert * slot_bytes, slot_bytes}, expert};
  }
  uint64_t staging() const { return colibri::staging_bytes(experts[0]); }

  SyntheticModel model{SyntheticShape{{16}, 8, 24}};
  const std::vector<ExpertSource> &experts = model.sources.layers[0].experts;
  uint64_t slot_bytes = model.expert_bytes(0);
  Buffer slots;
  Outcomes outcomes;
};

}  // namespace

TEST_CASE("each job is read into its slot and reported once") {
  Fixture f;
  ExpertLoader loader(f.model.index, f.staging(), 3, 8, f.outcomes.done());
  for (uint32_t expert = 0; expert < 8; ++expert) loader.submit(f.job(expert));
  const std::vector<Outcome> outcomes = f.outcomes.wait_for(8);
  std::vector<int> n_reports(8);
  for (const Outcome &outcome : outcomes) {
    REQUIRE(outcome.code == StatusCode::kOk);
    REQUIRE(outcome.read_bytes == 3 * 16 * 24 * sizeof(float));
    ++n_reports[outcome.tag];
    const ExpertView view = view_expert(f.experts[outcome.tag], f.job(outcome.tag).slot.data());
    REQUIRE(test::has_weights_of(view, {0, outcome.tag}));
  }
  for (const int n : n_reports) REQUIRE(n == 1);
}

TEST_CASE("as many reads run at once as there are threads, and the depth reached is reported") {
  Fixture f;
  f.model.control->hold();
  ExpertLoader loader(f.model.index, f.staging(), 5, 8, f.outcomes.done());
  REQUIRE(loader.largest_depth() == 0);
  for (uint32_t expert = 0; expert < 8; ++expert) loader.submit(f.job(expert));
  f.model.control->wait_for_held(5);
  f.model.control->resume();
  f.outcomes.wait_for(8);
  REQUIRE(loader.largest_depth() == 5);
}

TEST_CASE("one thread reads in the order of submission, also past the end of the ring") {
  Fixture f;
  ExpertLoader loader(f.model.index, f.staging(), 1, 2, f.outcomes.done());
  for (uint32_t expert = 0; expert < 8; ++expert) {
    loader.submit(f.job(expert));
    f.outcomes.wait_for(expert + 1);
  }
  const std::vector<Outcome> outcomes = f.outcomes.wait_for(8);
  for (uint32_t i = 0; i < 8; ++i) REQUIRE(outcomes[i].tag == i);
}

TEST_CASE("a failed read is reported and the thread goes on") {
  Fixture f;
  f.model.control->fail_at(f.model.offset_of({0, 1}, "down"));
  ExpertLoader loader(f.model.index, f.staging(), 1, 8, f.outcomes.done());
  for (uint32_t expert = 0; expert < 3; ++expert) loader.submit(f.job(expert));
  const std::vector<Outcome> outcomes = f.outcomes.wait_for(3);
  REQUIRE(outcomes[0].code == StatusCode::kOk);
  REQUIRE(outcomes[1].code == StatusCode::kIo);
  REQUIRE(outcomes[2].code == StatusCode::kOk);
}

TEST_CASE("an expert larger than its slot is refused without a read") {
  Fixture f;
  ExpertLoader loader(f.model.index, f.staging(), 1, 8, f.outcomes.done());
  ExpertLoader::Job job = f.job(0);
  job.slot = job.slot.first(job.slot.size() - 1);
  loader.submit(job);
  REQUIRE(f.outcomes.wait_for(1)[0].code == StatusCode::kInternal);
  REQUIRE(f.model.control->n_reads() == 0);
}

TEST_CASE("destruction ends the read that runs and drops those that wait") {
  Fixture f;
  f.model.control->hold();
  {
    ExpertLoader loader(f.model.index, f.staging(), 1, 8, f.outcomes.done());
    for (uint32_t expert = 0; expert < 4; ++expert) loader.submit(f.job(expert));
    f.model.control->wait_for_held(1);
    f.model.control->resume();
  }
  const size_t n_done = f.outcomes.count();
  REQUIRE(n_done >= 1);
  REQUIRE(n_done <= 4);
}

TEST_CASE("packed experts are read without staging, each with one read") {
  const test::PackedExperts model(8);
  const uint64_t bytes = packed_bytes(model.experts()[0]);
  Buffer slots(8 * bytes, "slots");
  Outcomes outcomes;
  ExpertLoader loader(model.index, 0, 3, 8, outcomes.done());
  for (uint32_t expert = 0; expert < 8; ++expert) {
    loader.submit({&model.experts()[expert], {slots.data() + expert * bytes, bytes}, expert});
  }
  for (const Outcome &outcome : outcomes.wait_for(8)) {
    REQUIRE(outcome.code == StatusCode::kOk);
    REQUIRE(outcome.read_bytes == bytes);
    const ExpertView view =
        view_expert(model.experts()[outcome.tag], slots.data() + outcome.tag * bytes);
    REQUIRE(test::has_packed_weights(view, outcome.tag));
  }
  REQUIRE(model.control->n_reads() == 8);
}
