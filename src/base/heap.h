// The end of a process: its memory goes back to the kernel in one piece.
#pragma once

namespace sbx {

// From here on `delete` does nothing. For a process that is about to end and allocates little on its way: a start's thousand pieces
// of memory, taken apart one by one, would be a copy of every page that the fork has left shared with the sandbox's init.
void leave_heap_to_kernel();

}  // namespace sbx
