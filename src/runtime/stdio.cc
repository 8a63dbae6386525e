#include "runtime/stdio.h"

#include <linux/kcmp.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

#include "base/sys.h"
#include "runtime/terminal.h"

namespace sbx::runtime {
namespace {

constexpr size_t kBufferSize = 64 * 1024;
constexpr size_t kSpliceSize = 1024 * 1024;
// Both pipes of a bulk stream. Smaller ones wake three processes too often, larger ones carry what no processor's cache
// still has when it is read; a pipe of the caller's beside a larger one of ours is slower than either.
constexpr int kBulkPipeSize = 256 * 1024;
constexpr uint64_t kBulk = 256 * 1024;  // what a stream has moved when it counts as one
constexpr size_t kTailSize = 4096;
constexpr size_t kPeekBudget = 64 * 1024;  // bytes of a piped stdin handed over page by page before plain pumping
constexpr int kRounds = 16;                // transfers per event, so that one busy stream does not starve the rest
constexpr long kForegroundPollNanos = 200 * 1000 * 1000;
constexpr int kPtyHangUpMillis = 1000;

// Which descriptor an event is about: epoll_data is tag_base + Slot.
enum Slot : uint64_t {
  kStdinSource,
  kStdinSink,
  kOutSource,
  kOutTarget,
  kErrSource,
  kErrTarget,
  kMaster,
  kTerminalOut,
  kTerminalIn,
  kTimer,
};

// Bytes waiting in a pipe. Works on either end, and on the write end after all readers are gone.
size_t bytes_in_pipe(int fd) {
  int count = 0;
  return ::ioctl(fd, FIONREAD, &count) == 0 && count > 0 ? static_cast<size_t>(count) : 0;
}

// Only speed depends on it: refused beyond the user's pipe-user-pages-soft, and for what is no pipe.
void grow_pipe(int fd) {
  const int size = ::fcntl(fd, F_GETPIPE_SZ);
  if (size > 0 && size < kBulkPipeSize) ::fcntl(fd, F_SETPIPE_SZ, kBulkPipeSize);
}

bool is_ready(int fd, short events) {
  struct pollfd entry {fd, events, 0};
  return ::poll(&entry, 1, 0) > 0;
}

// One descriptor's registration with the supervisor's epoll.
class Watch {
 public:
  // `failed` gets the errno of a registration that could not be had, and lives as long.
  void attach(int epoll_fd, uint64_t tag, int& failed) {
    epoll_fd_ = epoll_fd;
    tag_ = tag;
    failed_ = &failed;
  }
  // Asks for `events` of `fd`; with `hangups` the registration stays when there are none, because EPOLLERR and EPOLLHUP
  // always come. False: this kind of file cannot be polled (EPERM), it is always ready.
  bool want(int fd, uint32_t events, bool hangups = false) {
    if (epoll_fd_ < 0) return true;
    if (fd < 0 || (events == 0 && !hangups)) {
      // Explicitly: closing our duplicate would leave the registration while the caller's description lives.
      if (fd_ >= 0) ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd_, nullptr);
      fd_ = -1;
      return true;
    }
    if (fd_ == fd && events_ == events) return true;
    struct epoll_event event {};
    event.events = events;
    event.data.u64 = tag_;
    const int operation = fd_ == fd ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (::epoll_ctl(epoll_fd_, operation, fd, &event) != 0) {
      if (errno == EPERM) return false;
      *failed_ = errno;
      return true;
    }
    fd_ = fd;
    events_ = events;
    return true;
  }
  void stop() { want(-1, 0); }

 private:
  int epoll_fd_ = -1;
  uint64_t tag_ = 0;
  int* failed_ = nullptr;
  int fd_ = -1;  // registered, or -1
  uint32_t events_ = 0;
};

// Where a stream goes. write() never waits (regular files and odd devices excepted).
class Target {
 public:
  // An invalid `fd` or a closed one gives a target that is not valid().
  static Result<Target> create(int fd) {
    Target target;
    if (fd < 0 || ::fcntl(fd, F_GETFD) < 0) return target;
    target.fd_ = SBX_TRY(sys::dup(fd));
    const struct stat info = SBX_TRY(sys::fstat(fd));
    if (S_ISSOCK(info.st_mode)) {
      target.method_ = Method::send;
    } else if (S_ISFIFO(info.st_mode)) {
      target.method_ = Method::nowait;
      struct statfs filesystem {};
      target.anonymous_pipe_ = ::fstatfs(fd, &filesystem) == 0 && filesystem.f_type == PIPEFS_MAGIC;
    } else if (::isatty(fd) != 0) {
      target.terminal_ = true;
      target.take_own_description();
    }
    return target;
  }

  bool valid() const { return fd_.valid(); }
  int fd() const { return fd_.get(); }
  // splice(2) takes SPLICE_F_NONBLOCK for pipes only; files are as plain as with write.
  bool spliceable() const { return valid() && method_ != Method::send && !terminal_; }
  // The last reader's end is final: nobody can open an anonymous pipe again by name.
  bool hang_up_is_final() const { return anonymous_pipe_; }
  void close() {
    own_.reset();
    fd_.reset();
  }

  // As write(2); EAGAIN: wait for EPOLLOUT on fd().
  ssize_t write(const char* bytes, size_t size) {
    for (;;) {
      ssize_t put = -1;
      switch (method_) {
        case Method::plain: put = ::write(fd(), bytes, size); break;
        case Method::send: put = ::send(fd(), bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL); break;
        case Method::nowait: {
          struct iovec vector {const_cast<char*>(bytes), size};
          put = ::pwritev2(fd(), &vector, 1, -1, RWF_NOWAIT);
          // Pipes know it since 6.5.
          if (put < 0 && (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS)) {
            take_own_description();
            continue;
          }
          break;
        }
        case Method::own_description: put = ::write(own_.get(), bytes, size); break;
        case Method::small: {
          // POLLOUT of a pipe promises room for PIPE_BUF bytes; of a terminal for a few.
          if (!is_ready(fd(), POLLOUT)) {
            errno = EAGAIN;
            return -1;
          }
          put = ::write(fd(), bytes, std::min(size, terminal_ ? size_t{256} : size_t{PIPE_BUF}));
          break;
        }
      }
      if (put < 0 && errno == EINTR) continue;
      return put;
    }
  }

 private:
  enum class Method { plain, send, nowait, own_description, small };

  void take_own_description() {
    own_ = reopen_nonblocking(fd(), O_WRONLY);
    method_ = own_.valid() ? Method::own_description : Method::small;
  }

  UniqueFd fd_;
  UniqueFd own_;
  Method method_ = Method::plain;
  bool anonymous_pipe_ = false;
  bool terminal_ = false;
};

// The last bytes of a stream, in memory that does not grow.
class Tail {
 public:
  void append(const char* bytes, size_t size) {
    if (size >= kTailSize) {
      text_.assign(bytes + size - kTailSize, kTailSize);
      return;
    }
    text_.append(bytes, size);
    if (text_.size() > 4 * kTailSize) text_.erase(0, text_.size() - kTailSize);
  }
  std::string text() const { return text_.size() <= kTailSize ? text_ : text_.substr(text_.size() - kTailSize); }

 private:
  std::string text_;
};

// One stream of the payload on its way out: a pipe's read end, or the pty's master.
class OutputStream {
 public:
  enum class State {
    more,     // stopped for fairness
    dry,      // nothing to read now
    blocked,  // the target takes nothing now
    ended,    // all read and written, or dropped
  };

  UniqueFd child_end;
  bool over = false;
  std::optional<Error> forward_error;
  Tail tail;
  Watch source_watch;
  Watch target_watch;

  Status plan(const OutputPlan& output, int forward_fd, uint64_t limit, bool keep_tail) {
    target_ = SBX_TRY(Target::create(forward_fd));
    before_first_ = output.before_first;
    capture_ = output.capture;
    capture_limit_ = output.capture_limit;
    limit_ = limit;
    keep_tail_ = keep_tail;
    planned_ = true;
    return {};
  }
  Status open_pipe() {
    sys::Pipe pipe = SBX_TRY(sys::pipe());
    SBX_TRY(sys::set_nonblocking(pipe.read.get()));
    source_ = std::move(pipe.read);
    child_end = std::move(pipe.write);
    // Capture and tail need the bytes in our memory.
    splice_ = target_.spliceable() && !capture_ && !keep_tail_ && !before_first_;
    ended_ = false;
    return {};
  }
  void attach_master(UniqueFd master) {
    source_ = std::move(master);
    pty_ = true;
    ended_ = false;
  }

  int source() const { return source_.get(); }
  int target() const { return target_.fd(); }
  bool planned() const { return planned_; }
  bool ended() const { return ended_ && begin_ == end_; }

  // Moves what can be moved without waiting.
  State pump(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      if (!flush()) return State::blocked;
      if (ended_) return State::ended;
      const uint64_t allowed = std::min(limit_ == 0 ? UINT64_MAX : limit_ - total_, drain_left_);
      if (drain_left_ == 0) {
        end_source();
        continue;
      }
      if (allowed == 0) return probe_limit();
      const State state = splice_ ? splice_some(allowed) : read_some(allowed);
      if (state != State::more) return state;
    }
    // Nothing is left in the buffer that no event would wake us for.
    return flush() ? State::more : State::blocked;
  }

  // `master_events`: what the other direction of a pty waits for.
  void update_watches(uint32_t master_events = 0) {
    const bool reading = !ended_ && !blocked_ && begin_ == end_;
    source_watch.want(source(), (reading ? uint32_t{EPOLLIN} : 0U) | (ended_ && pty_ ? 0U : master_events));
    target_watch.want(target_.fd(), blocked_ ? uint32_t{EPOLLOUT} : 0U, target_.hang_up_is_final() && !ended());
  }

  void on_target_ready(uint32_t events) {
    blocked_ = false;
    if ((events & EPOLLERR) != 0 && target_.hang_up_is_final()) drop_target(EPIPE);
  }

  // Reading is bounded from now on by what the pipe holds: its writers are dead.
  void begin_drain() {
    if (!pty_ && source_.valid()) drain_left_ = bytes_in_pipe(source());
  }
  void give_up(const std::string& reason) {
    if (begin_ < end_ || !ended_) forward_error = Error(ErrorKind::resource, reason);
    begin_ = end_ = 0;
    end_source();
  }
  void end_source() {
    ended_ = true;
    blocked_ = false;
    // The master stays: what is typed still goes there, and closing it would hang up the payload's terminal.
    source_watch.stop();
    if (!pty_) source_.reset();
  }
  void close() {
    source_watch.stop();
    target_watch.stop();
    source_.reset();
    child_end.reset();
    target_.close();
    begin_ = end_ = 0;
    ended_ = true;
  }

  StreamResult take_result() {
    StreamResult result;
    result.total_bytes = total_;
    result.captured = capture_;
    result.truncated = truncated_;
    result.forward_error = forward_error;
    result.kept = std::exchange(kept_, {});
    return result;
  }

 private:
  // False: the target blocks. A broken target is dropped, and the buffer with it.
  bool flush() {
    if (begin_ < end_) tell_before_first();
    while (begin_ < end_) {
      const ssize_t put = target_.write(buffer_.get() + begin_, end_ - begin_);
      if (put > 0) {
        begin_ += static_cast<size_t>(put);
      } else if (put < 0 && errno == EAGAIN) {
        blocked_ = true;
        return false;
      } else {
        drop_target(put == 0 ? EIO : errno);
      }
    }
    return true;
  }

  State read_some(uint64_t allowed) {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(kBufferSize);
    const ssize_t got = ::read(source(), buffer_.get(), std::min<uint64_t>(kBufferSize, allowed));
    if (got <= 0) return on_read_end(got);
    const size_t size = static_cast<size_t>(got);
    count(size);
    if (keep_tail_) tail.append(buffer_.get(), size);
    if (capture_) {
      const size_t room = capture_limit_ - std::min(capture_limit_, kept_.size());
      kept_.append(buffer_.get(), std::min(room, size));
      if (size > room) truncated_ = true;
    }
    begin_ = 0;
    end_ = target_.valid() ? size : 0;
    return State::more;
  }

  State splice_some(uint64_t allowed) {
    const ssize_t moved = ::splice(source(), nullptr, target_.fd(), nullptr, std::min<uint64_t>(kSpliceSize, allowed),
                                   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (moved > 0) {
      const bool was_bulk = total_ >= kBulk;
      count(static_cast<size_t>(moved));
      if (!was_bulk && total_ >= kBulk) {
        grow_pipe(source());
        grow_pipe(target_.fd());
      }
      return State::more;
    }
    if (moved == 0) return on_read_end(0);
    if (errno == EAGAIN) {
      // Which of the two was it? A target without room counts only if it still has none: the payload may have written
      // and the reader may have read since, and a file is never waited for (it cannot be polled).
      if (is_ready(target_.fd(), POLLOUT)) return bytes_in_pipe(source()) > 0 ? State::more : State::dry;
      blocked_ = true;
      return State::blocked;
    }
    if (errno == EINTR) return State::more;
    if (errno == EINVAL || errno == ENOSYS) {  // a file opened with O_APPEND, a device without splice
      splice_ = false;
      return State::more;
    }
    drop_target(errno);
    return State::more;
  }

  // The limit is reached exactly: one byte more is what makes it exceeded. That byte is thrown away.
  State probe_limit() {
    char byte = 0;
    const ssize_t got = ::read(source(), &byte, 1);
    if (got <= 0) return on_read_end(got);
    over = true;
    // The pipe stays open and unread: the payload waits there until it is killed, instead of dying by SIGPIPE.
    ended_ = true;
    source_watch.stop();
    return State::ended;
  }

  State on_read_end(ssize_t got) {
    if (got < 0 && errno == EINTR) return State::more;
    if (got < 0 && errno == EAGAIN) return State::dry;
    end_source();  // end of file; EIO of a master: nobody holds the slave
    return State::ended;
  }

  void tell_before_first() {
    if (!before_first_) return;
    before_first_();
    before_first_ = nullptr;
  }

  void count(size_t size) {
    total_ += size;
    if (drain_left_ != UINT64_MAX) drain_left_ -= std::min<uint64_t>(drain_left_, size);
  }

  void drop_target(int errnum) {
    if (errnum != EPIPE && errnum != ECONNRESET) {
      forward_error = Error::from_errno(errnum, "write the payload's output");
    }
    target_watch.stop();
    target_.close();
    splice_ = false;
    begin_ = end_ = 0;
    blocked_ = false;
    if (!pty_) end_source();
  }

  UniqueFd source_;
  Target target_;
  std::function<void()> before_first_;
  bool planned_ = false;
  bool pty_ = false;
  bool splice_ = false;
  bool capture_ = false;
  bool keep_tail_ = false;
  bool truncated_ = false;
  bool blocked_ = false;
  bool ended_ = true;
  size_t capture_limit_ = 0;
  uint64_t limit_ = 0;  // 0: none
  uint64_t total_ = 0;
  uint64_t drain_left_ = UINT64_MAX;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;  // buffer_[begin_, end_) is not written yet
  size_t end_ = 0;
  std::string kept_;
};

// A terminal that we read from time to time: only while it is ours.
class TerminalReader {
 public:
  Terminal terminal;

  Status open(int fd) {
    terminal = SBX_TRY(Terminal::create(fd));
    // In the background the modes are those of somebody else, a shell that edits its line.
    line_mode_at_start_ = terminal.is_canonical() || !terminal.in_foreground();
    own_ = reopen_nonblocking(fd, O_RDONLY);
    return {};
  }
  int fd() const { return own_.valid() ? own_.get() : terminal.fd(); }
  // Somebody else's while we are in the background, or while another program has switched line mode off.
  bool is_ours() const {
    if (!terminal.in_foreground()) return false;
    return terminal.is_raw() || !line_mode_at_start_ || terminal.is_canonical();
  }
  void close() {
    terminal.restore();
    own_.reset();
    terminal = Terminal();
  }

 private:
  UniqueFd own_;
  bool line_mode_at_start_ = true;
};

// The caller's stdin on its way into the payload's pipe.
class InputPump {
 public:
  UniqueFd child_end;
  Watch source_watch;
  Watch sink_watch;

  // `may_be_none`: where it is empty the child opens /dev/null for itself; else there is a pipe that ends at once.
  Status open(int fd, bool may_be_none) {
    if (fd < 0 || ::fcntl(fd, F_GETFD) < 0) return {};
    const struct stat info = SBX_TRY(sys::fstat(fd));
    if (may_be_none && S_ISCHR(info.st_mode) && info.st_rdev == makedev(1, 3)) return {};  // the caller's /dev/null
    source_ = SBX_TRY(sys::dup(fd));
    sys::Pipe pipe = SBX_TRY(sys::pipe());
    SBX_TRY(sys::set_nonblocking(pipe.write.get()));
    if (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode)) {
      start_ = position_ = ::lseek(fd, 0, SEEK_CUR);
      if (start_ >= 0) {
        kind_ = Kind::seekable;
        // A reader of our own, so that what is left can still be counted after the end of file has closed the write
        // end. Its price, no EPIPE when the payload closes its stdin, is none here: a full pipe stops us as well.
        unread_ = SBX_TRY(sys::dup(pipe.read.get()));
      }
    } else if (S_ISFIFO(info.st_mode)) {
      // A pipe of one page is full as soon as anything is in it, and ready again when all of that has been read: so
      // EPOLLOUT tells that the payload reads.
      page_pipe_size_ = ::fcntl(pipe.write.get(), F_SETPIPE_SZ, 1);
      if (page_pipe_size_ > 0) kind_ = Kind::peeked_pipe;
    } else if (::isatty(fd) != 0) {
      SBX_TRY(reader_.open(fd));
      kind_ = Kind::terminal;
    }
    sink_ = std::move(pipe.write);
    child_end = std::move(pipe.read);
    return {};
  }

  bool is_terminal() const { return kind_ == Kind::terminal; }
  bool waits_for_terminal() const { return waiting_for_terminal_; }

  // `source_ready`: epoll said so; a pollable source is then read once.
  void pump(bool source_ready) {
    for (int round = 0; round < kRounds && sink_.valid(); ++round) {
      if (begin_ < end_) {
        const ssize_t put = ::write(sink_.get(), buffer_.get() + begin_, end_ - begin_);
        if (put > 0) {
          begin_ += static_cast<size_t>(put);
        } else if (errno == EAGAIN) {
          sink_full_ = true;
          break;
        } else if (errno != EINTR) {
          close_sink();  // EPIPE: the payload has closed its stdin
        }
        continue;
      }
      if (kind_ == Kind::peeked_pipe) {
        if (!peek()) break;
        continue;
      }
      if (always_ready()) {
        // Only when there is room: what is not read needs no giving back.
        if (!is_ready(sink_.get(), POLLOUT)) {
          sink_full_ = true;
          break;
        }
      } else if (!std::exchange(source_ready, false)) {
        break;
      }
      if (kind_ == Kind::terminal && !reader_.is_ours()) {
        waiting_for_terminal_ = true;
        break;
      }
      fetch();
    }
    update_watches();
  }

  void on_sink_ready(uint32_t events) {
    sink_full_ = false;
    // (peek() and fetch() would find out too, but a silent source may never get us there.)
    if ((events & EPOLLERR) != 0) {
      close_sink();
    } else {
      pump(false);
    }
  }
  void look_at_terminal() {
    if (!waiting_for_terminal_ || !reader_.is_ours()) return;
    waiting_for_terminal_ = false;
    update_watches();
  }

  void update_watches() {
    if (!sink_.valid()) {
      source_watch.stop();
      sink_watch.stop();
      return;
    }
    const bool waiting_for_sink = sink_full_ || begin_ < end_;
    const bool reading = !sink_full_ && begin_ == end_ && !waiting_for_terminal_ && kind_ != Kind::seekable;
    if (!unpollable_ && !source_watch.want(read_fd(), reading ? uint32_t{EPOLLIN} : 0U)) {
      unpollable_ = true;  // an odd device: always ready, so the pace comes from the sink
    }
    // Something that is always ready makes no events: the sink's readiness has to.
    sink_watch.want(sink_.get(), waiting_for_sink || always_ready() ? uint32_t{EPOLLOUT} : 0U, true);
  }

  // Nothing is pumped any more, and the caller's stdin is brought to where the payload stopped reading.
  void finish() {
    settle();
    close_sink();
    source_.reset();
    unread_.reset();
    child_end.reset();
    reader_.close();
  }

 private:
  enum class Kind { stream, seekable, peeked_pipe, terminal };

  bool always_ready() const { return kind_ == Kind::seekable || unpollable_; }
  int read_fd() const { return kind_ == Kind::terminal ? reader_.fd() : source_.get(); }

  // Pipe to pipe without a copy. False: it has to go through the buffer.
  bool splice_some() {
    const ssize_t moved = ::splice(source_.get(), nullptr, sink_.get(), nullptr, kSpliceSize, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (moved > 0 || (moved < 0 && errno == EINTR)) return true;
    if (moved < 0 && errno == EAGAIN) {
      sink_full_ = !is_ready(sink_.get(), POLLOUT);  // else there is nothing to be had just now
      return true;
    }
    if (moved == 0 || errno == EPIPE) {
      close_sink();
      return true;
    }
    splice_ = false;
    return false;
  }

  void fetch() {
    if (splice_ && splice_some()) return;
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(kBufferSize);
    const ssize_t got = kind_ == Kind::seekable ? ::pread(source_.get(), buffer_.get(), kBufferSize, position_)
                                                : ::read(read_fd(), buffer_.get(), kBufferSize);
    if (got > 0) {
      position_ += got;
      begin_ = 0;
      end_ = static_cast<size_t>(got);
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      close_sink();  // the end of input, also where it cannot be read at all (a directory, a write-only descriptor)
    }
  }

  // One step of showing a pipe's content without taking it. False: wait.
  bool peek() {
    if (peeked_ > 0) {
      if (bytes_in_pipe(sink_.get()) > 0) {
        if (::fcntl(sink_.get(), F_GETPIPE_SZ) > page_pipe_size_) {
          // The payload has enlarged its end: EPOLLOUT says nothing any more, and would come without end.
          stop_peeking();
          return true;
        }
        sink_full_ = true;
        return false;
      }
      take_from_pipe(peeked_);
      taken_ += std::exchange(peeked_, 0);
      if (taken_ >= kPeekBudget) {
        stop_peeking();
        return true;
      }
    }
    const ssize_t shown = ::tee(source_.get(), sink_.get(), kBufferSize, SPLICE_F_NONBLOCK);
    if (shown > 0) {
      peeked_ = static_cast<size_t>(shown);
      return true;
    }
    if (shown < 0 && errno == EINTR) return true;
    if (shown < 0 && errno == EAGAIN) return false;
    if (shown < 0 && errno != EPIPE) {
      kind_ = Kind::stream;
      return true;
    }
    close_sink();
    return false;
  }

  // What is shown counts as taken, and the rest is pumped.
  void stop_peeking() {
    take_from_pipe(std::exchange(peeked_, 0));
    grow_pipe(sink_.get());
    grow_pipe(source_.get());  // what stays unread there is not lost
    kind_ = Kind::stream;
    splice_ = true;
  }

  // Removes what was shown and has been read. The poll: another reader of the same pipe may have been faster.
  void take_from_pipe(size_t size) {
    std::array<char, 4096> scrap;
    while (size > 0 && is_ready(source_.get(), POLLIN)) {
      const ssize_t got = ::read(source_.get(), scrap.data(), std::min(size, scrap.size()));
      if (got <= 0) return;
      size -= static_cast<size_t>(got);
    }
  }

  void settle() {
    if (!source_.valid()) return;
    if (kind_ == Kind::seekable) {
      const off_t consumed = position_ - start_ - static_cast<off_t>(end_ - begin_) -
                             static_cast<off_t>(bytes_in_pipe(unread_.get()));
      // Relative: the offset is shared, others may have moved it meanwhile.
      if (consumed > 0) ::lseek(source_.get(), consumed, SEEK_CUR);
      start_ += std::max<off_t>(consumed, 0);
    } else if (kind_ == Kind::peeked_pipe && sink_.valid()) {
      take_from_pipe(peeked_ - std::min(peeked_, bytes_in_pipe(sink_.get())));
      peeked_ = 0;
    }
  }

  void close_sink() {
    if (kind_ != Kind::seekable) settle();
    source_watch.stop();
    sink_watch.stop();
    sink_.reset();
    waiting_for_terminal_ = false;
    if (kind_ != Kind::seekable) source_.reset();
  }

  UniqueFd source_;
  UniqueFd sink_;
  UniqueFd unread_;
  Kind kind_ = Kind::stream;
  TerminalReader reader_;
  off_t start_ = 0;
  off_t position_ = 0;
  int page_pipe_size_ = 0;  // of the sink while peeking
  size_t peeked_ = 0;  // in the sink and still in the caller's pipe
  size_t taken_ = 0;
  bool sink_full_ = false;
  bool splice_ = false;
  bool unpollable_ = false;
  bool waiting_for_terminal_ = false;
  std::unique_ptr<char[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
};

// What is typed at the caller's terminal, or what a stdin that is none holds, on its way to the master.
class Keyboard {
 public:
  Watch watch;

  Status open(int terminal_fd, bool raw) {
    wants_raw_ = raw;
    return reader_.open(terminal_fd);
  }
  // Instead of a terminal: the read end of a pipe.
  Status open_pipe(UniqueFd pipe) {
    SBX_TRY(sys::set_nonblocking(pipe.get()));
    pipe_ = std::move(pipe);
    return {};
  }
  bool wants_raw() const { return wants_raw_; }

  void start(int master) {
    master_ = master;
    take_terminal();
  }
  bool waits_for_terminal() const { return waiting_; }
  uint32_t master_events() const { return begin_ < end_ ? uint32_t{EPOLLOUT} : 0U; }

  void on_typed(uint32_t events) {
    if (master_ < 0 || begin_ < end_) return;
    if (!may_read()) {
      waiting_ = true;
      return;
    }
    const ssize_t got = ::read(source(), buffer_.data(), buffer_.size());
    if (got > 0) {
      begin_ = 0;
      end_ = static_cast<size_t>(got);
      last_ = buffer_[end_ - 1];
      flush();
    } else if (got == 0 && (events & EPOLLHUP) == 0 && !pipe_.valid() && !reader_.terminal.is_raw()) {
      type_end_of_file();  // Ctrl-D on an empty line of a terminal in line mode; the inner one has to see the key
    } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    } else if (got < 0 && !pipe_.valid() && !reader_.terminal.in_foreground()) {
      waiting_ = true;  // EIO: the foreground was lost since may_read()
    } else {
      // No more input, or the terminal is hung up and no signal says so (a caller that ignores SIGHUP).
      gone_ = true;
      type_end_of_file();
    }
  }
  // Never waits: the master is non-blocking.
  void flush() {
    while (begin_ < end_) {
      const ssize_t put = ::write(master_, buffer_.data() + begin_, end_ - begin_);
      if (put > 0) {
        begin_ += static_cast<size_t>(put);
      } else if (errno == EAGAIN) {
        return;
      } else if (errno != EINTR) {
        begin_ = end_;  // nobody holds the slave
      }
    }
  }
  void update_watch() {
    const bool reading = master_ >= 0 && !gone_ && !suspended_ && !waiting_ && begin_ == end_;
    watch.want(source(), reading ? uint32_t{EPOLLIN} : 0U);
  }
  void take_terminal() {
    if (master_ < 0 || suspended_ || gone_) return;
    waiting_ = !may_read();
  }
  void suspend() {
    suspended_ = true;
    waiting_ = false;
    reader_.terminal.restore();
  }
  void resume() {
    suspended_ = false;
    reader_.terminal.forget_if_changed();
    take_terminal();
  }
  void finish() {
    watch.stop();
    reader_.close();
    pipe_.reset();
    master_ = -1;
    waiting_ = false;
  }

 private:
  int source() const { return pipe_.valid() ? pipe_.get() : reader_.fd(); }

  void type_end_of_file() {
    struct termios inner {};
    const bool known = ::tcgetattr(master_, &inner) == 0;
    const char key = known ? static_cast<char>(inner.c_cc[VEOF]) : '\x04';
    const bool line_open = pipe_.valid() && known && (inner.c_lflag & ICANON) != 0 && last_ != '\n' && last_ != key &&
                           !(last_ == '\r' && (inner.c_iflag & ICRNL) != 0);
    buffer_[0] = buffer_[1] = key;
    begin_ = 0;
    end_ = line_open ? 2 : 1;
    flush();
  }

  // Goes raw again where that is wanted and was not possible so far.
  bool may_read() {
    if (pipe_.valid()) return true;
    // Whoever has the terminal meanwhile sets it up anew.
    if (!reader_.terminal.in_foreground()) reader_.terminal.restore();
    if (wants_raw_ && !reader_.terminal.enter_raw()) return false;
    return reader_.is_ours();
  }

  TerminalReader reader_;
  UniqueFd pipe_;
  char last_ = '\n';        // the last byte that was read
  bool wants_raw_ = false;
  bool waiting_ = false;    // for the terminal to become ours
  bool suspended_ = false;  // between suspend() and resume()
  bool gone_ = false;
  int master_ = -1;  // owned by the pty's OutputStream
  std::array<char, 4096> buffer_{};
  size_t begin_ = 0;
  size_t end_ = 0;
};

class PumpedStdio final : public Stdio {
 public:
  ~PumpedStdio() override { finish(); }

  Status open(const StdioPlan& plan, uint64_t output_limit) {
    plan_ = plan;
    needs_pty_ = plan.stdin_tty || plan.out.tty || plan.err.tty;
    if (needs_pty_) SBX_TRY(open_terminal(output_limit));
    if (!plan.stdin_tty || !stdin_is_terminal_) SBX_TRY_CTX(input_.open(plan.stdin_fd, !plan.stdin_tty), "standard input");
    if (plan.stdin_tty && input_.child_end.valid()) SBX_TRY(keyboard_.open_pipe(std::move(input_.child_end)));
    one_pipe_ = have_one_target(plan);
    if (!plan.out.tty) {
      SBX_TRY_CTX(out_.plan(plan.out, plan.out.forward_fd, output_limit, one_pipe_), "standard output");
      SBX_TRY(out_.open_pipe());
    }
    if (!plan.err.tty && !one_pipe_) {
      SBX_TRY_CTX(err_.plan(plan.err, plan.err.forward_fd, output_limit, true), "standard error");
      SBX_TRY(err_.open_pipe());
    }
    return {};
  }

  int child_fd(int stream) const override {
    switch (stream) {
      case 0: return input_.child_end.get();
      case 1: return out_.child_end.get();
      case 2: return one_pipe_ ? out_.child_end.get() : err_.child_end.get();
      default: return -1;
    }
  }
  bool needs_pty() const override { return needs_pty_; }
  std::vector<int> pipe_fds() const override {
    std::vector<int> fds;
    for (const UniqueFd* end : {&input_.child_end, &out_.child_end, &err_.child_end}) {
      if (end->valid()) fds.push_back(end->get());
    }
    return fds;
  }
  void close_child_ends() override {
    input_.child_end.reset();
    out_.child_end.reset();
    err_.child_end.reset();
  }

  Status attach_pty(UniqueFd master) override {
    if (!needs_pty_ || pty_.source() >= 0) return Error(ErrorKind::internal, "no pty was asked for");
    SBX_TRY(sys::set_nonblocking(master.get()));
    if (terminal_.valid()) copy_window_size(plan_.terminal_fd, master.get());
    const int fd = master.get();
    pty_.attach_master(std::move(master));
    if (plan_.stdin_tty) keyboard_.start(fd);
    update();
    return {};
  }

  Status register_with(int epoll_fd, uint64_t tag_base) override {
    tag_base_ = tag_base;
    if (plan_.stdin_tty || input_.is_terminal()) {  // nobody else waits for one
      timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
      if (!timer_.valid()) return Error::from_errno(errno, "create a timer");
    }
    input_.source_watch.attach(epoll_fd, tag_base + kStdinSource, watch_failed_);
    input_.sink_watch.attach(epoll_fd, tag_base + kStdinSink, watch_failed_);
    out_.source_watch.attach(epoll_fd, tag_base + kOutSource, watch_failed_);
    out_.target_watch.attach(epoll_fd, tag_base + kOutTarget, watch_failed_);
    err_.source_watch.attach(epoll_fd, tag_base + kErrSource, watch_failed_);
    err_.target_watch.attach(epoll_fd, tag_base + kErrTarget, watch_failed_);
    pty_.source_watch.attach(epoll_fd, tag_base + kMaster, watch_failed_);
    pty_.target_watch.attach(epoll_fd, tag_base + kTerminalOut, watch_failed_);
    keyboard_.watch.attach(epoll_fd, tag_base + kTerminalIn, watch_failed_);
    timer_watch_.attach(epoll_fd, tag_base + kTimer, watch_failed_);
    input_.update_watches();
    update();
    return watch_status();
  }

  Status watch_status() const override {
    if (watch_failed_ != 0) return Error::from_errno(watch_failed_, "watch the payload's streams");
    return {};
  }

  void on_ready(uint64_t tag, uint32_t events) override {
    if (finished_) return;  // an event of the same batch
    switch (tag - tag_base_) {
      case kStdinSource: input_.pump(true); break;
      case kStdinSink: input_.on_sink_ready(events); break;
      case kOutSource: out_.pump(kRounds); break;
      case kOutTarget:
        out_.on_target_ready(events);
        out_.pump(kRounds);
        break;
      case kErrSource: err_.pump(kRounds); break;
      case kErrTarget:
        err_.on_target_ready(events);
        err_.pump(kRounds);
        break;
      case kMaster:
        if ((events & EPOLLOUT) != 0) keyboard_.flush();
        pty_.pump(kRounds);
        break;
      case kTerminalOut:
        pty_.on_target_ready(events);
        pty_.pump(kRounds);
        break;
      case kTerminalIn: keyboard_.on_typed(events); break;
      case kTimer: {
        uint64_t expirations = 0;
        // EAGAIN is as good: the look costs nothing.
        (void)!::read(timer_.get(), &expirations, sizeof expirations);
        keyboard_.take_terminal();
        input_.look_at_terminal();
        break;
      }
      default: break;
    }
    update();
  }

  void on_window_size_change() override {
    if (pty_.source() >= 0 && terminal_.valid()) copy_window_size(plan_.terminal_fd, pty_.source());
  }
  bool has_job_control() const override { return terminal_.is_controlling(); }
  ns::TerminalSetup pty_setup() const override { return setup_; }
  void suspend_terminal() override {
    keyboard_.suspend();
    update();
  }
  void resume_terminal() override {
    keyboard_.resume();
    on_window_size_change();
    input_.look_at_terminal();
    update();
  }

  int over_limit() const override {
    if (out_.over) return 1;
    if (err_.over) return 2;
    return pty_.over ? pty_stream() : 0;
  }

  void drain(int grace_ms, int interrupt_fd) override {
    if (finished_) return;
    using Clock = std::chrono::steady_clock;
    const std::array<OutputStream*, 3> streams = {&out_, &err_, &pty_};
    for (OutputStream* stream : streams) stream->begin_drain();
    int64_t blocked_ms = 0;  // spent waiting for targets
    int64_t hang_up_ms = 0;  // spent waiting for the slave's end
    for (;;) {
      std::array<struct pollfd, 4> polls{};
      nfds_t count = 0;
      bool blocked = false;
      bool more = false;
      bool wait_for_slave = false;
      for (OutputStream* stream : streams) {
        if (!stream->planned()) continue;
        switch (stream->pump(kRounds)) {
          case OutputStream::State::more: more = true; break;
          case OutputStream::State::blocked:
            blocked = true;
            polls[count++] = {stream->target(), POLLOUT, 0};
            break;
          case OutputStream::State::dry:
            // A pipe has nothing more to give. A pty's last bytes may still be on their way through a kernel thread;
            // behind them comes EIO.
            if (stream == &pty_ && hang_up_ms < kPtyHangUpMillis) {
              wait_for_slave = true;
              polls[count++] = {stream->source(), POLLIN, 0};
            } else {
              stream->end_source();
            }
            break;
          case OutputStream::State::ended: break;
        }
      }
      if (!blocked && !more && !wait_for_slave) return;
      int64_t timeout = more ? 0 : -1;
      if (!more && blocked && grace_ms >= 0) timeout = std::max<int64_t>(0, grace_ms - blocked_ms);
      if (!more && wait_for_slave) {
        const int64_t left = kPtyHangUpMillis - hang_up_ms;
        timeout = timeout < 0 ? left : std::min(timeout, left);
      }
      const nfds_t targets = count;
      if (interrupt_fd >= 0) polls[count++] = {interrupt_fd, POLLIN, 0};
      const Clock::time_point before = Clock::now();
      ::poll(polls.data(), count, static_cast<int>(timeout));
      const auto waited = std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - before).count();
      if (blocked && !more) blocked_ms += waited;
      if (wait_for_slave) hang_up_ms += waited;
      const bool interrupted = interrupt_fd >= 0 && polls[targets].revents != 0;
      if (!interrupted && !(blocked && grace_ms >= 0 && blocked_ms >= grace_ms)) continue;
      for (OutputStream* stream : streams) {
        if (stream->planned() && !stream->ended()) {
          stream->give_up(interrupted ? "a signal ended the wait for the reader of the payload's output"
                                      : "the reader of the payload's output did not take the rest of it in time");
        }
      }
      return;
    }
  }

  void finish() override {
    if (std::exchange(finished_, true)) return;
    keyboard_.finish();
    input_.finish();
    out_.close();
    err_.close();
    pty_.close();
    timer_watch_.stop();
    timer_.reset();
  }

  StreamResult result(int stream) override {
    StreamResult result = output(stream).take_result();
    result.joined = stream == 2 && one_pipe_;
    return result;
  }
  std::string stderr_tail() const override {
    return plan_.err.tty ? pty_.tail.text() : one_pipe_ ? out_.tail.text() : err_.tail.text();
  }
  Status forward_status(int stream) const override {
    const OutputStream& of = const_cast<PumpedStdio*>(this)->output(stream);
    if (of.forward_error.has_value()) return *of.forward_error;
    return {};
  }

 private:
  // Whether both output streams are one file of the caller's, as after 2>&1: then the payload gets one pipe as well, for
  // only one pipe keeps the order of what is written. Not where the bytes of each are asked for apart.
  static bool have_one_target(const StdioPlan& plan) {
    if (plan.out.tty || plan.err.tty || plan.out.capture || plan.err.capture) return false;
    struct stat out {};
    struct stat err {};
    if (plan.out.forward_fd < 0 || plan.err.forward_fd < 0 || ::fstat(plan.out.forward_fd, &out) != 0 ||
        ::fstat(plan.err.forward_fd, &err) != 0 || out.st_dev != err.st_dev || out.st_ino != err.st_ino) {
      return false;
    }
    // A file that was opened twice has two offsets, and the streams overwrite each other there: no order to keep.
    return !S_ISREG(out.st_mode) ||
           ::syscall(SYS_kcmp, ::getpid(), ::getpid(), KCMP_FILE, plan.out.forward_fd, plan.err.forward_fd) == 0;
  }

  // As which stream the pty's output counts.
  int pty_stream() const { return plan_.out.tty ? 1 : 2; }

  OutputStream& output(int stream) {
    if (stream == 1) return plan_.out.tty ? pty_ : out_;
    return plan_.err.tty && !plan_.out.tty ? pty_ : err_;
  }

  Status open_terminal(uint64_t output_limit) {
    if (plan_.terminal_fd >= 0) terminal_ = SBX_TRY(Terminal::create(plan_.terminal_fd));
    const int target = plan_.out.tty ? plan_.out.forward_fd : plan_.err.tty ? plan_.err.forward_fd : plan_.terminal_fd;
    SBX_TRY_CTX(pty_.plan(plan_.out.tty ? plan_.out : plan_.err, target, output_limit, true), "terminal");
    stdin_is_terminal_ = plan_.stdin_tty && plan_.stdin_fd >= 0 && ::isatty(plan_.stdin_fd) != 0;
    bool raw = false;
    if (stdin_is_terminal_) {
      raw = target >= 0 && ::isatty(target) != 0 && !is_pipeline();
      SBX_TRY_CTX(keyboard_.open(plan_.stdin_fd, raw), "terminal");
    }
    return plan_setup(raw);
  }

  // The terminal may belong to the program behind us then (`sbx run x | less`).
  bool is_pipeline() const {
    struct stat info {};
    return plan_.out.forward_fd >= 0 && ::fstat(plan_.out.forward_fd, &info) == 0 &&
           (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode));
  }

  // The inner terminal starts as the outer one is (keys, size, modes), or as the kernel makes a new one.
  Status plan_setup(bool raw) {
    struct termios modes = standard_modes();
    if (terminal_.valid()) {
      // In the background they are somebody else's.
      if (terminal_.in_foreground()) modes = SBX_TRY(terminal_.attributes());
      struct winsize size {};
      if (::ioctl(plan_.terminal_fd, TIOCGWINSZ, &size) == 0 && size.ws_row != 0 && size.ws_col != 0) {
        setup_.rows = size.ws_row;
        setup_.columns = size.ws_col;
      }
    }
    if (!raw) {
      // A terminal that stays in line mode does its own echo and newline translation, and what is no terminal wants
      // neither.
      modes.c_lflag &= ~static_cast<tcflag_t>(ECHO);
      modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    }
    setup_.modes.input = modes.c_iflag;
    setup_.modes.output = modes.c_oflag;
    setup_.modes.control = modes.c_cflag;
    setup_.modes.local = modes.c_lflag;
    setup_.modes.line = modes.c_line;
    std::copy_n(modes.c_cc, std::size(setup_.modes.keys), setup_.modes.keys);
    return {};
  }

  // As drivers/tty gives them to a new terminal (tty_std_termios).
  static struct termios standard_modes() {
    struct termios modes {};
    modes.c_iflag = ICRNL | IXON;
    modes.c_oflag = OPOST | ONLCR;
    modes.c_cflag = B38400 | CS8 | CREAD;
    modes.c_lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN;
    modes.c_cc[VINTR] = 3;
    modes.c_cc[VQUIT] = 28;
    modes.c_cc[VERASE] = 127;
    modes.c_cc[VKILL] = 21;
    modes.c_cc[VEOF] = 4;
    modes.c_cc[VMIN] = 1;
    modes.c_cc[VSTART] = 17;
    modes.c_cc[VSTOP] = 19;
    modes.c_cc[VSUSP] = 26;
    modes.c_cc[VREPRINT] = 18;
    modes.c_cc[VDISCARD] = 15;
    modes.c_cc[VWERASE] = 23;
    modes.c_cc[VLNEXT] = 22;
    return modes;
  }

  void update() {
    out_.update_watches();
    err_.update_watches();
    pty_.update_watches(keyboard_.master_events());
    keyboard_.update_watch();
    update_timer();
  }
  void update_timer() {
    const bool needed = keyboard_.waits_for_terminal() || input_.waits_for_terminal();
    if (!timer_.valid() || needed == timer_runs_) return;
    timer_runs_ = needed;
    struct itimerspec spec {};
    if (needed) spec.it_interval.tv_nsec = spec.it_value.tv_nsec = kForegroundPollNanos;
    ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
    timer_watch_.want(timer_.get(), needed ? uint32_t{EPOLLIN} : 0U);
  }

  StdioPlan plan_;
  bool needs_pty_ = false;
  bool one_pipe_ = false;  // out_ carries both streams
  bool finished_ = false;
  int watch_failed_ = 0;
  uint64_t tag_base_ = 0;
  InputPump input_;
  OutputStream out_;
  OutputStream err_;
  OutputStream pty_;
  Keyboard keyboard_;
  Terminal terminal_;       // only looked at
  bool stdin_is_terminal_ = false;
  ns::TerminalSetup setup_;
  UniqueFd timer_;
  Watch timer_watch_;
  bool timer_runs_ = false;
};

}  // namespace

Result<std::unique_ptr<Stdio>> Stdio::prepare(const StdioPlan& plan, uint64_t output_limit) {
  auto stdio = std::make_unique<PumpedStdio>();
  SBX_TRY(stdio->open(plan, output_limit));
  return std::unique_ptr<Stdio>(std::move(stdio));
}

}  // namespace sbx::runtime
