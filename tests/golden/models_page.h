// SPDX-License-Identifier: Apache-2.0
//
// The tables of docs/models.md, made of the family table and of what is tested.

#pragma once

#include <string>

namespace colibri::test {

// Markdown: one row for each family of family.h (what its models are built of, as the configuration
// of its first golden case says), and one for each golden case with the formats in which it is
// stored.
std::string models_page_tables();

}  // namespace colibri::test
