// The supervisor of host.h, whole: one object, because everything in it meets in one loop. Its functions are in four files:
//
//   host.cc            its life, time and limits
//   host_programs.cc   programs: pipes, streams, ends; the driver and its frames
//   host_cells.cc      the life of a cell: turn, start, outputs, end, result
//   host_clients.cc    connections and requests
#pragma once

#include <sys/epoll.h>
#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "runtime/limit_watch.h"
#include "runtime/live_sandbox.h"
#include "session/deadlines.h"
#include "session/driver.h"
#include "session/host.h"
#include "session/job.h"

namespace sbx::session {

inline constexpr size_t kChunk = 65536;
inline constexpr size_t kHighWater = size_t{1} << 20;  // of what a client has not taken yet
inline constexpr size_t kTail = 4096;                  // of stderr, for the result
inline constexpr size_t kLogBytes = size_t{256} << 10;
inline constexpr int kMaxFailures = 3;                 // starts of a driver that came to nothing, in a row

// What an event of the loop is about, and which client or program.
enum Tag : uint64_t { kNews = 1, kEnd, kListener, kTimer, kSignals, kFrames, kClient, kOut, kErr, kInput, kDenials };
constexpr uint64_t tag(Tag kind, uint64_t id = 0) { return id << 8 | kind; }

int64_t clock_ms(clockid_t clock);
size_t bytes_in_pipe(int fd);
// Keeps at least the last `limit` bytes, at most twice as many.
void append_tail(std::string& tail, std::string_view bytes, size_t limit);

class Host {
 public:
  Host(runtime::SessionGround& ground, const HostFacts& facts, const SessionPlace& place, const HostOptions& options,
       const std::function<Status(const SessionRecord&)>& ready)
      : ground_(ground), facts_(facts), place_(place), options_(options), ready_callback_(ready), limits_(ground.spec().limits) {}

  Status run();

 private:
  // Life.
  Status begin();
  void become_ready();
  Status loop();
  void handle(uint64_t what, uint32_t events);
  void end_session(const std::string& why);
  // Everything inside dies with `live_`; then the places that the host trusts are looked after.
  void end();

  // Time.
  int64_t now_ms() const;
  bool is_busy() const;
  void arm_timer();
  int wait_ms() const;
  void check_times();
  void check_job(Job& job, int64_t now);

  // Limits, and ways to end.
  void look();
  void state_lost(const std::string& why);
  // All processes but init. What they were comes back as news, and then a new driver is started.
  void kill_everything();
  // Its whole process group; again and again, until the cell ends or its grace.
  void interrupt_driver(Job& job, int64_t now);
  // By the gentle way where there is one.
  void ask_to_end(Job& job, runtime::Verdict verdict);
  void interrupt(Job& job);

  // Programs.
  Program* find_program(uint64_t id);
  Status listen(int fd, uint64_t what, uint32_t events = EPOLLIN) const;
  void forget(int fd) const;
  // Starts it with pipes of its own. Borrowed: `stdin_fd`, and `socket`, which becomes its descriptor 3; -1: none.
  Result<uint64_t> start_program(const std::vector<std::string>& argv, const std::string& exec_path, const std::vector<std::string>& environment,
                                 int stdin_fd, int socket);
  void watch_output(uint64_t id, Program& program);
  void pump(uint64_t id, Program& program, int stream);
  // What is in the pipes by now, and not what a writer adds meanwhile.
  void drain(Program& program);
  size_t read_output(Program& program, int stream, size_t size);
  void deliver(Program& program, int stream, std::string_view bytes);
  void on_denials(uint64_t, Program& program);
  void take_news();
  void on_program_end(uint64_t id, int status);
  void collect_denials(Program& program);

  // The driver.
  Status start_driver();
  void restart_driver();
  // It could not be started, or ended before it was ready.
  void driver_failed(const std::string& why);
  void send_frames(std::string_view bytes);
  void flush_driver();
  void on_frames(uint32_t events);
  // At most `rounds` pieces: a flood of frames must not hold up timers.
  void read_frames(int rounds);
  void close_socket();
  // Nothing that it says can be believed any more.
  void broken(const std::string& why);
  void on_driver_end(int status);

  // Cells, and programs of `exec`.
  void on_frame(DriverFrame& frame);
  void note_clear(Job& job);
  void note_output(Job& job, DriverFrame& frame);
  void on_done(Job& job, const DriverFrame& frame);
  void next_cell();
  void begin_job(Job& job);
  Status start_cell(Job& job);
  Status start_step(Job& job);
  Job* find_job(uint64_t id);
  // Input of a cell or program, as its client has it: a piece is asked for when the last one is written.
  Result<Json> prepare_input(Job& job);
  void open_fifo(Job& job, int64_t now);
  void take_input(Job& job, UniqueFd input);
  void feed(Job& job);
  void end_input(Job& job);
  // Of what was written for it: what nobody has read.
  static std::string what_is_left(const Job& job);
  void start_exec(std::unique_ptr<Job> job);
  // It could not be run at all.
  void fail(Job& job, const Error& error);
  void fail_running(Job& job, const Error& error);
  void drop(Job& job);
  // The end of a cell or program: everything is told to whoever asked, and then it is forgotten.
  void finish(Job& job, runtime::Verdict verdict, int code, int signal, bool state_kept, const std::string& note);
  runtime::CgroupCounts counts() const;
  void fill_usage(const Job& job, runtime::Usage& usage) const;
  void list_changes(const Job& job, runtime::Report& report) const;
  void add_hints(runtime::Report& report, bool kept, std::string& lost);
  // The result of a run, and behind it what only cells have.
  std::string result_text(const Job& job, const runtime::Report& report, bool driven, bool state_kept, const std::string& lost) const;

  // Clients.
  Client* find_client(uint64_t id);
  void accept_client();
  void on_client(uint64_t id, uint32_t events);
  void watch_client(uint64_t id);
  // It went away: what it asked for is interrupted.
  void lose_client(uint64_t id);
  // True: it was waiting for its turn, and is gone.
  bool forget_queued(const Job& job);
  static bool send_some(Client& client);
  // Errors of sending show as a hang-up.
  void tell(uint64_t id, Kind kind, std::string_view body);
  void reply(uint64_t id, Json answer);
  void refuse(uint64_t id, const Error& error);
  // After the last message the client closes; we do when it does, or here.
  void close_finished();
  void on_message(uint64_t id, Client& client, Message& message);
  // What all jobs have.
  std::unique_ptr<Job> make_job(uint64_t client, const Json& request);
  void on_run(uint64_t id, Client& client, const Json& request, std::string code);
  void on_request(uint64_t id, Client& client, const Json& request);
  // From now on it is in use, by whoever was first.
  void adopt(uint64_t id, const Json& request);
  // The sandbox's root directory: who has it is the same user, and copies by its own hands.
  void send_root(uint64_t id, Client& client);
  Json describe();

  runtime::SessionGround& ground_;
  const HostFacts& facts_;
  const SessionPlace& place_;
  const HostOptions& options_;
  const std::function<Status(const SessionRecord&)>& ready_callback_;
  const Limits& limits_;

  UniqueFd epoll_, timer_, signals_;
  std::optional<SessionPlace::Entry> entry_;
  std::unique_ptr<runtime::LiveSandbox> live_;
  std::optional<runtime::LimitWatch> watch_;
  std::optional<Deadlines> deadlines_;
  std::optional<int64_t> next_look_ms_ = 0;
  int64_t last_cpu_us_ = 0;
  bool announced_ = false, over_ = false, emptying_ = false, restarting_ = false;
  std::string why_over_;
  std::optional<Error> start_error_;

  std::map<uint64_t, Client> clients_;
  std::map<uint64_t, Program> programs_;
  uint64_t last_client_ = 0, last_program_ = 0, last_job_ = 0;
  std::deque<std::unique_ptr<Job>> queue_;
  std::unique_ptr<Job> cell_;
  std::vector<std::unique_ptr<Job>> execs_;
  std::vector<uint64_t> stoppers_;
  std::vector<runtime::Denial> job_denied_;

  uint64_t driver_id_ = 0;   // 0: none runs
  pid_t driver_pid_ = 0;
  bool driver_ready_ = false, driver_writes_ = false;
  bool driver_receives_ = false;  // descriptors
  UniqueFd socket_;
  UniqueFd handed_;               // goes to the driver behind to_driver_
  FrameReader frames_;
  std::string to_driver_, driver_version_, broken_, lost_note_;
  std::optional<int64_t> driver_deadline_ms_;
  int failures_ = 0;

  std::string log_, last_verdict_;
  int64_t cells_ = 0, cells_done_ = 0, execution_count_ = 0;
};

}  // namespace sbx::session
