#include "runtime/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/sys.h"
#include "base/text.h"

namespace sbx::runtime {
namespace {

constexpr size_t kHeadSize = 512;

Error open_error(const std::string& path, const Error& cause, const std::string& flag) {
  const std::string name = "'" + printable(path) + "'";
  switch (cause.errnum()) {
    case ENOENT:
      return Error(ErrorKind::usage, "no such file: " + name)
          .with_hint(flag.empty() ? "to run text rather than a file, use -c 'CODE' or pipe it on stdin"
                                  : flag + " takes SRC[:NAME], SRC being a file of this host");
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return Error(ErrorKind::usage, "cannot open " + name + ": " + errno_text(cause.errnum()))
          .with_hint("check the path");
    case EACCES:
    case EPERM:
      return Error(ErrorKind::usage, "no permission to read " + name)
          .with_hint("make it readable for you: chmod u+r " + shell_quote(path));
    case ENXIO:  // a socket, or a FIFO that nobody writes to
      return Error(ErrorKind::usage, name + " is not a regular file").with_hint("copy its content to a file first");
    default: return Error(kind_of_bad_path(cause.errnum()), "cannot open " + name + ": " + errno_text(cause.errnum()));
  }
}

Result<UniqueFd> memory_file(const std::string& bytes) {
  Result<UniqueFd> fd = sys::memfd_create("sbx-program");
  // Inside a sandbox that no cgroup holds the filter says so; /tmp is memory there.
  if (!fd.ok() && fd.error().errnum() == ENOSYS) fd = sys::open("/tmp", O_TMPFILE | O_RDWR, 0600);
  if (!fd.ok()) return fd;
  SBX_TRY(sys::write_all(fd.value().get(), bytes));
  return fd;
}

Result<Program> from_bytes(std::string bytes) {
  Program program;
  program.size = bytes.size();
  program.head = bytes.substr(0, kHeadSize);
  program.content = SBX_TRY(memory_file(bytes));
  return program;
}

Result<std::string> read_bounded(int fd, const std::string& what) {
  Result<std::string> bytes = sys::read_all(fd, kProgramLimit);
  if (bytes.ok()) return bytes;
  if (bytes.error().errnum() == 0) {
    return Error(ErrorKind::usage, what + " is larger than a program may be (" + format_size(Bytes{kProgramLimit}) + ")")
        .with_hint("share data with --file, --mount or --workspace instead");
  }
  if (bytes.error().errnum() == EISDIR) {
    return Error(ErrorKind::usage, what + " is a directory")
        .with_hint("name a file; to share a directory, add --workspace DIR");
  }
  const int errnum = bytes.error().errnum();
  return Error(kind_of_bad_path(errnum), "cannot read " + what + ": " + errno_text(errnum));
}

Result<Program> from_file(const std::string& path) {
  const std::string name = "'" + printable(path) + "'";
  if (path.empty()) return Error(ErrorKind::usage, "FILE is an empty word").with_hint("a variable that is not set?");
  // O_NONBLOCK: opening a FIFO without a writer or a modem line must not hang.
  Result<UniqueFd> opened = sys::open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
  if (!opened.ok()) return open_error(path, opened.error(), "");
  const UniqueFd fd = opened.take();
  const struct stat info = SBX_TRY(sys::fstat(fd.get()));
  if (S_ISDIR(info.st_mode)) {
    return Error(ErrorKind::usage, name + " is a directory")
        .with_hint("name the file to run in it: sbx run --workspace " + shell_quote(path) + " " +
                   shell_quote(join_path(path, "FILE")));
  }
  if (!S_ISREG(info.st_mode) && !S_ISFIFO(info.st_mode)) {
    return Error(ErrorKind::usage, name + " is a device or socket, not a program")
        .with_hint("to read the program from stdin, use - as FILE");
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return Error::from_errno(errno, "clear O_NONBLOCK");
  }
  if (S_ISREG(info.st_mode) && static_cast<uint64_t>(info.st_size) > kProgramLimit) {
    return Error(ErrorKind::usage,
                 name + " is larger than a program may be (" + format_size(Bytes{kProgramLimit}) + ")")
        .with_hint("share data with --file, --mount or --workspace instead");
  }
  std::string bytes = SBX_TRY(read_bounded(fd.get(), name));
  if (starts_with(bytes, "\x7f" "ELF")) {
    const std::string inside = "./" + base_name(path);
    return Error(ErrorKind::usage, name + " is a compiled program (ELF), not source code")
        .with_hint("run it with: sbx exec --file " + shell_quote(path) + " -- " + shell_quote(inside));
  }
  Program program = SBX_TRY(from_bytes(std::move(bytes)));
  if (S_ISREG(info.st_mode)) {
    program.name = base_name(path);
    program.executable = (info.st_mode & S_IXUSR) != 0;
    program.host_path = path[0] == '/' ? path : join_path(SBX_TRY(sys::getcwd()), path);
  }
  return program;
}

Result<Program> from_stdin() {
  std::string bytes = SBX_TRY(read_bounded(STDIN_FILENO, "stdin"));
  if (bytes.empty()) {
    return Error(ErrorKind::usage, "no program: stdin is empty")
        .with_hint("name a FILE, give -c 'CODE', or pipe code on stdin; sbx run --help has examples");
  }
  if (starts_with(bytes, "\x7f" "ELF")) {
    return Error(ErrorKind::usage, "stdin holds a compiled program (ELF), not source code")
        .with_hint("save it as a file PROG and run it with: sbx exec --file PROG -- ./PROG");
  }
  return from_bytes(std::move(bytes));
}

}  // namespace

Result<Program> read_program(const ProgramSource& source) {
  switch (source.kind) {
    case ProgramSource::Kind::file: return from_file(source.value);
    case ProgramSource::Kind::text: return from_bytes(source.value);
    case ProgramSource::Kind::standard_input: return from_stdin();
  }
  return Error(ErrorKind::internal, "unknown kind of program");
}

Result<std::string> program_text(const Program& program) {
  std::string text(program.size, '\0');
  size_t at = 0;
  while (at < text.size()) {
    const ssize_t got = ::pread(program.content.get(), text.data() + at, text.size() - at, static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return Error::from_errno(got < 0 ? errno : EIO, "read the program");
    at += static_cast<size_t>(got);
  }
  return text;
}

Status put_prefix(Program& program, const std::string& prefix, const std::string& unless) {
  if (prefix.empty()) return {};
  std::string text = SBX_TRY(program_text(program));
  if (!unless.empty() && text.find(unless) != std::string::npos) return {};
  Program changed = SBX_TRY(from_bytes(prefix + text));
  program.content = std::move(changed.content);
  program.size = changed.size;
  program.head = std::move(changed.head);
  return {};
}

Result<ExtraFile> open_extra_file(const FileArgument& argument) {
  const std::string name = "'" + printable(argument.source) + "'";
  Result<UniqueFd> opened = sys::open(argument.source, O_RDONLY | O_NOCTTY | O_NONBLOCK);
  if (!opened.ok()) return open_error(argument.source, opened.error(), "--file").with_origin("flag --file");
  ExtraFile file;
  file.content = opened.take();
  const struct stat info = SBX_TRY(sys::fstat(file.content.get()));
  if (S_ISDIR(info.st_mode)) {
    return Error(ErrorKind::usage, name + " is a directory")
        .with_origin("flag --file")
        .with_hint("share a directory with --mount " + shell_quote(argument.source) + " or --workspace " +
                   shell_quote(argument.source));
  }
  if (!S_ISREG(info.st_mode)) {
    return Error(ErrorKind::usage, name + " is not a regular file")
        .with_origin("flag --file")
        .with_hint("copy its content to a file first");
  }
  file.size = static_cast<uint64_t>(info.st_size);
  file.executable = (info.st_mode & S_IXUSR) != 0;
  return file;
}

Status check_file_name(const FileArgument& argument) {
  const std::string& name = argument.name;
  std::string reason;
  if (name.empty() || name.back() == '/') reason = "is not a file name";
  else if (name[0] == '/') reason = "is absolute; it is taken from the working directory of the program";
  else if (name.size() > 1024) reason = "is too long";
  else {
    for (const std::string& part : split(name, '/')) {
      if (part.empty() || part == "." || part == "..") reason = "has an empty part, '.' or '..'";
      if (part.size() > 255) reason = "has a part longer than 255 bytes";
    }
  }
  if (reason.empty()) return {};
  return Error(ErrorKind::usage, "the name '" + printable(name) + "' " + reason)
      .with_origin("flag --file")
      .with_hint("--file SRC:NAME puts SRC at NAME, for instance --file " + shell_quote(argument.source) + ":data/input.txt");
}

std::string language_first_hint(const std::string& language, std::span<const std::string> arguments) {
  const bool code = arguments.size() > 1 && arguments[0] == "-c";
  // The interpreter's own options: `python -m pytest` is no FILE with arguments.
  const bool own_options = !code && !arguments.empty() && arguments[0].size() > 1 && arguments[0][0] == '-';
  std::string line = own_options ? "a command with options of its own: sbx exec --workspace . -- " : "the language is an option: sbx run --lang ";
  line += shell_quote(language);
  for (size_t i = 0; i < arguments.size(); ++i) line += (code && i == 2 ? " -- " : " ") + shell_quote(arguments[i]);
  return line;
}

}  // namespace sbx::runtime
