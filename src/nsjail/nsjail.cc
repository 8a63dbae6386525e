#include "nsjail/nsjail.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <memory>

#include "base/sys.h"
#include "base/text.h"
#include "nsjail/jail.h"
#include "nsjail/listen.h"
#include "nsjail/log.h"
#include "nsjail/start.h"
#include "policy/nsjail/flags.h"
#include "policy/nsjail/read.h"

namespace sbx::nsjail {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr uint64_t kLinger = 10 * kSecond;  // for a peer to take the last bytes of a program that has ended

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "SIG" + std::to_string(signal) : std::string("SIG") + name;
}

// What the caller's terminal was like; a program may have left it otherwise.
class Terminal {
 public:
  Terminal() : known_(::tcgetattr(STDIN_FILENO, &modes_) == 0) {}
  ~Terminal() {
    if (known_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

 private:
  struct termios modes_ {};
  bool known_;
};

// One program and, of LISTEN, its connection.
struct Session {
  Running running;
  bool alive = true;
  std::string peer = "[STANDALONE MODE]";
  std::string ip;
  uint64_t began = 0, deadline = 0;  // monotonic; no deadline: 0
  bool told = false;                 // that its time is up
  UniqueFd socket, to_program, from_program;
  Flow in, out;
};

class Supervisor {
 public:
  Supervisor(Jail& jail, const Config& config, const Log& log, runtime::CgroupParent* cgroups, UniqueFd signals)
      : jail_(jail), config_(config), log_(log), cgroups_(cgroups), signals_(std::move(signals)) {}

  // ONCE, RERUN: the exit status.
  int standalone() {
    int status = kFailure;
    do {
      if (!begin(Streams{}, nullptr)) return kFailure;
      while (!sessions_.empty() && stopped_ == 0) wait(nullptr);
      end_all();
      status = last_status_;
      if (stopped_ != 0) return 128 + stopped_;
    } while (config_.mode == Mode::rerun);
    return status;
  }

  int serve() {
    Result<Listener> listener = listen_on(config_.bindhost, config_.port);
    if (!listener.ok()) {
      log_.error(listener.take_error().with_origin(config_.origins.at("port")), LogLevel::fatal);
      return 1;
    }
    log_.info("Listening on " + listener.value().address);
    while (stopped_ == 0) wait(&listener.value());
    end_all();
    return 0;
  }

 private:
  bool begin(const Streams& streams, Peer* peer) {
    log_.info("Executing '" + jail_.exec_path + "' for '" + (peer == nullptr ? "[STANDALONE MODE]" : peer->text) + "'");
    Result<Running> running = start(jail_, streams, cgroups_);
    if (!running.ok()) {
      log_.error(running.error(), peer == nullptr ? LogLevel::fatal : LogLevel::error);
      return false;
    }
    // Of a supervisor that was killed; its jail is at work meanwhile.
    if (cgroups_ != nullptr) cgroups_->reap_stale();
    Session session{running.take()};
    session.began = sys::monotonic_ns();
    if (config_.time_limit != 0) session.deadline = session.began + uint64_t{config_.time_limit} * kSecond;
    if (peer != nullptr) {
      session.peer = peer->text;
      session.ip = peer->ip;
      session.socket = std::move(peer->socket);
    }
    log_.debug("Added pid=" + std::to_string(session.running.pid()));
    sessions_.push_back(std::move(session));
    return true;
  }

  // Until something happens, and what it asks for.
  void wait(const Listener* listener) {
    std::vector<pollfd> wanted{{signals_.get(), POLLIN, 0}};
    if (listener != nullptr) wanted.push_back({listener->socket.get(), POLLIN, 0});
    uint64_t next = 0;
    for (const Session& session : sessions_) {
      wanted.push_back({session.alive ? session.running.pidfd() : -1, POLLIN, 0});
      const pollfd none{-1, 0, 0};
      wanted.push_back(session.in.open() ? session.in.wanted() : none);
      wanted.push_back(session.out.open() ? session.out.wanted() : none);
      wanted.push_back({session.socket.valid() ? session.socket.get() : -1, 0, 0});  // that the peer is gone comes unasked
      if (session.deadline != 0 && (next == 0 || session.deadline < next)) next = session.deadline;
    }
    int timeout = -1;
    if (next != 0) {
      const uint64_t now = sys::monotonic_ns();
      timeout = next <= now ? 0 : static_cast<int>(std::min<uint64_t>((next - now + 999'999) / 1'000'000, 3'600'000));
    }
    if (::poll(wanted.data(), wanted.size(), timeout) < 0) return;  // a signal that is none of ours
    size_t at = listener == nullptr ? 1 : 2;
    for (auto session = sessions_.begin(); session != sessions_.end();) {
      const bool over = step(*session, &wanted[at]);
      at += 4;
      session = over ? sessions_.erase(session) : std::next(session);
    }
    if (wanted[0].revents != 0) take_signal();
    if (listener != nullptr && wanted[1].revents != 0 && stopped_ == 0) take_connection(*listener);
  }

  // True when the session is over.
  bool step(Session& session, const pollfd* events) {
    if (session.alive && events[0].revents != 0) reap(session);
    if (session.in.open() && events[1].revents != 0) {
      bool broken = false;
      // The peer has said all: so has the program's stdin. It may answer still.
      if (!session.in.move(broken)) session.to_program.reset();
    }
    if (session.out.open() && (events[2].revents != 0 || !session.alive)) {
      bool broken = false;
      session.out.move(broken);
      if (broken) kill(session, "the connection is gone");
      // Held open by a process that outlives the program: nothing more is waited for.
      if (!session.alive && session.out.open() && !session.out.waits_for_room()) session.out.close();
    }
    if ((events[3].revents & (POLLERR | POLLHUP)) != 0) {
      session.in.close();
      session.out.close();
      kill(session, "the connection is gone");
    }
    if (session.deadline != 0 && sys::monotonic_ns() >= session.deadline) {
      if (!session.alive) return true;
      if (!session.told) {
        const uint64_t seconds = (sys::monotonic_ns() - session.began) / kSecond;
        log_.info(name(session) + " run time >= time limit (" + std::to_string(seconds) + " >= " + std::to_string(config_.time_limit) + ") (" +
                  session.peer + "). Killing it");
        session.told = true;
      }
      session.running.send_signal(SIGKILL);
      session.deadline = sys::monotonic_ns() + kSecond;
    }
    return !session.alive && !session.out.open();
  }

  static std::string name(const Session& session) { return "pid=" + std::to_string(session.running.pid()); }

  void kill(Session& session, const char* why) {
    if (!session.alive) return;
    log_.debug(name(session) + ": " + why);
    session.running.send_signal(SIGKILL);
  }

  void reap(Session& session) {
    const Ending ending = session.running.wait();
    session.alive = false;
    last_status_ = ending.status;
    const auto left = std::count_if(sessions_.begin(), sessions_.end(), [](const Session& other) { return other.alive; });
    const std::string tail = ", (PIDs left: " + std::to_string(left) + ")";
    if (ending.signal == 0) {
      log_.info(name(session) + " (" + session.peer + ") exited with status: " + std::to_string(ending.status) + tail);
    } else {
      if (ending.signal == SIGSYS) {
        log_.warning(name(session) + " committed a syscall/seccomp violation and exited with SIGSYS: 'journalctl -k' or 'dmesg' names the call where the kernel audits");
      }
      log_.info(name(session) + " (" + session.peer + ") terminated with signal: " + signal_name(ending.signal) + " (" + std::to_string(ending.signal) + ")" + tail);
    }
    session.in.close();
    session.to_program.reset();
    if (session.out.open()) session.deadline = sys::monotonic_ns() + kLinger;
  }

  void take_signal() {
    signalfd_siginfo info{};
    const Result<size_t> got = sys::read(signals_.get(), &info, sizeof info);
    if (!got.ok() || got.value() != sizeof info) return;
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGQUIT || signal == SIGUSR1) return show();
    log_.info("Server stops due to fatal signal (" + std::to_string(signal) + ") caught. Exiting");
    stopped_ = signal;
  }

  void show() const {
    log_.info("Total number of spawned namespaces: " + std::to_string(sessions_.size()));
    for (const Session& session : sessions_) {
      const uint64_t ran = (sys::monotonic_ns() - session.began) / kSecond;
      const std::string left = config_.time_limit == 0 ? "unlimited" : std::to_string(config_.time_limit - std::min<uint64_t>(ran, config_.time_limit));
      log_.info(name(session) + ", Remote host: " + session.peer + ", Run time: " + std::to_string(ran) + " sec. (time left: " + left + " s.)");
    }
  }

  // With forward_signals the program decides what a signal means, and is waited for.
  void end_all() {
    for (Session& session : sessions_) {
      if (session.alive) session.running.send_signal(config_.forward_signals && stopped_ != 0 ? stopped_ : SIGKILL);
    }
    for (Session& session : sessions_) {
      if (!session.alive) continue;
      while (config_.forward_signals) {
        pollfd wanted[2] = {{session.running.pidfd(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
        int timeout = -1;
        if (session.deadline != 0) {
          const uint64_t now = sys::monotonic_ns();
          timeout = session.deadline <= now ? 0 : static_cast<int>(std::min<uint64_t>((session.deadline - now) / 1'000'000 + 1, 3'600'000));
        }
        const int ready = ::poll(wanted, 2, timeout);
        if (ready > 0 && wanted[0].revents != 0) break;
        if (ready == 0) {
          session.running.send_signal(SIGKILL);
          break;
        }
        if (ready > 0 && wanted[1].revents != 0) {
          signalfd_siginfo info{};
          const Result<size_t> got = sys::read(signals_.get(), &info, sizeof info);
          if (got.ok() && got.value() == sizeof info) session.running.send_signal(static_cast<int>(info.ssi_signo));
        }
      }
      reap(session);
    }
    sessions_.clear();
  }

  void take_connection(const Listener& listener) {
    Result<Peer> accepted = accept_from(listener);
    if (!accepted.ok()) return log_.error(accepted.error());
    Peer peer = accepted.take();
    if (!peer.socket.valid()) return;
    const size_t same = static_cast<size_t>(std::count_if(sessions_.begin(), sessions_.end(), [&](const Session& other) { return other.ip == peer.ip; }));
    if (config_.max_conns != 0 && sessions_.size() >= config_.max_conns) {
      return log_.warning("Rejecting connection from '" + peer.text + "', max_conns limit reached: " + std::to_string(config_.max_conns));
    }
    if (config_.max_conns_per_ip != 0 && same >= config_.max_conns_per_ip) {
      return log_.warning("Rejecting connection from '" + peer.text + "', max_conns_per_ip limit reached: " + std::to_string(config_.max_conns_per_ip));
    }
    Result<sys::Pipe> in = sys::pipe(), out = sys::pipe();
    if (!in.ok() || !out.ok()) return log_.error(in.ok() ? out.error() : in.error());
    const Streams streams{{in.value().read.get(), out.value().write.get(), out.value().write.get()}};
    if (!begin(streams, &peer)) return;
    Session& session = sessions_.back();
    session.to_program = std::move(in.value().write);
    session.from_program = std::move(out.value().read);
    // Ours only: the program's ends are other descriptions, and stay as programs expect them.
    (void)sys::set_nonblocking(session.to_program.get());
    (void)sys::set_nonblocking(session.from_program.get());
    session.in = Flow(session.socket.get(), session.to_program.get());
    session.out = Flow(session.from_program.get(), session.socket.get());
  }

  Jail& jail_;
  const Config& config_;
  const Log& log_;
  runtime::CgroupParent* cgroups_;
  UniqueFd signals_;
  std::list<Session> sessions_;
  int last_status_ = kFailure;
  int stopped_ = 0;
};

const char* yes_no(bool yes) { return yes ? "true" : "false"; }

void describe(const CommandLine& line, const Jail& jail, const Log& log) {
  const Config& config = line.config;
  static constexpr const char* kModes[] = {"LISTEN_TCP", "STANDALONE_ONCE", "STANDALONE_RERUN", "STANDALONE_EXECVE"};
  log.info(std::string("Mode: ") + kModes[static_cast<size_t>(config.mode)]);
  log.info("Jail parameters: hostname:'" + config.hostname + "', chroot:'" + line.chroot + "', process:'" + jail.exec_path + "', bind:[" + config.bindhost +
           "]:" + std::to_string(config.port) + ", max_conns:" + std::to_string(config.max_conns) + ", max_conns_per_ip:" +
           std::to_string(config.max_conns_per_ip) + ", time_limit:" + std::to_string(config.time_limit) + ", daemonize:" + yes_no(config.daemon) +
           ", clone_newnet:" + yes_no(config.clone_newnet) + ", clone_newuser:" + yes_no(config.clone_newuser) + ", clone_newns:" +
           yes_no(config.clone_newns) + ", clone_newpid:" + yes_no(config.clone_newpid) + ", clone_newipc:" + yes_no(config.clone_newipc) +
           ", clone_newuts:" + yes_no(config.clone_newuts) + ", clone_newcgroup:" + yes_no(config.clone_newcgroup) + ", keep_caps:" +
           yes_no(config.keep_caps) + ", disable_no_new_privs:" + yes_no(config.disable_no_new_privs) + ", max_cpus:" + std::to_string(config.max_cpus));
  for (const std::string& mount : jail.described_mounts) log.info(mount);
  const auto map = [&](const char* kind, const char* letter, const std::vector<IdRange>& ranges) {
    for (const IdRange& range : ranges) {
      log.info(std::string(kind) + " map: inside_" + letter + ":" + std::to_string(range.inside) + " outside_" + letter + ":" +
               std::to_string(range.outside) + " count:" + std::to_string(range.count) + " new" + letter + "map:" + yes_no(range.helper));
    }
  };
  map("Uid", "uid", jail.uids);
  map("Gid", "gid", jail.gids);
  for (const std::string& note : jail.notes) log.info(note);
  for (const std::string& warning : jail.warnings) log.warning(warning);
}

Result<UniqueFd> take_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGUSR1}) ::sigaddset(&wanted, signal);
  sigset_t blocked = wanted;
  ::sigaddset(&blocked, SIGTTOU);  // the terminal is put right from the background, too
  if (::sigprocmask(SIG_BLOCK, &blocked, nullptr) != 0) return Error::from_errno(errno, "block signals");
  UniqueFd fd(::signalfd(-1, &wanted, SFD_CLOEXEC));
  if (!fd.valid()) return Error::from_errno(errno, "make a signal descriptor");
  return fd;
}

Result<int> prepare_and_run(const CommandLine& line, const Log& log) {
  const Caller caller = SBX_TRY(Caller::now());
  const std::unique_ptr<Jail> jail = SBX_TRY(Jail::build(line, caller));
  describe(line, *jail, log);
  if (line.config.mode == Mode::execve) {
    if (jail->cgroup) {
      return Error(ErrorKind::unsupported, "mode EXECVE has no supervisor that could hold a cgroup's limits").with_origin(jail->cgroup_origin);
    }
    if (line.config.time_limit != 0 && line.config.origins.has("time_limit")) log.info("time_limit is not held in mode EXECVE");
    log.info("Executing '" + jail->exec_path + "' for '[STANDALONE MODE]'");
    return become(*jail, Streams{}, log);
  }
  std::optional<runtime::CgroupParent> cgroups = SBX_TRY(find_cgroup(*jail, caller));
  const Terminal terminal;
  Supervisor supervisor(*jail, line.config, log, cgroups ? &*cgroups : nullptr, SBX_TRY(take_signals()));
  return line.config.mode == Mode::listen ? supervisor.serve() : supervisor.standalone();
}

}  // namespace

int run(const std::vector<std::string>& words, const std::string& program) {
  Log log;
  Result<CommandLine> parsed = parse_command_line(words, read_config);
  if (!parsed.ok()) {
    log.error(parsed.error(), LogLevel::fatal);
    return kFailure;
  }
  const CommandLine line = parsed.take();
  if (line.help) return sys::write_all(STDOUT_FILENO, usage_text(program)).ok() ? 0 : kFailure;
  log.configure(line.config);
  if (line.config.daemon && ::daemon(1, 0) != 0) {
    log.error(Error::from_errno(errno, "go to the background"), LogLevel::fatal);
    return kFailure;
  }
  Result<int> status = prepare_and_run(line, log);
  if (status.ok()) return status.value();
  log.error(status.error(), LogLevel::fatal);
  return kFailure;
}

}  // namespace sbx::nsjail
