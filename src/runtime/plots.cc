#include "runtime/plots.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "base/sys.h"
#include "base/text.h"
#include "runtime/artifacts.h"
#include "runtime/digest.h"
#include "runtime/tree_walk.h"

namespace sbx::runtime {
namespace {

struct Format {
  const char* mime;
  const char* name;
};
constexpr Format kFormats[] = {
    {"image/png", "png"},      {"image/jpeg", "jpeg"},   {"image/gif", "gif"},  {"image/webp", "webp"},
    {"image/svg+xml", "svg"},  {"application/pdf", "pdf"}, {"text/html", "html"}, {"application/json", "json"},
};

uint32_t big_endian(std::string_view bytes) {
  uint32_t number = 0;
  for (const char byte : bytes.substr(0, 4)) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

uint32_t little_endian_16(std::string_view bytes) {
  return static_cast<unsigned char>(bytes[0]) | static_cast<uint32_t>(static_cast<unsigned char>(bytes[1])) << 8;
}

// Whether the content is a plot's, and then mime, format and size in pixels.
bool describe(Plot& plot) {
  const std::string_view content = plot.content;
  // The name is a title: only the content counts.
  plot.mime = mime_type(content.substr(0, 512), "");
  if (plot.mime == "text/plain" && trim(content.substr(0, 512)).substr(0, 1) == "{") plot.mime = "application/json";
  const auto* const format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                          [&](const Format& known) { return plot.mime == known.mime; });
  if (format == std::end(kFormats)) return false;
  plot.format = format->name;
  if (plot.format == "json" && plot.library == "plotly") plot.mime = "application/vnd.plotly.v1+json";
  if (plot.format == "png" && content.size() >= 24) {
    plot.width = big_endian(content.substr(16));
    plot.height = big_endian(content.substr(20));
  } else if (plot.format == "gif" && content.size() >= 10) {
    plot.width = little_endian_16(content.substr(6));
    plot.height = little_endian_16(content.substr(8));
  }
  return true;
}

// nullopt: more than `limit` bytes, or not to be read.
std::optional<std::string> read_content(int parent_fd, const std::string& name, uint64_t limit) {
  // O_NONBLOCK: between the look and the open a FIFO may have taken the file's place.
  const Result<UniqueFd> fd = open_beneath(parent_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (!fd.ok()) return std::nullopt;
  const Result<struct stat> info = sys::fstat(fd.value().get());
  if (!info.ok() || !S_ISREG(info.value().st_mode)) return std::nullopt;
  Result<std::string> content = sys::read_all(fd.value().get(), limit);
  return content.ok() ? std::optional<std::string>(content.take()) : std::nullopt;
}

int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::string decode_title(std::string_view text) {
  std::string title;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      title += text[at];
      continue;
    }
    const int high = at + 2 < text.size() ? hex_digit(text[at + 1]) : -1;
    const int low = high >= 0 ? hex_digit(text[at + 2]) : -1;
    if (low < 0) break;  // the name was cut inside an escape
    title += static_cast<char>(high << 4 | low);
    at += 2;
  }
  for (size_t cut = 0; cut < 4 && cut <= title.size(); ++cut) {
    if (is_valid_utf8(std::string_view(title).substr(0, title.size() - cut))) return title.substr(0, title.size() - cut);
  }
  return "";
}

// How many of something, and the first of them.
struct Count {
  size_t number = 0;
  std::string first;
  void add(const std::string& name) {
    if (number++ == 0) first = name;
  }
  void say(std::vector<std::string>& sentences, const std::string& what) const {
    if (number > 0) sentences.push_back(what + ": " + std::to_string(number) + ", the first " + quoted_path(first));
  }
};

}  // namespace

PlotName parse_plot_name(std::string_view name) {
  const size_t form = name.find('.');
  const size_t library = form == std::string_view::npos ? form : name.find('.', form + 1);
  const size_t title = library == std::string_view::npos ? library : name.find('.', library + 1);
  if (title == std::string_view::npos) return {std::string(name), "", ""};
  PlotName parts{std::string(name.substr(0, form)), std::string(name.substr(library + 1, title - library - 1)),
                 decode_title(name.substr(title + 1))};
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (parts.library.empty() || parts.library.size() > 16 || !std::all_of(parts.library.begin(), parts.library.end(), plain)) {
    return {std::string(name), "", ""};
  }
  return parts;
}

Result<PlotList> collect_plots(int dirfd, int destination_fd, const PlotBounds& bounds) {
  PlotList list;
  Count unkept, strange, beyond;
  uint64_t bytes_left = bounds.max_bytes;
  unsigned index = 0;
  std::string last_order;
  Status copied;

  WalkVisitor visitor;
  visitor.entry = [&](const WalkEntry& entry) {
    if (S_ISREG(entry.info.st_mode) && (entry.name[0] == '.' || entry.info.st_size == 0)) {
      unkept.add(entry.name);
      return false;
    }
    if (!S_ISREG(entry.info.st_mode)) {
      strange.add(entry.name);
      return false;
    }
    const uint64_t size = static_cast<uint64_t>(entry.info.st_size);
    if (list.plots.size() >= bounds.max_files || size > bytes_left) {
      beyond.add(entry.name);
      return false;
    }
    Plot plot;
    PlotName name = parse_plot_name(entry.name);
    plot.library = std::move(name.library);
    plot.title = std::move(name.title);
    std::optional<std::string> content = read_content(entry.parent_fd, entry.name, size);
    if (content) plot.content = *std::move(content);
    if (!describe(plot)) {
      strange.add(entry.name);
      return false;
    }
    if (index == 0 || name.order != last_order) ++index;
    last_order = std::move(name.order);
    plot.index = index;
    plot.size = plot.content.size();
    plot.sha256 = sha256_hex(plot.content);
    bytes_left -= std::min(bytes_left, plot.size);
    if (destination_fd >= 0 && copied.ok()) {
      char number[16];
      std::snprintf(number, sizeof number, "%03u", index);
      plot.file = std::string(kPlotsFolder) + "/" + number + "." + plot.format;
      const auto same = [&](const Plot& other) { return other.file == plot.file; };
      if (std::any_of(list.plots.begin(), list.plots.end(), same)) {
        plot.file = std::string(kPlotsFolder) + "/" + number + "-" + std::to_string(list.plots.size()) + "." + plot.format;
      }
      copied = put_artifact(destination_fd, plot.file, plot.content);
      if (!copied.ok()) plot.file.clear();
    }
    if (destination_fd >= 0) plot.content = {};
    list.plots.push_back(std::move(plot));
    return false;
  };
  const WalkLimits limits{bounds.max_scan, 1, true};
  const WalkReport report = SBX_TRY(walk_tree(dirfd, limits, visitor));
  if (!copied.ok()) return copied.take_error();

  unkept.say(list.dropped, "plots that the program's own hook could not keep (at most 100, of 64M altogether, and no more than --disk leaves)");
  strange.say(list.dropped, "entries among the plots that are no picture, HTML or JSON, or could not be read");
  beyond.say(list.dropped, "plots beyond the first " + std::to_string(bounds.max_files) + " or beyond " +
                               format_size(Bytes{bounds.max_bytes}) + " altogether");
  for (std::string& sentence : report.sentences(limits)) list.dropped.push_back(std::move(sentence));
  return list;
}

}  // namespace sbx::runtime
