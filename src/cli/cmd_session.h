// The verbs of `sbx session` that have files of their own.
#pragma once

#include "cli/command.h"

namespace sbx::cli {

int session_start_command(const Invocation& invocation);
int session_warm_command(const Invocation& invocation);
int session_run_command(const Invocation& invocation);
int session_exec_command(const Invocation& invocation);
int session_attach_command(const Invocation& invocation);
int session_save_command(const Invocation& invocation);
int session_restore_command(const Invocation& invocation);
Result<Page> session_start_page();
Result<Page> session_warm_page();
Result<Page> session_run_page();
Result<Page> session_exec_page();
Result<Page> session_attach_page();
Result<Page> session_save_page();
Result<Page> session_restore_page();

}  // namespace sbx::cli
