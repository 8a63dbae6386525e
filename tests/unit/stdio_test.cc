#include <doctest/doctest.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "base/sys.h"
#include "runtime/stdio.h"
#include "open_pty.h"

using sbx::UniqueFd;
using sbx::runtime::Stdio;
using sbx::runtime::StdioPlan;

namespace {

constexpr uint64_t kTagBase = 1000;
constexpr size_t kTenMegabytes = 10 * 1024 * 1024;
constexpr int kPatience = 20000;  // ms until a test that waits has failed

// As the supervisor does.
const bool kSigpipeIgnored = ::signal(SIGPIPE, SIG_IGN) != SIG_ERR;

// Every byte value, no short period.
std::string binary(size_t size) {
  std::string bytes(size, '\0');
  uint32_t state = 12345;
  for (char& byte : bytes) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  return bytes;
}

sbx::sys::Pipe make_pipe() { return sbx::sys::pipe().take(); }
UniqueFd copy(int fd) { return sbx::sys::dup(fd).take(); }

UniqueFd temporary_file(const std::string& content, int extra_flags = 0) {
  char name[] = "/tmp/sbx-stdio-XXXXXX";
  UniqueFd fd(::mkstemp(name));
  REQUIRE(fd.valid());
  REQUIRE(sbx::sys::write_all(fd.get(), content).ok());
  UniqueFd again = sbx::sys::open(name, O_RDWR | extra_flags).take();
  ::unlink(name);
  return again;
}

std::string content_of(int fd) {
  std::string content;
  char buffer[65536];
  off_t position = 0;
  for (ssize_t got = 0; (got = ::pread(fd, buffer, sizeof buffer, position)) > 0; position += got) {
    content.append(buffer, static_cast<size_t>(got));
  }
  return content;
}

// What is in a pipe, socket or terminal now.
std::string available(int fd) {
  std::string bytes;
  char buffer[4096];
  struct pollfd entry {fd, POLLIN, 0};
  while (::poll(&entry, 1, 0) > 0 && (entry.revents & POLLIN) != 0) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got <= 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
  }
  return bytes;
}

// Fills what `fd` leads to until it takes no more, without changing its description.
void fill(int fd) {
  struct pollfd entry {fd, POLLOUT, 0};
  const std::string page(4096, 'f');
  while (::poll(&entry, 1, 0) > 0) REQUIRE(::write(fd, page.data(), page.size()) > 0);
}

class Thread {
 public:
  explicit Thread(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          body();
          done_ = true;
        }) {}
  ~Thread() { thread_.join(); }
  bool done() const { return done_; }

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

// The supervisor's loop, as far as streams need it.
class Loop {
 public:
  explicit Loop(const StdioPlan& plan, uint64_t limit = 0) {
    auto prepared = Stdio::prepare(plan, limit);
    REQUIRE(prepared.ok());
    stdio = prepared.take();
    REQUIRE(stdio->register_with(epoll_.get(), kTagBase).ok());
  }
  ~Loop() { stdio.reset(); }

  // Hands the payload's end over, as fork and close_child_ends() would.
  UniqueFd take_child(int stream) { return copy(stdio->child_fd(stream)); }

  // False: nothing happened in time.
  bool turn(int timeout_ms) {
    struct epoll_event events[16];
    const int count = ::epoll_wait(epoll_.get(), events, 16, timeout_ms);
    for (int i = 0; i < count; ++i) stdio->on_ready(events[i].data.u64, events[i].events);
    return count > 0;
  }
  bool until(const std::function<bool()>& reached, int patience_ms = kPatience) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
    while (!reached()) {
      if (std::chrono::steady_clock::now() > end) return false;
      turn(5);
    }
    return true;
  }
  // Until no more events come: level-triggered events left over would be a busy loop.
  bool quiet() {
    for (int turns = 0; turns < 10000; ++turns) {
      if (!turn(20)) return true;
    }
    return false;
  }

  std::unique_ptr<Stdio> stdio;

 private:
  UniqueFd epoll_{::epoll_create1(EPOLL_CLOEXEC)};
};

int64_t milliseconds_of(const std::function<void()>& action) {
  const auto before = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - before).count();
}

void set_raw(int fd) {
  struct termios attributes = attributes_of(fd);
  ::cfmakeraw(&attributes);
  REQUIRE(::tcsetattr(fd, TCSANOW, &attributes) == 0);
}

// As the child does: the terminal is set up before anybody has it.
void attach(Stdio& stdio, Pty& inner) {
  const sbx::ns::TerminalSetup setup = stdio.pty_setup();
  const struct winsize size {setup.rows, setup.columns, 0, 0};
  REQUIRE(::ioctl(inner.master.get(), TIOCSWINSZ, &size) == 0);
  REQUIRE(::ioctl(inner.slave.get(), TCSETS, &setup.modes) == 0);
  REQUIRE(stdio.attach_pty(std::move(inner.master)).ok());
}

// All three streams on one terminal, as at a shell.
StdioPlan all_tty(int terminal) {
  StdioPlan plan;
  plan.stdin_fd = terminal;
  plan.stdin_tty = plan.out.tty = plan.err.tty = true;
  plan.out.forward_fd = plan.err.forward_fd = terminal;
  plan.terminal_fd = terminal;
  return plan;
}

StdioPlan forward_out(int fd) {
  StdioPlan plan;
  plan.out.forward_fd = fd;
  return plan;
}

// Writes `bytes` as the payload's stdout and ends.
void run_writer(Loop& loop, const std::string& bytes) {
  const UniqueFd end = loop.take_child(1);
  loop.stdio->close_child_ends();
  Thread payload([&] {
    (void)sbx::sys::write_all(end.get(), bytes).ok();
  });
  CHECK(loop.until([&] { return payload.done() || loop.stdio->over_limit() != 0; }));
  if (!payload.done()) {
    // Killed: its end disappears while it waits in write.
    loop.stdio->finish();
  }
}

}  // namespace

TEST_CASE("ten megabytes of any bytes reach a pipe, a socket and files unchanged") {
  REQUIRE(kSigpipeIgnored);
  const std::string bytes = binary(kTenMegabytes);
  for (const bool capture : {false, true}) {
    for (const bool socket : {false, true}) {
      CAPTURE(capture);
      CAPTURE(socket);
      UniqueFd reader;
      UniqueFd writer;
      if (socket) {
        auto pair = sbx::sys::socketpair(SOCK_STREAM).take();
        reader = std::move(pair[0]);
        writer = std::move(pair[1]);
      } else {
        sbx::sys::Pipe pipe = make_pipe();
        reader = std::move(pipe.read);
        writer = std::move(pipe.write);
      }
      StdioPlan plan = forward_out(writer.get());
      plan.out.capture = capture;
      Loop loop(plan);
      std::string received;
      Thread consumer([&] { received = sbx::sys::read_all(reader.get(), 2 * kTenMegabytes).take(); });
      run_writer(loop, bytes);
      loop.stdio->drain(kPatience);
      CHECK(loop.stdio->forward_status(1).ok());
      CHECK((::fcntl(writer.get(), F_GETFL) & O_NONBLOCK) == 0);
      loop.stdio->finish();
      writer.reset();
      while (!consumer.done()) std::this_thread::yield();
      CHECK((received == bytes));
      const sbx::runtime::StreamResult result = loop.stdio->result(1);
      CHECK(result.total_bytes == bytes.size());
      CHECK(result.captured == capture);
      CHECK_FALSE(result.truncated);
      CHECK((result.kept == (capture ? bytes : "")));
    }
  }
  for (const int flags : {0, O_APPEND}) {
    CAPTURE(flags);
    const UniqueFd file = temporary_file("before\n", flags);
    if (flags == 0) REQUIRE(::lseek(file.get(), 7, SEEK_SET) == 7);
    Loop loop(forward_out(file.get()));
    run_writer(loop, bytes);
    loop.stdio->drain(kPatience);
    CHECK((content_of(file.get()) == "before\n" + bytes));
  }
}

TEST_CASE("ten megabytes of any bytes come in from a pipe, a socket and a file, followed by the end of input") {
  const std::string bytes = binary(kTenMegabytes);
  for (const std::string kind : {"pipe", "socket", "file"}) {
    CAPTURE(kind);
    UniqueFd reader;
    UniqueFd writer;
    if (kind == "pipe") {
      sbx::sys::Pipe pipe = make_pipe();
      reader = std::move(pipe.read);
      writer = std::move(pipe.write);
    } else if (kind == "socket") {
      auto pair = sbx::sys::socketpair(SOCK_STREAM).take();
      reader = std::move(pair[0]);
      writer = std::move(pair[1]);
    } else {
      reader = temporary_file(bytes);
    }
    StdioPlan plan;
    plan.stdin_fd = reader.get();
    Loop loop(plan);
    const UniqueFd end = loop.take_child(0);
    loop.stdio->close_child_ends();
    Thread producer([&] {
      if (writer.valid()) (void)sbx::sys::write_all(writer.get(), bytes).ok();
      writer.reset();
    });
    std::string received;
    Thread payload([&] { received = sbx::sys::read_all(end.get(), 2 * kTenMegabytes).take(); });
    CHECK(loop.until([&] { return payload.done(); }));
    CHECK((received == bytes));
    CHECK((::fcntl(reader.get(), F_GETFL) & O_NONBLOCK) == 0);
    loop.stdio->finish();
    if (kind == "file") CHECK(::lseek(reader.get(), 0, SEEK_CUR) == static_cast<off_t>(bytes.size()));
  }
}

TEST_CASE("input of a device that cannot be polled flows as far as the payload reads") {
  const UniqueFd zero = sbx::sys::open("/dev/zero", O_RDONLY).take();
  StdioPlan plan;
  plan.stdin_fd = zero.get();
  Loop loop(plan);
  const UniqueFd end = loop.take_child(0);
  loop.stdio->close_child_ends();
  std::string received(300000, 'x');
  Thread payload([&] {
    for (size_t have = 0; have < received.size();) {
      const ssize_t got = ::read(end.get(), received.data() + have, received.size() - have);
      if (got <= 0) return;
      have += static_cast<size_t>(got);
    }
  });
  CHECK(loop.until([&] { return payload.done(); }));
  CHECK((received == std::string(300000, '\0')));
  CHECK(loop.quiet());
}

TEST_CASE("pipes grow on both sides when a stream is a bulk one, and not before") {
  const sbx::sys::Pipe pipe = make_pipe();
  const int before = ::fcntl(pipe.write.get(), F_GETPIPE_SZ);
  Loop loop(forward_out(pipe.write.get()));
  const UniqueFd out = loop.take_child(1);
  loop.stdio->close_child_ends();
  const std::string bytes = binary(65536);
  size_t received = 0;
  const auto pass = [&] {
    REQUIRE(sbx::sys::write_all(out.get(), bytes).ok());
    const size_t goal = received + bytes.size();
    CHECK(loop.until([&] { return (received += available(pipe.read.get()).size()) >= goal; }));
  };
  for (int block = 0; block < 3; ++block) pass();
  CHECK(::fcntl(out.get(), F_GETPIPE_SZ) == before);
  CHECK(::fcntl(pipe.write.get(), F_GETPIPE_SZ) == before);
  for (int block = 0; block < 2; ++block) pass();
  CHECK(::fcntl(out.get(), F_GETPIPE_SZ) > before);
  CHECK(::fcntl(pipe.write.get(), F_GETPIPE_SZ) > before);
}

TEST_CASE("a target that cannot be written without waiting is written in small pieces: a pty's master side") {
  const std::string bytes = binary(60000);
  const Pty pty = open_pty();
  set_raw(pty.slave.get());
  Loop loop(forward_out(pty.master.get()));
  const UniqueFd out = loop.take_child(1);
  loop.stdio->close_child_ends();
  REQUIRE(::fcntl(out.get(), F_GETPIPE_SZ) >= static_cast<int>(bytes.size()));
  REQUIRE(sbx::sys::write_all(out.get(), bytes).ok());
  CHECK(loop.quiet());
  std::string seen;
  CHECK(loop.until([&] { return (seen += available(pty.slave.get())).size() >= bytes.size(); }));
  CHECK((seen == bytes));
}

TEST_CASE("a target that nobody reads does not hold up the other stream") {
  for (const std::string kind : {"pipe", "socket", "terminal"}) {
    CAPTURE(kind);
    UniqueFd reader;
    UniqueFd stuck;
    if (kind == "pipe") {
      sbx::sys::Pipe pipe = make_pipe();
      reader = std::move(pipe.read);
      stuck = std::move(pipe.write);
    } else if (kind == "socket") {
      auto pair = sbx::sys::socketpair(SOCK_STREAM).take();
      reader = std::move(pair[0]);
      stuck = std::move(pair[1]);
    } else {
      Pty pty = open_pty();
      reader = std::move(pty.master);
      stuck = std::move(pty.slave);
    }
    const sbx::sys::Pipe fine = make_pipe();
    StdioPlan plan = forward_out(stuck.get());
    plan.err.forward_fd = fine.write.get();
    Loop loop(plan);
    UniqueFd out = loop.take_child(1);
    UniqueFd err = loop.take_child(2);
    loop.stdio->close_child_ends();
    const std::string flood(4 * 1024 * 1024, 'o');
    const std::string messages(50000, 'e');
    Thread talker([&] {
      (void)sbx::sys::write_all(out.get(), flood).ok();
      out.reset();
    });
    REQUIRE(loop.quiet());
    CHECK_FALSE(talker.done());
    std::string seen;
    REQUIRE(sbx::sys::write_all(err.get(), messages).ok());
    CHECK(loop.until([&] {
      seen += available(fine.read.get());
      return seen.size() == messages.size();
    }));
    // The payload's writer is let go before the thread is joined.
    loop.stdio->finish();
  }
}

TEST_CASE("what the payload did not read of a seekable stdin is given back exactly") {
  const std::string bytes = binary(kTenMegabytes);
  struct Case {
    size_t start;
    size_t read;
  };
  for (const Case& c : {Case{0, 0}, Case{0, 4}, Case{3, 5}, Case{100, 123457}, Case{0, kTenMegabytes}, Case{7, 1}}) {
    CAPTURE(c.start);
    CAPTURE(c.read);
    const UniqueFd file = temporary_file(bytes);
    REQUIRE(::lseek(file.get(), static_cast<off_t>(c.start), SEEK_SET) >= 0);
    StdioPlan plan;
    plan.stdin_fd = file.get();
    Loop loop(plan);
    UniqueFd end = loop.take_child(0);
    loop.stdio->close_child_ends();
    std::string received(c.read, '\0');
    {
      Thread payload([&] {
        for (size_t have = 0; have < c.read;) {
          const ssize_t got = ::read(end.get(), received.data() + have, c.read - have);
          if (got <= 0) return;
          have += static_cast<size_t>(got);
        }
        end.reset();
      });
      CHECK(loop.until([&] { return payload.done(); }));
    }
    CHECK(loop.quiet());
    loop.stdio->drain(100);
    loop.stdio->finish();
    CHECK((received == bytes.substr(c.start, c.read)));
    CHECK(::lseek(file.get(), 0, SEEK_CUR) == static_cast<off_t>(c.start + c.read));
    loop.stdio->finish();
    CHECK(::lseek(file.get(), 0, SEEK_CUR) == static_cast<off_t>(c.start + c.read));
  }
}

TEST_CASE("a loop over the lines of a file sees every line although each round runs a payload with that stdin") {
  const UniqueFd file = temporary_file("one\ntwo\nthree\n");
  std::string lines;
  for (;;) {
    char byte = 0;
    std::string line;
    while (::read(file.get(), &byte, 1) == 1 && byte != '\n') line += byte;
    if (line.empty()) break;
    lines += line + ",";
    StdioPlan plan;
    plan.stdin_fd = file.get();
    Loop loop(plan);
    loop.stdio->close_child_ends();
    CHECK(loop.quiet());
  }
  CHECK(lines == "one,two,three,");
}

TEST_CASE("nothing is taken from a piped stdin that the payload does not read, and what it read is gone") {
  struct Case {
    size_t read;
    std::string left;
  };
  for (const Case& c : {Case{0, "one\ntwo\nthree\n"}, Case{4, "two\nthree\n"}, Case{14, ""}}) {
    CAPTURE(c.read);
    sbx::sys::Pipe pipe = make_pipe();
    REQUIRE(sbx::sys::write_all(pipe.write.get(), "one\ntwo\n").ok());
    StdioPlan plan;
    plan.stdin_fd = pipe.read.get();
    Loop loop(plan);
    const UniqueFd end = loop.take_child(0);
    loop.stdio->close_child_ends();
    CHECK(loop.quiet());
    REQUIRE(sbx::sys::write_all(pipe.write.get(), "three\n").ok());
    pipe.write.reset();
    std::string received;
    while (received.size() < c.read) {
      struct pollfd entry {end.get(), POLLIN, 0};
      REQUIRE(loop.until([&] { return ::poll(&entry, 1, 0) > 0; }));
      char buffer[64];
      const ssize_t got = ::read(end.get(), buffer, std::min(sizeof buffer, c.read - received.size()));
      REQUIRE(got > 0);
      received.append(buffer, static_cast<size_t>(got));
    }
    CHECK(received == std::string("one\ntwo\nthree\n").substr(0, c.read));
    loop.stdio->finish();
    CHECK(available(pipe.read.get()) == c.left);
  }
}

TEST_CASE("input typed in small pieces arrives piece by piece, then the end of input") {
  sbx::sys::Pipe pipe = make_pipe();
  StdioPlan plan;
  plan.stdin_fd = pipe.read.get();
  Loop loop(plan);
  const UniqueFd end = loop.take_child(0);
  loop.stdio->close_child_ends();
  for (int i = 0; i < 50; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    REQUIRE(sbx::sys::write_all(pipe.write.get(), line).ok());
    std::string seen;
    CHECK(loop.until([&] {
      seen += available(end.get());
      return seen.size() >= line.size();
    }));
    CHECK(seen == line);
  }
  pipe.write.reset();
  struct pollfd entry {end.get(), POLLIN, 0};
  CHECK(loop.until([&] { return ::poll(&entry, 1, 0) > 0; }));
  char byte = 0;
  CHECK(::read(end.get(), &byte, 1) == 0);
  CHECK(loop.quiet());
}

TEST_CASE("an absent or closed stdin is empty, and one that cannot be read ends at once") {
  StdioPlan plan;
  CHECK(Stdio::prepare(plan, 0).value()->child_fd(0) == -1);
  {
    UniqueFd closed = sbx::sys::open("/dev/null", O_RDONLY).take();
    plan.stdin_fd = closed.get();
  }
  CHECK(Stdio::prepare(plan, 0).value()->child_fd(0) == -1);
  const UniqueFd null = sbx::sys::open("/dev/null", O_RDONLY).take();
  plan.stdin_fd = null.get();
  CHECK(Stdio::prepare(plan, 0).value()->child_fd(0) == -1);

  for (const int flags : {O_WRONLY, O_DIRECTORY | O_RDONLY}) {
    CAPTURE(flags);
    const UniqueFd odd = sbx::sys::open((flags & O_DIRECTORY) != 0 ? "/" : "/dev/zero", flags).take();
    plan.stdin_fd = odd.get();
    Loop loop(plan);
    const UniqueFd end = loop.take_child(0);
    loop.stdio->close_child_ends();
    struct pollfd entry {end.get(), POLLIN, 0};
    CHECK(loop.until([&] { return ::poll(&entry, 1, 0) > 0; }));
    char byte = 0;
    CHECK(::read(end.get(), &byte, 1) == 0);
    CHECK(loop.quiet());
  }
}

TEST_CASE("a payload that closes its stdin ends the pumping, and the writer outside sees it once we let go") {
  for (const bool socket : {false, true}) {
    CAPTURE(socket);
    UniqueFd reader;
    UniqueFd writer;
    if (socket) {
      auto pair = sbx::sys::socketpair(SOCK_STREAM).take();
      reader = std::move(pair[0]);
      writer = std::move(pair[1]);
    } else {
      sbx::sys::Pipe pipe = make_pipe();
      reader = std::move(pipe.read);
      writer = std::move(pipe.write);
    }
    StdioPlan plan;
    plan.stdin_fd = reader.get();
    Loop loop(plan);
    loop.stdio->close_child_ends();
    REQUIRE(sbx::sys::write_all(writer.get(), "nobody reads this").ok());
    CHECK(loop.quiet());
    reader.reset();
    CHECK(::send(writer.get(), "x", 1, MSG_NOSIGNAL) == -1);
    if (!socket) CHECK(::write(writer.get(), "x", 1) == -1);
    CHECK((errno == EPIPE || errno == ECONNRESET));
  }
}

TEST_CASE("when the reader of the output goes away the payload sees EPIPE, with an anonymous pipe at its first write") {
  {
    sbx::sys::Pipe pipe = make_pipe();
    Loop loop(forward_out(pipe.write.get()));
    const UniqueFd out = loop.take_child(1);
    loop.stdio->close_child_ends();
    CHECK(loop.quiet());
    pipe.read.reset();
    CHECK(loop.quiet());
    CHECK(::write(out.get(), "x", 1) == -1);
    CHECK(errno == EPIPE);
    CHECK(loop.stdio->forward_status(1).ok());
  }
  {
    auto pair = sbx::sys::socketpair(SOCK_STREAM).take();
    Loop loop(forward_out(pair[1].get()));
    const UniqueFd out = loop.take_child(1);
    loop.stdio->close_child_ends();
    pair[0].reset();
    CHECK(::write(out.get(), "x", 1) == 1);
    CHECK(loop.until([&] { return ::write(out.get(), "x", 1) == -1 && errno == EPIPE; }));
    CHECK(loop.stdio->forward_status(1).ok());
  }
  {
    // While the target is full.
    sbx::sys::Pipe pipe = make_pipe();
    fill(pipe.write.get());
    Loop loop(forward_out(pipe.write.get()));
    const UniqueFd out = loop.take_child(1);
    loop.stdio->close_child_ends();
    CHECK(::write(out.get(), "x", 1) == 1);
    CHECK(loop.quiet());
    pipe.read.reset();
    CHECK(loop.quiet());
    CHECK(::write(out.get(), "x", 1) == -1);
  }
}

TEST_CASE("a target that fails otherwise is reported, and the payload sees EPIPE") {
  const UniqueFd full = sbx::sys::open("/dev/full", O_WRONLY).take();
  Loop loop(forward_out(full.get()));
  const UniqueFd out = loop.take_child(1);
  loop.stdio->close_child_ends();
  CHECK(::write(out.get(), "x", 1) == 1);
  CHECK(loop.until([&] { return !loop.stdio->forward_status(1).ok(); }));
  CHECK(loop.stdio->forward_status(1).error().errnum() == ENOSPC);
  CHECK(loop.stdio->result(1).forward_error->errnum() == ENOSPC);
  CHECK(::write(out.get(), "x", 1) == -1);
  CHECK(errno == EPIPE);
  CHECK(loop.stdio->forward_status(2).ok());
}

TEST_CASE("a stream without a target, or with a closed one, is read and counted") {
  int number = -1;
  {
    UniqueFd closed = sbx::sys::open("/dev/null", O_WRONLY).take();
    number = closed.get();
  }
  for (const int target : {-1, number}) {
    StdioPlan plan = forward_out(target);
    auto stdio = Stdio::prepare(plan, 0).take();
    REQUIRE(sbx::sys::write_all(stdio->child_fd(1), "twelve bytes").ok());
    stdio->close_child_ends();
    stdio->drain(0);
    CHECK(stdio->result(1).total_bytes == 12);
    CHECK(stdio->forward_status(1).ok());
  }
}

TEST_CASE("exactly the output limit is kept and forwarded, and only one byte more is over it") {
  constexpr uint64_t kLimit = 200001;
  for (const bool capture : {false, true}) {
    for (const uint64_t size : {kLimit - 1, kLimit, kLimit + 1, 10 * kLimit}) {
      CAPTURE(capture);
      CAPTURE(size);
      const std::string bytes = binary(size);
      const UniqueFd file = temporary_file("");
      StdioPlan plan = forward_out(file.get());
      plan.out.capture = capture;
      Loop loop(plan, kLimit);
      const UniqueFd err = loop.take_child(2);
      run_writer(loop, bytes);
      loop.stdio->drain(1000);
      CHECK(loop.stdio->over_limit() == (size > kLimit ? 1 : 0));
      loop.stdio->finish();
      CHECK((content_of(file.get()) == bytes.substr(0, kLimit)));
      const sbx::runtime::StreamResult result = loop.stdio->result(1);
      CHECK(result.total_bytes == std::min(size, kLimit));
      if (capture) CHECK((result.kept == bytes.substr(0, kLimit)));
    }
  }
}

TEST_CASE("the output limit counts stderr for itself") {
  StdioPlan plan;
  plan.out.capture = plan.err.capture = true;
  auto stdio = Stdio::prepare(plan, 10).take();
  REQUIRE(sbx::sys::write_all(stdio->child_fd(1), "0123456789").ok());
  REQUIRE(sbx::sys::write_all(stdio->child_fd(2), "0123456789X").ok());
  stdio->close_child_ends();
  stdio->drain(0);
  CHECK(stdio->over_limit() == 2);
  CHECK(stdio->result(1).kept == "0123456789");
  CHECK(stdio->result(2).kept == "0123456789");
}

TEST_CASE("capture stops at its own limit while everything is still forwarded and counted") {
  const UniqueFd file = temporary_file("");
  StdioPlan plan = forward_out(file.get());
  plan.out.capture = true;
  plan.out.capture_limit = 70000;
  Loop loop(plan);
  const std::string bytes = binary(300000);
  run_writer(loop, bytes);
  loop.stdio->drain(1000);
  CHECK((content_of(file.get()) == bytes));
  const sbx::runtime::StreamResult result = loop.stdio->result(1);
  CHECK(result.total_bytes == 300000);
  CHECK((result.kept == bytes.substr(0, 70000)));
  CHECK(result.truncated);
  // At the limit exactly nothing is missing.
  plan.out.capture_limit = 5;
  auto exact = Stdio::prepare(plan, 0).take();
  REQUIRE(sbx::sys::write_all(exact->child_fd(1), "12345").ok());
  exact->close_child_ends();
  exact->drain(0);
  CHECK_FALSE(exact->result(1).truncated);
}

TEST_CASE("the last four kilobytes of stderr are kept") {
  const std::string bytes = binary(100000);
  for (const size_t piece : {size_t{1000}, size_t{60000}}) {
    StdioPlan plan;
    Loop loop(plan);
    const UniqueFd err = loop.take_child(2);
    loop.stdio->close_child_ends();
    for (size_t at = 0; at < bytes.size(); at += piece) {
      const std::string part = bytes.substr(at, piece);
      REQUIRE(sbx::sys::write_all(err.get(), part).ok());
      REQUIRE(loop.turn(kPatience));
    }
    CHECK(loop.quiet());
    CHECK((loop.stdio->stderr_tail() == bytes.substr(bytes.size() - 4096)));
  }
  auto stdio = Stdio::prepare(StdioPlan{}, 0).take();
  REQUIRE(sbx::sys::write_all(stdio->child_fd(2), "short").ok());
  stdio->close_child_ends();
  stdio->drain(0);
  CHECK(stdio->stderr_tail() == "short");
}

TEST_CASE("stdout and stderr may have the same target, even the same descriptor") {
  const sbx::sys::Pipe pipe = make_pipe();
  StdioPlan plan = forward_out(pipe.write.get());
  plan.err.forward_fd = pipe.write.get();
  Loop loop(plan);
  REQUIRE(sbx::sys::write_all(loop.stdio->child_fd(1), "out").ok());
  std::string seen;
  CHECK(loop.until([&] { return (seen += available(pipe.read.get())) == "out"; }));
  REQUIRE(sbx::sys::write_all(loop.stdio->child_fd(2), "err").ok());
  CHECK(loop.until([&] { return (seen += available(pipe.read.get())) == "outerr"; }));
}

TEST_CASE("drain gives up a target that nobody reads after the grace, and says so") {
  const sbx::sys::Pipe pipe = make_pipe();
  fill(pipe.write.get());
  for (const bool capture : {false, true}) {
    StdioPlan plan = forward_out(pipe.write.get());
    plan.out.capture = capture;
    auto stdio = Stdio::prepare(plan, 0).take();
    REQUIRE(sbx::sys::write_all(stdio->child_fd(1), "never delivered").ok());
    stdio->close_child_ends();
    const int64_t took = milliseconds_of([&] { stdio->drain(100); });
    CHECK(took >= 99);
    CHECK(took < 5000);
    CHECK(stdio->forward_status(1).error().kind() == sbx::ErrorKind::resource);
    if (capture) CHECK(stdio->result(1).kept == "never delivered");
  }
}

TEST_CASE("drain without a bound waits for a slow reader, until the interrupting descriptor is ready") {
  const std::string bytes = binary(60000);
  for (const bool interrupted : {false, true}) {
    CAPTURE(interrupted);
    const sbx::sys::Pipe pipe = make_pipe();
    REQUIRE(::fcntl(pipe.write.get(), F_SETPIPE_SZ, 4096) > 0);
    const sbx::sys::Pipe interrupt = make_pipe();
    auto stdio = Stdio::prepare(forward_out(pipe.write.get()), 0).take();
    REQUIRE(::fcntl(stdio->child_fd(1), F_GETPIPE_SZ) >= static_cast<int>(bytes.size()));
    REQUIRE(sbx::sys::write_all(stdio->child_fd(1), bytes).ok());
    stdio->close_child_ends();
    std::string received;
    if (interrupted) REQUIRE(::write(interrupt.write.get(), "!", 1) == 1);
    Thread reader([&] {
      while (!interrupted && received.size() < bytes.size()) {
        char buffer[3000];
        const ssize_t got = ::read(pipe.read.get(), buffer, sizeof buffer);
        if (got <= 0) return;
        received.append(buffer, static_cast<size_t>(got));
      }
    });
    stdio->drain(-1, interrupt.read.get());
    CHECK(stdio->forward_status(1).ok() == !interrupted);
    while (!reader.done()) std::this_thread::yield();
    CHECK((received == (interrupted ? std::string() : bytes)));
  }
}

TEST_CASE("somebody who still holds the payload's end, even a writing one, does not prolong drain") {
  StdioPlan plan;
  plan.out.capture = true;
  auto stdio = Stdio::prepare(plan, 0).take();
  UniqueFd held = copy(stdio->child_fd(1));
  stdio->close_child_ends();
  REQUIRE(sbx::sys::write_all(held.get(), "payload's last words").ok());
  std::atomic<bool> stop{false};
  Thread writer([&] {
    const std::string page(4096, 'g');
    while (!stop && ::write(held.get(), page.data(), page.size()) > 0) {
    }
  });
  CHECK(milliseconds_of([&] { stdio->drain(100); }) < 5000);
  stop = true;
  stdio->finish();
  CHECK(stdio->result(1).kept.substr(0, 20) == "payload's last words");
}

TEST_CASE("the pipes for the payload are listed, and gone after close_child_ends") {
  const sbx::sys::Pipe pipe = make_pipe();
  StdioPlan plan;
  plan.stdin_fd = pipe.read.get();
  auto stdio = Stdio::prepare(plan, 0).take();
  CHECK_FALSE(stdio->needs_pty());
  const std::vector<int> fds = stdio->pipe_fds();
  REQUIRE(fds.size() == 3);
  for (int stream = 0; stream < 3; ++stream) {
    CHECK(fds[static_cast<size_t>(stream)] == stdio->child_fd(stream));
    CHECK((::fcntl(stdio->child_fd(stream), F_GETFD) & FD_CLOEXEC) != 0);
    // The payload's own descriptions block, as programs expect.
    CHECK((::fcntl(stdio->child_fd(stream), F_GETFL) & O_NONBLOCK) == 0);
  }
  stdio->close_child_ends();
  CHECK(stdio->pipe_fds().empty());
}

TEST_CASE("at a terminal typed lines go in, are echoed by the inner terminal only, and output comes out") {
  const Pty outer = open_pty(40, 120);
  const struct termios before = attributes_of(outer.slave.get());
  Loop loop(all_tty(outer.slave.get()));
  CHECK(loop.stdio->needs_pty());
  CHECK(loop.stdio->pipe_fds().empty());
  Pty inner = open_pty();
  attach(*loop.stdio, inner);

  struct winsize size {};
  REQUIRE(::ioctl(inner.slave.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_row == 40);
  CHECK(size.ws_col == 120);
  CHECK((attributes_of(outer.slave.get()).c_lflag & (ICANON | ECHO | ISIG)) == 0);
  CHECK((attributes_of(inner.slave.get()).c_lflag & (ICANON | ECHO | ISIG)) == (ICANON | ECHO | ISIG));

  REQUIRE(sbx::sys::write_all(outer.master.get(), "hello\r").ok());
  std::string read;
  CHECK(loop.until([&] { return (read += available(inner.slave.get())) == "hello\n"; }));
  std::string shown;
  CHECK(loop.until([&] { return (shown += available(outer.master.get())) == "hello\r\n"; }));
  REQUIRE(sbx::sys::write_all(inner.slave.get(), "answer\n").ok());
  CHECK(loop.until([&] { return (shown += available(outer.master.get())) == "hello\r\nanswer\r\n"; }));

  const struct winsize bigger {50, 200, 0, 0};
  REQUIRE(::ioctl(outer.master.get(), TIOCSWINSZ, &bigger) == 0);
  loop.stdio->on_window_size_change();
  REQUIRE(::ioctl(inner.slave.get(), TIOCGWINSZ, &size) == 0);
  CHECK(size.ws_col == 200);

  loop.stdio->suspend_terminal();
  CHECK(attributes_of(outer.slave.get()).c_lflag == before.c_lflag);
  loop.stdio->resume_terminal();
  CHECK((attributes_of(outer.slave.get()).c_lflag & ICANON) == 0);
  REQUIRE(sbx::sys::write_all(outer.master.get(), "again\r").ok());
  CHECK(loop.until([&] { return (read += available(inner.slave.get())) == "hello\nagain\n"; }));
  CHECK(loop.until([&] { return (shown += available(outer.master.get())).ends_with("again\r\n"); }));

  inner.slave.reset();
  loop.stdio->drain(1000);
  loop.stdio->finish();
  const struct termios after = attributes_of(outer.slave.get());
  CHECK(after.c_lflag == before.c_lflag);
  CHECK(after.c_iflag == before.c_iflag);
  CHECK(after.c_oflag == before.c_oflag);
  CHECK(loop.stdio->result(1).total_bytes == shown.size());
  CHECK(loop.stdio->stderr_tail() == shown);
}

TEST_CASE("control keys reach the inner terminal as bytes") {
  const Pty outer = open_pty();
  Loop loop(all_tty(outer.slave.get()));
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  set_raw(inner.slave.get());
  REQUIRE(sbx::sys::write_all(outer.master.get(), "\x03\x1a\x04\x11\x13\r").ok());
  std::string read;
  CHECK(loop.until([&] { return (read += available(inner.slave.get())) == "\x03\x1a\x04\x11\x13\r"; }));
}

TEST_CASE("a large paste arrives complete although the payload reads it late") {
  const Pty outer = open_pty();
  Loop loop(all_tty(outer.slave.get()));
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  set_raw(inner.slave.get());
  const std::string paste = binary(300000);
  Thread terminal([&] { (void)sbx::sys::write_all(outer.master.get(), paste).ok(); });
  CHECK(loop.quiet());
  std::string read;
  CHECK(loop.until([&] {
    read += available(inner.slave.get());
    return read.size() >= paste.size();
  }));
  CHECK((read == paste));
  CHECK(loop.until([&] { return terminal.done(); }));
}

TEST_CASE("all that was written to a pty before its last holder died is delivered") {
  const Pty outer = open_pty();
  Loop loop(all_tty(outer.slave.get()));
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  const std::string text(100000, 't');
  std::string shown;
  std::atomic<bool> stop{false};
  {
    Thread screen([&] {
      while (!stop) shown += available(outer.master.get());
      shown += available(outer.master.get());
    });
    {
      Thread payload([&] {
        (void)sbx::sys::write_all(inner.slave.get(), text).ok();
        inner.slave.reset();
      });
      CHECK(loop.until([&] { return payload.done(); }));
    }
    loop.stdio->drain(kPatience);
    CHECK(loop.stdio->forward_status(1).ok());
    loop.stdio->finish();
    CHECK(loop.stdio->result(1).total_bytes == text.size());
    // The outer pty passes it on in its own time.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    struct pollfd entry {outer.slave.get(), POLLOUT, 0};
    while (::poll(&entry, 1, 100) <= 0 && std::chrono::steady_clock::now() < end) {
    }
    REQUIRE(::tcdrain(outer.slave.get()) == 0);
    stop = true;
  }
  CHECK((shown == text));
}

TEST_CASE("a pty whose slave somebody still holds does not hold drain for long") {
  const Pty outer = open_pty();
  Loop loop(all_tty(outer.slave.get()));
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  CHECK(milliseconds_of([&] { loop.stdio->drain(-1); }) < 10000);
}

TEST_CASE("the output limit holds for a pty, counted as stdout") {
  const Pty outer = open_pty();
  Loop loop(all_tty(outer.slave.get()), 10);
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  REQUIRE(sbx::sys::write_all(inner.slave.get(), "0123456789more").ok());
  CHECK(loop.until([&] { return loop.stdio->over_limit() == 1; }));
  loop.stdio->finish();
  CHECK(loop.stdio->result(1).total_bytes == 10);
  std::string shown;
  CHECK(loop.until([&] { return (shown += available(outer.master.get())) == "0123456789"; }));
}

TEST_CASE("a piped stdin with a terminal for output: the terminal keeps its line mode and is not read") {
  const Pty outer = open_pty();
  const struct termios before = attributes_of(outer.slave.get());
  sbx::sys::Pipe pipe = make_pipe();
  StdioPlan plan = all_tty(outer.slave.get());
  plan.stdin_fd = pipe.read.get();
  plan.stdin_tty = false;
  Loop loop(plan);
  CHECK(loop.stdio->child_fd(0) >= 0);
  CHECK(loop.stdio->child_fd(1) == -1);
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  CHECK(attributes_of(outer.slave.get()).c_lflag == before.c_lflag);
  REQUIRE(sbx::sys::write_all(outer.master.get(), "for the shell\r").ok());
  REQUIRE(sbx::sys::write_all(inner.slave.get(), "line\n").ok());
  REQUIRE(sbx::sys::write_all(pipe.write.get(), "piped").ok());
  std::string shown;
  CHECK(loop.until([&] { return (shown += available(outer.master.get())).ends_with("line\r\n"); }));
  CHECK(shown == "for the shell\r\nline\r\n");
  const UniqueFd end = loop.take_child(0);
  std::string read;
  CHECK(loop.until([&] { return (read += available(end.get())) == "piped"; }));
  CHECK(available(inner.slave.get()).empty());
  loop.stdio->finish();
  CHECK(available(outer.slave.get()) == "for the shell\n");
}

TEST_CASE("in a pipeline the terminal stays in line mode and is left alone while a pager has it") {
  const Pty outer = open_pty();
  const struct termios before = attributes_of(outer.slave.get());
  const sbx::sys::Pipe pager = make_pipe();
  StdioPlan plan = all_tty(outer.slave.get());
  plan.out.tty = false;
  plan.out.forward_fd = pager.write.get();
  Loop loop(plan);
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  CHECK(attributes_of(outer.slave.get()).c_lflag == before.c_lflag);

  REQUIRE(sbx::sys::write_all(outer.master.get(), "typed\r").ok());
  std::string read;
  CHECK(loop.until([&] { return (read += available(inner.slave.get())) == "typed\n"; }));
  // Ctrl-D on an empty line.
  REQUIRE(sbx::sys::write_all(outer.master.get(), "\x04").ok());
  struct pollfd entry {inner.slave.get(), POLLIN, 0};
  CHECK(loop.until([&] { return ::poll(&entry, 1, 0) > 0; }));
  char byte = 0;
  CHECK(::read(inner.slave.get(), &byte, 1) == 0);

  set_raw(outer.slave.get());
  REQUIRE(sbx::sys::write_all(outer.master.get(), "q").ok());
  struct pollfd key {outer.slave.get(), POLLIN, 0};
  REQUIRE(::poll(&key, 1, kPatience) == 1);
  for (int i = 0; i < 20; ++i) loop.turn(5);
  CHECK(available(outer.slave.get()) == "q");
  REQUIRE(::tcsetattr(outer.slave.get(), TCSANOW, &before) == 0);
  REQUIRE(sbx::sys::write_all(outer.master.get(), "back\r").ok());
  CHECK(loop.until([&] { return (read += available(inner.slave.get())) == "typed\nback\n"; }));

  REQUIRE(sbx::sys::write_all(loop.stdio->child_fd(1), "to the pager").ok());
  std::string paged;
  CHECK(loop.until([&] { return (paged += available(pager.read.get())) == "to the pager"; }));
  REQUIRE(sbx::sys::write_all(inner.slave.get(), "err").ok());
  CHECK(loop.until([&] { return loop.stdio->stderr_tail() == "err"; }));
  CHECK(loop.stdio->result(2).total_bytes == 3);
}

TEST_CASE("a terminal as stdin without a pty is read line by line, Ctrl-D ends it") {
  const Pty outer = open_pty();
  StdioPlan plan;
  plan.stdin_fd = outer.slave.get();
  Loop loop(plan);
  CHECK_FALSE(loop.stdio->needs_pty());
  const UniqueFd end = loop.take_child(0);
  loop.stdio->close_child_ends();
  REQUIRE(sbx::sys::write_all(outer.master.get(), "line\r").ok());
  std::string read;
  CHECK(loop.until([&] { return (read += available(end.get())) == "line\n"; }));
  REQUIRE(sbx::sys::write_all(outer.master.get(), "\x04").ok());
  struct pollfd entry {end.get(), POLLIN, 0};
  CHECK(loop.until([&] { return ::poll(&entry, 1, 0) > 0; }));
  char byte = 0;
  CHECK(::read(end.get(), &byte, 1) == 0);
  CHECK((::fcntl(outer.slave.get(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("without a terminal of the caller's the pty is 80x24, fed from the pipe, and its output goes to stdout alone") {
  // (input, how often the end-of-file key is typed after it)
  const std::pair<std::string, int> inputs[] = {{"", 1}, {"line\n", 1}, {"line\nno end", 2}};
  for (const auto& [input, keys] : inputs) {
    CAPTURE(input);
    sbx::sys::Pipe in = make_pipe();
    const sbx::sys::Pipe out = make_pipe();
    const sbx::sys::Pipe err = make_pipe();
    StdioPlan plan;
    plan.stdin_fd = in.read.get();
    plan.stdin_tty = plan.out.tty = plan.err.tty = true;
    plan.out.forward_fd = out.write.get();
    plan.err.forward_fd = err.write.get();
    Loop loop(plan);
    CHECK_FALSE(loop.stdio->has_job_control());
    CHECK(loop.stdio->child_fd(0) == -1);
    CHECK(loop.stdio->pty_setup().rows == 24);
    CHECK(loop.stdio->pty_setup().columns == 80);
    Pty inner = open_pty();
    attach(*loop.stdio, inner);
    const struct termios modes = attributes_of(inner.slave.get());
    CHECK((modes.c_lflag & (ICANON | ISIG | ECHO)) == (ICANON | ISIG));
    CHECK(modes.c_cc[VEOF] == 4);
    CHECK((modes.c_oflag & OPOST) == 0);
    REQUIRE(sbx::sys::write_all(in.write.get(), input).ok());
    in.write.reset();
    // What a program reads until its end of file.
    std::string read;
    int ends = 0;
    CHECK(loop.until([&] {
      struct pollfd entry {inner.slave.get(), POLLIN, 0};
      if (::poll(&entry, 1, 0) <= 0) return false;
      char buffer[64];
      const ssize_t got = ::read(inner.slave.get(), buffer, sizeof buffer);
      if (got > 0) read.append(buffer, static_cast<size_t>(got));
      if (got == 0) ++ends;
      return got == 0;
    }));
    CHECK(read == input);
    CHECK(loop.quiet());
    struct pollfd entry {inner.slave.get(), POLLIN, 0};
    CHECK(::poll(&entry, 1, 0) == 0);  // the key came once
    CHECK(ends == 1);
    REQUIRE(sbx::sys::write_all(inner.slave.get(), "shown\n").ok());
    std::string shown;
    CHECK(loop.until([&] { return (shown += available(out.read.get())) == "shown\n"; }));
    CHECK(available(err.read.get()).empty());
    inner.slave.reset();
    loop.stdio->drain(1000);
    loop.stdio->finish();
    CHECK(loop.stdio->result(1).total_bytes == 6);
    CHECK(loop.stdio->result(2).total_bytes == 0);
  }
}

TEST_CASE("a megabyte of piped lines passes a terminal whose reader is slow to start") {
  sbx::sys::Pipe in = make_pipe();
  const sbx::sys::Pipe out = make_pipe();
  StdioPlan plan;
  plan.stdin_fd = in.read.get();
  plan.stdin_tty = plan.out.tty = true;
  plan.out.forward_fd = out.write.get();
  Loop loop(plan);
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  std::string lines;
  while (lines.size() < 1000000) lines += "line " + std::to_string(lines.size()) + "\n";
  Thread writer([&] {
    (void)sbx::sys::write_all(in.write.get(), lines).ok();
    in.write.reset();
  });
  CHECK(loop.quiet());
  std::string read;
  CHECK(loop.until([&] { return (read += available(inner.slave.get())).size() >= lines.size(); }));
  CHECK((read == lines));
  CHECK(loop.until([&] { return writer.done(); }));
}

TEST_CASE("--tty=always at a terminal with stdout in a file: the pty goes to the file, the terminal stays in line mode") {
  const Pty outer = open_pty(30, 90);
  const struct termios before = attributes_of(outer.slave.get());
  const UniqueFd file = temporary_file("");
  StdioPlan plan = all_tty(outer.slave.get());
  plan.out.forward_fd = file.get();
  Loop loop(plan);
  CHECK(loop.stdio->pty_setup().rows == 30);
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  CHECK(attributes_of(outer.slave.get()).c_lflag == before.c_lflag);
  REQUIRE(sbx::sys::write_all(outer.master.get(), "typed\r").ok());
  std::string read;
  CHECK(loop.until([&] { return (read += available(inner.slave.get())) == "typed\n"; }));
  REQUIRE(sbx::sys::write_all(inner.slave.get(), "to the file\n").ok());
  CHECK(loop.until([&] { return content_of(file.get()) == "to the file\n"; }));
  CHECK(available(outer.master.get()) == "typed\r\n");
}

TEST_CASE("captured output of a pty counts as stdout") {
  StdioPlan plan;
  plan.out.tty = plan.err.tty = true;
  plan.out.capture = plan.err.capture = true;
  Loop loop(plan);
  Pty inner = open_pty();
  attach(*loop.stdio, inner);
  REQUIRE(sbx::sys::write_all(inner.slave.get(), "both\n").ok());
  CHECK(loop.until([&] { return loop.stdio->stderr_tail() == "both\n"; }));
  inner.slave.reset();
  loop.stdio->drain(1000);
  loop.stdio->finish();
  CHECK(loop.stdio->result(1).kept == "both\n");
  CHECK(loop.stdio->result(2).kept.empty());
}

TEST_CASE("a pty nobody asked for is refused") {
  Pty inner = open_pty();
  auto stdio = Stdio::prepare(StdioPlan{}, 0).take();
  CHECK_FALSE(stdio->attach_pty(std::move(inner.master)).ok());
}
