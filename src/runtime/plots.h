// What a program showed: the files that the hooks of its language (policies/lang/hooks) left in the folder of plots.
//
// The payload wrote them, perhaps without any hook, so they are as hostile as artifacts: only regular files are read,
// beneath the folder, never through links, within bounds; what a file is, its first bytes say; nothing in it is
// interpreted but the size in a PNG's or GIF's header. The names are of the form ORDER.FORM.LIBRARY.TITLE (see
// python_display.py); another name is an order by itself, so that any program can put a picture there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sbx::runtime {

// Where plots lie inside, and the files that make programs put them there.
inline constexpr char kPlotsDirectory[] = "/run/sbx/plots";
inline constexpr char kHooksDirectory[] = "/run/sbx/hooks";
// Their folder below the directory of --artifacts.
inline constexpr char kPlotsFolder[] = "sbx-plots";

struct PlotBounds {
  size_t max_files = 100;
  uint64_t max_bytes = uint64_t{64} << 20;  // all together
  size_t max_scan = 10000;                  // directory entries looked at
};

struct Plot {
  unsigned index = 0;    // of the figure, from 1; several forms of one figure (HTML and JSON) have the same
  std::string library;   // "matplotlib"; "" : not said. The payload's word, one of [a-z0-9]
  std::string title;     // valid UTF-8; "" : none. The payload's word
  std::string format;    // "png", "jpeg", "gif", "webp", "svg", "pdf", "html", "json"
  std::string mime;
  std::string sha256;
  uint64_t size = 0;
  std::optional<uint32_t> width, height;  // in pixels, as the header says
  std::string file;      // copied out: its path below the destination
  std::string content;   // when it was not to be copied out
};

struct PlotList {
  std::vector<Plot> plots;           // in the order in which they were shown
  std::vector<std::string> dropped;  // sentences
};

// Reads the folder. With a destination (a descriptor of the directory of --artifacts; -1: none) the files are copied
// to kPlotsFolder in it, else their contents kept. Fails when the folder cannot be read or the destination not written.
Result<PlotList> collect_plots(int dirfd, int destination_fd, const PlotBounds& bounds);

// The parts of a name. TITLE is decoded as far as it is valid.
struct PlotName {
  std::string order;
  std::string library;
  std::string title;
};
PlotName parse_plot_name(std::string_view name);

}  // namespace sbx::runtime
