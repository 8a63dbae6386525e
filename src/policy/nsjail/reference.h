// The schema and the flags as a page: docs/nsjail-fields.md is this text; a test compares them.
#pragma once

#include <string>

namespace sbx::nsjail {

std::string field_reference_markdown();

}  // namespace sbx::nsjail
