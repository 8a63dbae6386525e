#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/sys.h"
#include "runtime/plots.h"
#include "temp_dir.h"

namespace {

using namespace sbx;
using namespace sbx::runtime;
using namespace std::string_literals;

const std::string kPng = "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x23\0\0\x01\xb1"s;

PlotList collect(const TempDir& folder, const PlotBounds& bounds = {}, int destination = -1) {
  Result<PlotList> list = collect_plots(folder.fd(), destination, bounds);
  REQUIRE(list.ok());
  return list.take();
}

}  // namespace

TEST_CASE("a plot's name says order, library and title, as far as it is of that form") {
  PlotName name = parse_plot_name("0017-5-1.0.matplotlib.Fr%C3%A9d%2Fx");
  CHECK(name.order == "0017-5-1");
  CHECK(name.library == "matplotlib");
  CHECK(name.title == "Fréd/x");
  CHECK(parse_plot_name("0017.0.r.").title.empty());
  CHECK(parse_plot_name("0017.0.r.a.b.c").title == "a.b.c");
  for (const char* other : {"plain.png", "", "...", "1.0.Not Plain.t", "1.0.abcdefghijklmnopq.t"}) {
    CAPTURE(other);
    name = parse_plot_name(other);
    CHECK(name.order == other);
    CHECK(name.library.empty());
    CHECK(name.title.empty());
  }
  // Cut inside an escape, or inside a character; no UTF-8 at all.
  CHECK(parse_plot_name("1.0.r.ab%C").title == "ab");
  CHECK(parse_plot_name("1.0.r.ab%C3").title == "ab");
  CHECK(parse_plot_name("1.0.r.%FF%FE%FF%FE%FFab").title.empty());
}

TEST_CASE("plots come in the order of their names, forms of one plot with one index, sized by their headers") {
  const TempDir folder;
  folder.write("02.0.plotly.T", "<html></html>");
  folder.write("02.1.plotly.T", " {\"data\": []}");
  folder.write("01.0.matplotlib.", kPng);
  folder.write("03.0.pil.", "GIF89a\x05\0\x07\0"s);
  const PlotList list = collect(folder);
  CHECK(list.dropped.empty());
  REQUIRE(list.plots.size() == 4);
  CHECK(list.plots[0].index == 1);
  CHECK(list.plots[0].mime == "image/png");
  CHECK(list.plots[0].width == 547);
  CHECK(list.plots[0].height == 433);
  CHECK(list.plots[0].content == kPng);
  CHECK(list.plots[0].sha256.size() == 64);
  CHECK(list.plots[1].index == 2);
  CHECK(list.plots[1].format == "html");
  CHECK(list.plots[2].index == 2);
  CHECK(list.plots[2].mime == "application/vnd.plotly.v1+json");
  CHECK(list.plots[3].index == 3);
  CHECK(list.plots[3].width == 5);
  CHECK(list.plots[3].height == 7);
}

TEST_CASE("what is in the folder and no plot is named, never followed, opened or read") {
  const TempDir folder;
  REQUIRE(::symlink("/etc/passwd", folder.at("01.0.matplotlib.").c_str()) == 0);
  REQUIRE(::mkfifo(folder.at("02.0.matplotlib.").c_str(), 0644) == 0);
  REQUIRE(::mkdir(folder.at("03.0.matplotlib.").c_str(), 0755) == 0);
  folder.write("03.0.matplotlib./inside.png", kPng);
  folder.write("04.0.matplotlib.page.html", "text, whatever the title says");
  folder.write("05.0.matplotlib.", std::string("\x7f") + "ELF\1\1");
  folder.write("06.0.matplotlib.", "");
  folder.write(".07.0", kPng);
  const PlotList list = collect(folder);
  CHECK(list.plots.empty());
  REQUIRE(list.dropped.size() == 2);
  CHECK(list.dropped[0].find(": 2, the first '.07.0'") != std::string::npos);
  CHECK(list.dropped[1].find(": 5, the first") != std::string::npos);
}

TEST_CASE("plots are bounded in number and bytes, and what is beyond is named") {
  const TempDir folder;
  for (int i = 0; i < 5; ++i) folder.write("0" + std::to_string(i) + ".0.r.", kPng);
  PlotBounds bounds;
  bounds.max_files = 3;
  PlotList list = collect(folder, bounds);
  CHECK(list.plots.size() == 3);
  REQUIRE(list.dropped.size() == 1);
  CHECK(list.dropped[0].find("plots beyond the first 3 or beyond 64M altogether: 2, the first") == 0);
  bounds = {};
  bounds.max_bytes = kPng.size() * 2 + 1;
  list = collect(folder, bounds);
  CHECK(list.plots.size() == 2);
  CHECK(list.dropped.size() == 1);
}

TEST_CASE("with a destination plots are copied below it under names of ours, and a link there is not followed") {
  const TempDir folder;
  folder.write("01.0.matplotlib.%2E%2E%2Fescape", kPng);
  folder.write("02.0.plotly.", "<html></html>");
  folder.write("02.1.plotly.", "<html>another</html>");
  const TempDir out;
  const TempDir elsewhere;
  PlotList list = collect(folder, {}, out.fd());
  REQUIRE(list.plots.size() == 3);
  CHECK(list.plots[0].file == "sbx-plots/001.png");
  CHECK(list.plots[0].content.empty());
  CHECK(read_file(out.at("sbx-plots/001.png")).take() == kPng);
  CHECK(list.plots[1].file == "sbx-plots/002.html");
  CHECK(read_file(out.at(list.plots[2].file)).take() == "<html>another</html>");

  std::filesystem::remove_all(out.at("sbx-plots"));
  std::filesystem::create_symlink(elsewhere.at(""), out.at("sbx-plots"));
  CHECK(!collect_plots(folder.fd(), out.fd(), {}).ok());
  CHECK(std::filesystem::is_empty(elsewhere.at("")));
}
