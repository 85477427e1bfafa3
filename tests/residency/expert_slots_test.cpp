// SPDX-License-Identifier: Apache-2.0

#include "lib/residency/expert_slots.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace {

using colibri::ExpertSlots;

constexpr uint64_t kPage = 4096;

uint64_t resident_bytes(ExpertSlots &slots, uint32_t slot) {
  std::vector<unsigned char> pages(slots.slot_bytes() / kPage);
  REQUIRE(mincore(slots.address(slot), slots.slot_bytes(), pages.data()) == 0);
  return kPage * static_cast<uint64_t>(std::count_if(pages.begin(), pages.end(),
                                                     [](auto page) { return (page & 1) != 0; }));
}

void fill(ExpertSlots &slots, uint32_t slot, uint64_t bytes) {
  std::memset(slots.address(slot), 1, bytes);
}

bool has_huge_pages() {
  return std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").good();
}

// The flags of the mapping that holds `address`, as " rd wr mr mw me ac nh ".
std::string mapping_flags(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  bool is_inside = false;
  for (std::string line; std::getline(maps, line);) {
    uintptr_t first = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> first >> dash >> end && dash == '-') {
      const auto wanted = reinterpret_cast<uintptr_t>(address);
      is_inside = first <= wanted && wanted < end;
    }
    if (is_inside && line.starts_with("VmFlags:")) return line.substr(8) + " ";
  }
  return "";
}

}  // namespace

TEST_CASE("slots are disjoint, page aligned, and no more than were reserved") {
  ExpertSlots slots(3 * kPage, 10, false);
  REQUIRE(slots.take(kPage) == ExpertSlots::kNoSlot);
  slots.reserve(2);
  slots.reserve(4);
  slots.reserve(3);
  REQUIRE(slots.n_slots() == 4);
  std::set<uint8_t *> addresses;
  for (int i = 0; i < 4; ++i) {
    const uint32_t slot = slots.take(3 * kPage);
    REQUIRE(slot != ExpertSlots::kNoSlot);
    REQUIRE(reinterpret_cast<uintptr_t>(slots.address(slot)) % kPage == 0);
    addresses.insert(slots.address(slot));
    fill(slots, slot, 3 * kPage);
  }
  REQUIRE(addresses.size() == 4);
  REQUIRE(slots.take(kPage) == ExpertSlots::kNoSlot);
  slots.reserve(100);
  REQUIRE(slots.n_slots() == 10);
}

TEST_CASE("a slot that is taken again at once keeps its pages") {
  ExpertSlots slots(4 * kPage, 2, false);
  slots.reserve(2);
  const uint32_t slot = slots.take(4 * kPage);
  fill(slots, slot, 4 * kPage);
  slots.give_back(slot);
  REQUIRE(slots.take(4 * kPage) == slot);
  REQUIRE(slots.address(slot)[kPage] == 1);
  REQUIRE(slots.touched_bytes() == 4 * kPage);
}

TEST_CASE("pages behind a smaller occupant go back to the system") {
  ExpertSlots slots(4 * kPage, 1, false);
  slots.reserve(1);
  const uint32_t slot = slots.take(4 * kPage);
  fill(slots, slot, 4 * kPage);
  REQUIRE(resident_bytes(slots, slot) == 4 * kPage);
  slots.give_back(slot);
  REQUIRE(slots.take(kPage) == slot);
  REQUIRE(resident_bytes(slots, slot) == kPage);
  REQUIRE(slots.touched_bytes() == kPage);
}

TEST_CASE("pages of slots that stay free go back to the system") {
  ExpertSlots slots(2 * kPage, 3, false);
  slots.reserve(3);
  std::vector<uint32_t> taken;
  for (int i = 0; i < 3; ++i) {
    taken.push_back(slots.take(2 * kPage));
    fill(slots, taken.back(), 2 * kPage);
  }
  for (const uint32_t slot : taken) slots.give_back(slot);
  REQUIRE(slots.touched_bytes() == 6 * kPage);
  slots.release_free_pages();
  REQUIRE(slots.touched_bytes() == 0);
  for (const uint32_t slot : taken) REQUIRE(resident_bytes(slots, slot) == 0);
  REQUIRE(slots.take(kPage) != ExpertSlots::kNoSlot);
}

TEST_CASE("a slot without pages is taken only when none with pages is free") {
  ExpertSlots slots(kPage, 4, false);
  slots.reserve(4);
  const uint32_t first = slots.take(kPage);
  const uint32_t second = slots.take(kPage);
  slots.give_back(first);
  REQUIRE(slots.take(kPage) == first);
  REQUIRE(second != first);
}

TEST_CASE("huge pages hold no more than their slack beside what was taken") {
  constexpr uint64_t kSlotBytes = 3 * ExpertSlots::kLeastHugeBytes + kPage;
  constexpr uint32_t kSlots = 24;
  ExpertSlots slots(kSlotBytes, kSlots, true);
  slots.reserve(kSlots);
  for (uint32_t taken = 1; taken <= kSlots; ++taken) {
    fill(slots, slots.take(kSlotBytes), kSlotBytes);
    uint64_t resident = 0;
    for (uint32_t slot = 0; slot < kSlots; ++slot) resident += resident_bytes(slots, slot);
    REQUIRE(resident >= taken * kSlotBytes);
    REQUIRE(resident <= taken * kSlotBytes + ExpertSlots::kHugeSlack);
  }
}

TEST_CASE("slots of unlike occupants hold what was taken, also where huge pages come unasked") {
  constexpr uint64_t kSlotBytes = 3 * ExpertSlots::kHugeSlack;
  constexpr uint64_t kTaken = ExpertSlots::kHugeSlack + 5 * kPage;
  ExpertSlots slots(kSlotBytes, 4, false);
  slots.reserve(4);
  for (int i = 0; i < 3; ++i) {
    const uint32_t slot = slots.take(kTaken);
    fill(slots, slot, kTaken);
    CHECK(resident_bytes(slots, slot) == kTaken);
    if (has_huge_pages())
      CHECK(mapping_flags(slots.address(slot)).find(" nh ") != std::string::npos);
  }
}
