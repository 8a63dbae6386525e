#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "base/sys.h"
#include "base/text.h"
#include "session/copy.h"
#include "session/deadlines.h"
#include "session/driver.h"
#include "session/evaluation.h"
#include "session/json.h"
#include "session/place.h"
#include "session/wire.h"
#include "temp_dir.h"

namespace sbx::session {
namespace {

// ---- JSON --------------------------------------------------------------------------------------------------------

TEST_CASE("JSON is read and written alike, keys in their order") {
  const std::string text = R"({"b":[1,-2,2.5,true,null,"\u00e9"],"a":{}})";
  const Result<Json> json = parse_json(text);
  REQUIRE(json.ok());
  CHECK(json.value().dump() == text);
  CHECK(json.value().at("b").items()[5].text() == "\xc3\xa9");
  CHECK(json.value().at("missing").is(Json::Kind::null));
  CHECK(!json.value().has("missing"));
}

TEST_CASE("JSON beyond a bound, or none, is refused") {
  const auto refused = [](const std::string& text, size_t depth = 64, size_t values = 1000) { return !parse_json(text, depth, values).ok(); };
  CHECK(!refused("[[[1]]]", 3));
  CHECK(refused("[[[1]]]", 2));
  CHECK(refused(std::string(100000, '[')));
  CHECK(!refused("[1,2,3]", 64, 4));
  CHECK(refused("[1,2,3]", 64, 3));
  for (const char* text : {"", "{", "[1,]", "nul", "1 2", "{\"a\":1,\"a\":2}", "\"\xff\"", "\"\\ud800\"", "1e999", "NaN", "'a'", "{1:2}"}) {
    CAPTURE(text);
    CHECK(refused(text));
  }
}

TEST_CASE("what is written is ASCII, whatever the text holds") {
  const std::string text = Json("a\x01\x7f\xc2\x9b\xe2\x82\xac\xff").dump();
  for (const char c : text) CHECK((c >= 0x20 && c < 0x7f) == (c != 0x7f));
  CHECK(parse_json(text).ok());
}

// ---- clients ------------------------------------------------------------------------------------------------------

TEST_CASE("messages are cut from a stream wherever it is split") {
  const std::string stream = encode(Kind::out, "hello") + encode(Kind::input_end, "") + encode(Kind::reply, std::string(300, 'x'));
  for (size_t step = 1; step < stream.size(); step += 7) {
    MessageReader reader(1000);
    std::vector<Message> got;
    for (size_t at = 0; at < stream.size(); at += step) {
      reader.append(std::string_view(stream).substr(at, step));
      for (;;) {
        Result<std::optional<Message>> next = reader.next();
        REQUIRE(next.ok());
        if (!next.value()) break;
        got.push_back(*next.value());
      }
    }
    REQUIRE(got.size() == 3);
    CHECK(got[0].body == "hello");
    CHECK(got[1].kind == Kind::input_end);
    CHECK(got[2].body.size() == 300);
  }
}

TEST_CASE("a message longer than the limit is an error before its bytes come") {
  MessageReader reader(10);
  reader.append(encode(Kind::out, std::string(11, 'x')).substr(0, 5));
  CHECK(!reader.next().ok());
}

// ---- frames -------------------------------------------------------------------------------------------------------

constexpr char kToken[] = "00112233445566778899aabbccddeeff";
const std::string kReady = frame(R"({"type":"ready","protocol":1,"language":"python"})");

std::string done(const std::string& more = "") {
  return frame(R"({"type":"done","cell":3,"token":")" + std::string(kToken) + R"(","seq":1,"status":"ok","exit_code":0)" + more + "}");
}

// All frames, or the error.
Result<size_t> read_frames(const std::string& bytes, size_t step = 1000000) {
  FrameReader reader;
  size_t count = 0;
  bool begun = false;
  for (size_t at = 0; at < bytes.size(); at += step) {
    reader.append(std::string_view(bytes).substr(at, step));
    for (;;) {
      std::optional<DriverFrame> one = SBX_TRY(reader.next());
      if (!one) break;
      ++count;
      if (!begun) reader.begin_cell(3, kToken);
      begun = true;
    }
  }
  return count;
}

TEST_CASE("frames of the cell that runs are read, wherever the stream is split") {
  const std::string stream = kReady + done(R"(,"unknown":{"key":[]})");
  for (size_t step = 1; step < stream.size(); ++step) {
    const Result<size_t> count = read_frames(stream, step);
    REQUIRE(count.ok());
    CHECK(count.value() == 2);
  }
}

TEST_CASE("a frame that is wrong in any way ends the driver") {
  const std::string head = R"({"cell":3,"token":")" + std::string(kToken) + R"(","seq":1,"type":)";
  const std::vector<std::string> wrong = {
      "0000000G{}",
      "0000000A{}",
      "01000001",
      frame("{"),
      frame("[]"),
      frame(R"({"type":"done"})"),
      frame(R"({"type":"done","cell":2,"token":")" + std::string(kToken) + R"(","seq":1,"status":"ok","exit_code":0})"),
      frame(R"({"type":"done","cell":3,"token":"ffffffffffffffffffffffffffffffff","seq":1,"status":"ok","exit_code":0})"),
      frame(R"({"type":"done","cell":3,"token":")" + std::string(kToken) + R"(","seq":2,"status":"ok","exit_code":0})"),
      frame(head + R"("done","status":"fine","exit_code":0})"),
      frame(head + R"("done","status":"ok","exit_code":256})"),
      frame(head + R"("done","status":"ok"})"),
      frame(head + R"("done","status":"error","exit_code":1,"error":{"name":"x"}})"),
      frame(head + R"("surprise"})"),
      frame(head + R"("display"})"),
      frame(head + R"("echo"})"),
      frame(head + R"("echo","on":1})"),
      frame(head + R"("display","data":{"notype":"x"}})"),
      frame(head + R"("display","data":{"text/plain":1}})"),
      frame(head + R"("display","data":{},"metadata":[]})"),
      frame(head + R"("display","data":{},"display_id":7})"),
      kReady,
      done() + done(),
  };
  for (const std::string& text : wrong) {
    CAPTURE(text);
    CHECK(!read_frames(kReady + text).ok());
  }
  CHECK(!read_frames(done()).ok());  // nothing before ready
  CHECK(read_frames(kReady + frame(head + R"("display","data":{"application/json":{"a":[1]},"image/png":"aGk="}})")).ok());
}

TEST_CASE("no more bytes and frames than a cell may have") {
  FrameReader reader;
  reader.append(kReady);
  REQUIRE(reader.next().ok());
  reader.begin_cell(3, kToken);
  bool refused = false;
  for (size_t i = 1; i <= FrameReader::kMaxCellFrames + 1 && !refused; ++i) {
    reader.append(frame(R"({"type":"clear","cell":3,"token":")" + std::string(kToken) + R"(","seq":)" + std::to_string(i) + "}"));
    refused = !reader.next().ok();
  }
  CHECK(refused);
}

std::string said(const std::string& keys, int seq) {
  return frame(R"({"cell":1,"token":")" + std::string(kToken) + R"(","seq":)" + std::to_string(seq) + "," + keys + "}");
}
const std::string kEnd = R"("type":"done","status":"ok","exit_code":0,"dropped":2)";

TEST_CASE("--eval: displays, value and error of a program are its outputs, in their order, with what was left out") {
  const std::string error = R"("type":"done","status":"error","exit_code":1,"error":{"name":"E","value":"v","traceback":"t"})";
  Evaluation got = read_evaluation(said(R"("type":"display","data":{"text/plain":"a","text/html":"<a>"},"display_id":"d")", 1) +
                                       said(R"("type":"update","data":{"text/plain":"b"},"display_id":"d")", 2) +
                                       said(R"("type":"result","data":{"text/plain":"42"},"execution_count":1)", 3) + said(kEnd, 4), kToken);
  CHECK(got.problem.empty());
  CHECK(got.dropped == 2);
  CHECK(got.outputs == std::vector<std::string>{
      R"({"type":"display_data","data":{"text/plain":"a","text/html":"<a>"},"metadata":{},"display_id":"d"})",
      R"({"type":"update_display_data","data":{"text/plain":"b"},"metadata":{},"display_id":"d"})",
      R"({"type":"execute_result","data":{"text/plain":"42"},"metadata":{},"execution_count":1})"});
  got = read_evaluation(said(R"("type":"clear","wait":false)", 1) + said(error, 2), kToken);
  CHECK(got.outputs == std::vector<std::string>{R"({"type":"error","name":"E","value":"v","traceback":"t"})"});
  CHECK(read_evaluation("", kToken).outputs.empty());
  CHECK(read_evaluation("", kToken).problem.empty());  // it was killed before it said anything
}

TEST_CASE("--eval: what was cleared is no output; with wait it goes when the next one comes") {
  const std::string one = R"("type":"display","data":{"text/plain":"1"})", two = R"("type":"display","data":{"text/plain":"2"})";
  const std::string now = R"("type":"clear","wait":false)", later = R"("type":"clear","wait":true)";
  CHECK(read_evaluation(said(one, 1) + said(now, 2), kToken).outputs.empty());
  CHECK(read_evaluation(said(one, 1) + said(later, 2), kToken).outputs.size() == 1);
  const Evaluation got = read_evaluation(said(one, 1) + said(later, 2) + said(two, 3), kToken);
  REQUIRE(got.outputs.size() == 1);
  CHECK(got.outputs[0].find("\"2\"") != std::string::npos);
}

TEST_CASE("--eval: nothing behind a frame that is wrong is believed, and what stood before it stays") {
  const std::string one = said(R"("type":"display","data":{"text/plain":"1"})", 1);
  for (const std::string& wrong : {std::string("garbage!"), frame("{"), frame(R"({"type":"done"})"), said(R"("type":"display","data":{})", 7), said(R"("type":"ready","protocol":1)", 2)}) {
    const Evaluation got = read_evaluation(one + wrong + said(R"("type":"display","data":{"text/plain":"3"})", 2), kToken);
    CHECK(got.outputs.size() == 1);
    CHECK(!got.problem.empty());
  }
  CHECK(read_evaluation(one + said(kEnd, 2) + said(kEnd, 3), kToken).problem.find("no cell") != std::string::npos);
  CHECK(read_evaluation(one, "ffffffffffffffffffffffffffffffff").outputs.empty());
  // Cut off in the middle of a frame: it was killed; no more is wrong than that.
  const Evaluation cut = read_evaluation(one + one.substr(0, one.size() / 2), kToken);
  CHECK(cut.outputs.size() == 1);
  CHECK(cut.problem.empty());
}

TEST_CASE("--eval: displays stand where they were made in the streams, which lose their marks") {
  const auto mark = [](int seq) { return "\x1e" + std::string(kToken) + ":" + std::to_string(seq) + "\x1e"; };
  const auto kinds = [](const Evaluation& got) {
    std::string text;
    for (const std::string& output : got.outputs) {
      const Result<Json> json = parse_json(output);
      REQUIRE(json.ok());
      const Json& one = json.value();
      text += one.at("type").text() == "stream" ? one.at("name").text() + "=" + one.at("text").text() + " " : one.at("data").at("text/plain").text() + " ";
    }
    return text;
  };
  const std::string one = said(R"("type":"display","data":{"text/plain":"1"})", 1), two = said(R"("type":"result","data":{"text/plain":"2"},"execution_count":1)", 2);
  std::string out = "a" + mark(1) + "b" + mark(2) + "c", err = mark(1) + "e" + mark(2);
  CHECK(kinds(read_evaluation(one + two, kToken, &out, &err)) == "stdout=a 1 stdout=b stderr=e 2 stdout=c ");
  CHECK(out == "abc");
  CHECK(err == "e");
  // A stream that was closed meanwhile, or cut off within a mark; a program that writes marks.
  out = "a" + mark(1) + "b";
  err = mark(1) + "e" + mark(2).substr(0, 20);
  CHECK(kinds(read_evaluation(one + two, kToken, &out, &err)) == "stdout=a 1 2 stdout=b stderr=e ");
  out = "a" + mark(7) + mark(2) + "b" + mark(1) + "c";
  err = mark(1).substr(0, 38);
  CHECK(kinds(read_evaluation(one + two, kToken, &out, &err)) == "stdout=ab 1 2 stdout=c ");
  CHECK(out == "abc");
  CHECK(err.empty());
  // What was cleared is gone from the outputs, not from the stream.
  out = "a" + mark(1) + "b" + mark(2) + "c";
  CHECK(kinds(read_evaluation(one + said(R"("type":"clear","wait":false)", 2), kToken, &out, nullptr)) == "stdout=c ");
  CHECK(out == "abc");
}

TEST_CASE("outputs stand behind the members of a result, whatever its last line looks like") {
  const Json more = Json::object().set("n", 1);
  for (const std::string object : {"{\n  \"a\": {}\n}\n", "{\"a\": {}}", "{\n  \"a\": {}  \n  }\n\n"}) {
    for (const std::vector<std::string>& outputs : std::vector<std::vector<std::string>>{{}, {"{}"}, {"{\"b\":\"}\"}", "{}"}}) {
      const Result<Json> json = parse_json(with_outputs(object, more, outputs));
      REQUIRE(json.ok());
      CHECK(json.value().at("a").is(Json::Kind::object));
      CHECK(json.value().at("n").integer() == 1);
      CHECK(json.value().at("outputs").items().size() == outputs.size());
      CHECK(json.value().members().back().first == "outputs");
    }
  }
}

TEST_CASE("a length is eight digits, and tokens differ") {
  CHECK(frame("hello").substr(0, 8) == "00000005");
  const Result<std::string> one = make_token(), two = make_token();
  REQUIRE(one.ok());
  REQUIRE(two.ok());
  CHECK(one.value().size() == 32);
  CHECK(one.value() != two.value());
}

TEST_CASE("Python and bash have drivers, others keep files only") {
  REQUIRE(driver_of("python").has_value());
  CHECK(driver_of("python")->argv.back() == "3");
  CHECK(!driver_of("perl").has_value());
}

// ---- time ---------------------------------------------------------------------------------------------------------

TEST_CASE("a session ends when its time to live is over, in use or not") {
  Deadlines deadlines(Millis{1000}, std::nullopt, 500);
  CHECK(deadlines.over(1499) == Deadlines::Over::no);
  CHECK(deadlines.next_ms(1400) == 100);
  deadlines.set_busy(true, 1400);
  CHECK(deadlines.over(1500) == Deadlines::Over::time_to_live);
  CHECK(deadlines.ttl_left(9999) == 0);
}

TEST_CASE("a session ends when nobody has used it for its idle time, never while a cell runs") {
  Deadlines deadlines(std::nullopt, Millis{100}, 0);
  CHECK(deadlines.over(99) == Deadlines::Over::no);
  CHECK(deadlines.over(100) == Deadlines::Over::idle);
  deadlines.use(90);
  CHECK(deadlines.over(189) == Deadlines::Over::no);
  deadlines.set_busy(true, 150);
  CHECK(deadlines.over(100000) == Deadlines::Over::no);
  CHECK(deadlines.next_ms(100000) == std::nullopt);
  deadlines.set_busy(false, 100000);
  CHECK(deadlines.next_ms(100050) == 50);
  CHECK(deadlines.over(100100) == Deadlines::Over::idle);
}

TEST_CASE("a clock that jumps: what a suspend took counts, and one that goes back ends nothing early") {
  Deadlines deadlines(Millis{10000}, Millis{1000}, 5000);
  // Asleep for an hour, in the middle of a cell: its time to live is over, and it was not idle.
  Deadlines asleep = deadlines;
  asleep.set_busy(true, 5500);
  CHECK(asleep.next_ms(5500) == 9500);
  CHECK(asleep.over(3600000) == Deadlines::Over::time_to_live);
  CHECK(asleep.next_ms(3600000) == 0);
  // … between two cells; and used again just before.
  deadlines.use(6900);
  CHECK(deadlines.over(7899) == Deadlines::Over::no);
  CHECK(deadlines.over(7900) == Deadlines::Over::idle);
  CHECK(deadlines.over(15000) == Deadlines::Over::time_to_live);
  // Back (CLOCK_BOOTTIME never goes): nothing is over, and a wake-up is still planned.
  CHECK(deadlines.over(0) == Deadlines::Over::no);
  CHECK(deadlines.next_ms(0) == 7900);
  deadlines.use(0);
  CHECK(deadlines.over(999) == Deadlines::Over::no);
  CHECK(deadlines.over(1000) == Deadlines::Over::idle);
}

TEST_CASE("without limits a session never ends by itself") {
  const Deadlines deadlines(std::nullopt, std::nullopt, 0);
  CHECK(deadlines.over(INT64_MAX / 2) == Deadlines::Over::no);
  CHECK(deadlines.next_ms(5) == std::nullopt);
}

// ---- the directory --------------------------------------------------------------------------------------------------

class RuntimeDirectory {
 public:
  RuntimeDirectory() {
    ::chmod(directory_.path().c_str(), 0700);
    if (const char* before = std::getenv("XDG_RUNTIME_DIR")) before_ = before;
    ::setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), 1);
  }
  ~RuntimeDirectory() {
    if (before_.empty()) ::unsetenv("XDG_RUNTIME_DIR");
    else ::setenv("XDG_RUNTIME_DIR", before_.c_str(), 1);
  }
  std::string path() const { return directory_.path(); }

 private:
  TempDir directory_;
  std::string before_;
};

TEST_CASE("a session's entry is there while its supervisor lives, and found by id, its beginning, and name") {
  const RuntimeDirectory runtime;
  const Result<SessionPlace> place = SessionPlace::open();
  REQUIRE(place.ok());
  CHECK(place.value().path() == runtime.path() + "/sbx/sessions");
  {
    const Result<SessionPlace::Entry> entry = place.value().add("work", "python");
    REQUIRE(entry.ok());
    const std::string id = entry.value().record().id;
    CHECK(id.size() == 16);
    for (const std::string& word : {id, id.substr(0, 5), std::string("work")}) CHECK(place.value().find(word).ok());
    CHECK(!place.value().find("wrk").ok());
    CHECK(!place.value().add("work", "bash").ok());
    CHECK(place.value().connect(entry.value().record()).ok());
  }
  const Result<std::vector<SessionRecord>> left = place.value().list();
  REQUIRE(left.ok());
  CHECK(left.value().empty());
}

TEST_CASE("what a dead supervisor left is taken away") {
  const RuntimeDirectory runtime;
  const Result<SessionPlace> place = SessionPlace::open();
  REQUIRE(place.ok());
  const std::string folder = place.value().path();
  for (const char* name : {"/0123456789abcdef.lock", "/0123456789abcdef.json", "/0123456789abcdef.sock"}) {
    REQUIRE(sys::open(folder + name, O_CREAT | O_WRONLY, 0600).ok());
  }
  REQUIRE(sys::open(folder + "/other.lock", O_CREAT | O_WRONLY, 0600).ok());  // none of ours
  size_t reaped = 0;
  REQUIRE(place.value().list(&reaped).ok());
  CHECK(reaped == 1);
  CHECK(!sys::stat(folder + "/0123456789abcdef.json").ok());
  CHECK(sys::stat(folder + "/other.lock").ok());
}

TEST_CASE("a directory that others may enter is refused") {
  const RuntimeDirectory runtime;
  REQUIRE(SessionPlace::open().ok());
  ::chmod((runtime.path() + "/sbx/sessions").c_str(), 0755);
  CHECK(!SessionPlace::open().ok());
}

TEST_CASE("names of sessions") {
  for (const char* name : {"a", "work", "Work-1.x_y", "abc", "Cafe", "cafe-1", "abcdefabcdefabcdef"}) CHECK(SessionPlace::check_name(name).ok());
  for (const char* name : {"", "1", "-a", "a b", "a/b", "..", "a:b", "\x1b", "abcdefabcdefabcd", "cafe", "1234", "deadbeef"}) CHECK(!SessionPlace::check_name(name).ok());
}

// ---- archives -------------------------------------------------------------------------------------------------------

// A directory that stands for a sandbox's root.
struct Root {
  TempDir directory;
  UniqueFd fd;
  Inside inside;
  Root() : fd(sys::open(directory.path(), O_RDONLY | O_DIRECTORY).take()), inside{fd.get(), 0, 0} {
    REQUIRE(sys::mkdirat(fd.get(), "box", 0755).ok());
  }
  long entries(const std::string& path) const {
    return std::distance(std::filesystem::directory_iterator(directory.path() + path), std::filesystem::directory_iterator());
  }
};

TEST_CASE("an archive cut or changed anywhere is refused or read, and nothing lands outside") {
  Root from;
  REQUIRE(sys::mkdirat(from.fd.get(), "box/d", 0755).ok());
  REQUIRE(sys::write_all(sys::openat(from.fd.get(), "box/d/f", O_CREAT | O_WRONLY, 0644).take().get(), "content").ok());
  const std::string path = from.directory.path() + "/archive";
  REQUIRE(write_archive(from.inside, "/box", sys::open(path, O_CREAT | O_WRONLY, 0600).take().get(), {}).ok());
  const std::string whole = read_file(path).take();
  const auto restore = [&](const std::string& bytes) {
    Root to;
    REQUIRE(sys::mkdirat(to.fd.get(), "beside", 0755).ok());
    UniqueFd file = sys::open(path, O_RDWR | O_TRUNC).take();
    REQUIRE(sys::write_all(file.get(), bytes).ok());
    REQUIRE(::lseek(file.get(), 0, SEEK_SET) == 0);
    const bool ok = read_archive(file.get(), to.inside, "/box", {}).ok();
    // All or nothing, and nothing beside it.
    CHECK(sys::stat(to.directory.path() + "/box/d/f").ok() == ok);
    CHECK(to.entries("/box") == (ok ? 1 : 0));
    CHECK(!sys::stat(to.directory.path() + "/f").ok());
    CHECK(!sys::stat(to.directory.path() + "/beside/f").ok());
    return ok;
  };
  CHECK(restore(whole));
  for (size_t size = 0; size < whole.size() - 1024; size += 64) {
    CAPTURE(size);
    CHECK(!restore(whole.substr(0, size)));
  }
  for (const char* name : {"../f", "/beside/f", "d/../../f"}) {
    CAPTURE(name);
    std::string changed = whole;
    // The second header is that of the file "./d/f"; its checksum is made anew.
    const size_t at = changed.find("./d/f");
    REQUIRE(at != std::string::npos);
    std::fill_n(changed.begin() + static_cast<std::ptrdiff_t>(at), 100, '\0');
    changed.replace(at, std::string_view(name).size(), name);
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(changed[at + i]);
    for (size_t digit = 6; digit-- > 0; sum >>= 3) changed[at + 148 + digit] = static_cast<char>('0' + (sum & 7));
    CHECK(!restore(changed));
  }
}

TEST_CASE("holes are written as holes, whatever numbers that takes, and read where they belong") {
  Root from, to;
  const UniqueFd file = sys::openat(from.fd.get(), "box/f", O_CREAT | O_RDWR, 0644).take();
  constexpr uint64_t kSize = (uint64_t{1} << 40) + 100;
  for (uint64_t at = 0; at < 60; ++at) REQUIRE(::pwrite(file.get(), "data", 4, static_cast<off_t>(at * (uint64_t{1} << 34) + 4096)) == 4);
  REQUIRE(::ftruncate(file.get(), kSize) == 0);
  const std::string path = from.directory.path() + "/archive";
  const Result<CopyReport> written = write_archive(from.inside, "/box", sys::open(path, O_CREAT | O_WRONLY, 0600).take().get(), {});
  REQUIRE(written.ok());
  CHECK(written.value().bytes < (1 << 20));
  const Result<CopyReport> read = read_archive(sys::open(path, O_RDONLY).take().get(), to.inside, "/box", {});
  REQUIRE(read.ok());
  CHECK(read.value().bytes == written.value().bytes);
  const UniqueFd again = sys::openat(to.fd.get(), "box/f", O_RDONLY).take();
  CHECK(sys::fstat(again.get()).take().st_size == static_cast<off_t>(kSize));
  for (uint64_t at = 0; at < 60; ++at) {
    char bytes[8] = {};
    REQUIRE(::pread(again.get(), bytes, sizeof bytes, static_cast<off_t>(at * (uint64_t{1} << 34) + 4096)) == sizeof bytes);
    CHECK(std::string_view(bytes, sizeof bytes) == std::string_view("data\0\0\0\0", 8));
  }
}

TEST_CASE("a map of holes that is none is refused") {
  Root from;
  const UniqueFd file = sys::openat(from.fd.get(), "box/f", O_CREAT | O_RDWR, 0644).take();
  REQUIRE(::pwrite(file.get(), "data", 4, 65536) == 4);
  REQUIRE(::ftruncate(file.get(), 1 << 20) == 0);
  const std::string path = from.directory.path() + "/archive";
  REQUIRE(write_archive(from.inside, "/box", sys::open(path, O_CREAT | O_WRONLY, 0600).take().get(), {}).ok());
  const std::string whole = read_file(path).take();
  REQUIRE(whole[156] == 'S');
  const auto restore = [&](size_t at, std::string_view bytes) {
    std::string changed = whole;
    changed.replace(at, bytes.size(), bytes);
    unsigned sum = 0;
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(changed[i]);
    for (size_t digit = 6; digit-- > 0; sum >>= 3) changed[148 + digit] = static_cast<char>('0' + (sum & 7));
    REQUIRE(sys::write_all(sys::open(path, O_WRONLY | O_TRUNC).take().get(), changed).ok());
    Root to;
    const bool ok = read_archive(sys::open(path, O_RDONLY).take().get(), to.inside, "/box", {}).ok();
    CHECK(to.entries("/box") == (ok ? 1 : 0));
    return ok;
  };
  CHECK(restore(386, ""));                                        // the control
  CHECK(!restore(386, "00000000001"));                            // within a block
  CHECK(!restore(386, "\x80\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"));  // beyond all numbers
  CHECK(!restore(386, "77777777000"));                            // beyond its size
  CHECK(!restore(398, "00000020000"));                            // more than there is
  CHECK(!restore(398, "00000001000"));                            // less
  CHECK(!restore(410, "00000200000"));                            // over the first
  CHECK(!restore(483, "00000000010"));                            // smaller than its parts
}

TEST_CASE("a link in the sandbox leads no copy anywhere") {
  Root root;
  TempDir host;
  REQUIRE(::symlinkat(host.path().c_str(), root.fd.get(), "box/out") == 0);
  const std::string source = host.path() + "/source";
  REQUIRE(sys::write_all(sys::open(source, O_CREAT | O_WRONLY, 0644).take().get(), "x").ok());
  CHECK(!copy_in(source, root.inside, "/box/out/stolen", {}).ok());
  CHECK(!copy_out(root.inside, "/box/out/source", host.path() + "/copy", {}).ok());
  CHECK(!sys::stat(host.path() + "/stolen").ok());
  REQUIRE(copy_in(source, root.inside, "/box/in", {}).ok());
  CHECK(read_file(root.directory.path() + "/box/in").take() == "x");
  CopyBounds small;
  small.max_bytes = 0;
  CHECK(!copy_in(source, root.inside, "/box/in", small).ok());
}

// "/" is its own last component: as a name in the sandbox's root, or in a directory of it, it was the host's root.
TEST_CASE("the root of neither side is copied") {
  Root root;
  TempDir host;
  CopyBounds one;
  one.max_entries = 1;
  for (const char* path : {"/", "//", "/.", "/box/..", "/.."}) {
    CAPTURE(path);
    CHECK(!copy_out(root.inside, path, host.path(), one).ok());
    CHECK(!copy_out(root.inside, path, host.path() + "/copy", one).ok());
    CHECK(!copy_in(path, root.inside, "/box", one).ok());
  }
  CHECK(!sys::stat(host.path() + "/copy").ok());
}

}  // namespace
}  // namespace sbx::session
