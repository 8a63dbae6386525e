// sbx session save and restore.
#pragma once

#include <string>

namespace sbx::cli {

int save_session(const std::string& id, const std::string& file);
int restore_session(const std::string& id, const std::string& file);

}  // namespace sbx::cli
