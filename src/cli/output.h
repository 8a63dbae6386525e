// What sbx itself says. On stderr every line starts "sbx: "; stdout is for answers (tables, JSON) and the payload.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/result.h"

namespace sbx::cli {

// One line on stderr, "sbx: " before each line of it, control characters made visible.
void say(const std::string& text);
// "sbx: …" and, where there is one, "sbx: hint: …".
void say_error(const Error& error);
// A progress line that goes away; "" takes it away. REQUIRES can_show_progress(): stderr is a terminal that can erase.
bool can_show_progress();
void show_progress(const std::string& text);
// Everything to stdout; false when it could not be written (EPIPE, a full disk).
bool print(const std::string& text);
// stdout could not be written: says so and gives the status.
int print_or_fail(const std::string& text);

// Columns two spaces apart, the last one ragged; the first row is the heading.
std::string table(const std::vector<std::vector<std::string>>& rows);
std::string json_text(const std::string& text);  // a JSON string with its quotes
std::string json_list(const std::vector<std::string>& texts);

}  // namespace sbx::cli
