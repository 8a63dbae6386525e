# The bash of a session (docs/session-protocol.md):    bash --norc --noprofile bash_driver.sh N
#
# Cells run by eval, outside of every function, so that what they declare is there for the next one; by -c and all of it on one
# line, so that the line numbers in messages are the cell's. Between cells descriptor 0 is the channel. For a cell a redirection
# puts stdin there: bash then keeps the original under the lowest free number from 10 on, close-on-exec, which it does for
# 0, 1 and 2 only. `exit`, `set -e` and an interrupt end the process; its last act is to go on in a child, which has all of the state and
# tells the end of the cell. It then waits, because the sandbox's init, which is told of the child, looks after it when we are gone: init ends us.
# Our names begin with __sbx_; `trap` is ours too, for EXIT. Bash 4.4 and later.

if [[ ${1-} == +([0-9]) ]]; then
  exec "$BASH" --norc --noprofile -c '. "$1"; shift; eval "$__sbx_loop"' cell "${BASH_SOURCE[0]}" <&"$1"-
fi

__sbx_loop='while __sbx_next; do { __sbx_status "$__sbx_last"; eval "$__sbx_before$__sbx_code"; } <"$__sbx_stdin" >&"$__sbx_1" 2>&"$__sbx_2"; { __sbx_end ok "$?"; } >/dev/null 2>&1; done; __sbx_broken && eval "$__sbx_loop"; __sbx_bye'
# The end of the process, while the state lives. Not that of a child, which bash lets have our trap here and there.
__sbx_exit='__sbx_last=$?; [[ $BASHPID == "$__sbx_pid" ]] || builtin exit "$__sbx_last"; { __sbx_end exit "$__sbx_last"; } >/dev/null 2>&1; exec >&"$__sbx_1" 2>&"$__sbx_2"; (eval "$__sbx_again"; __sbx_start; { __sbx_done ",\"pid\":$BASHPID"; } >/dev/null 2>&1; eval "$__sbx_loop"); builtin exit 0'

# One frame into the variable $1; false: the stream has ended.
__sbx_read() {
  local LC_ALL=C IFS= head
  builtin read -r -N 8 head || builtin return 1
  case $head in (*[!0-9a-f]*) __sbx_break ;; esac
  [[ 16#$head -le 16777216 ]] || __sbx_break
  builtin printf -v "$1" %s ''
  [[ 16#$head -eq 0 ]] || builtin read -r -N "$((16#$head))" "$1" || __sbx_break
}

__sbx_write() {
  local LC_ALL=C
  builtin printf '%08x%s' "${#1}" "$1" >&0
}

__sbx_break() {
  builtin trap - EXIT
  builtin exit 70
}

# The value of a text in the JSON object $1; empty: there is none.
__sbx_text() {
  local value=${1#*"\"$2\":"}
  [[ $value != "$1" ]] || value=
  value=${value# }
  value=${value#\"}
  __sbx_value=${value%%[\",\}]*}
}

# A cell has said `break`, to our loop.
__sbx_broken() { [[ $__sbx_token ]]; }

# Waits for a cell; false: there will be none.
__sbx_next() {
  local request
  [[ -z $__sbx_token ]] || __sbx_end ok 0 >/dev/null 2>&1  # it has said `break` or `continue`
  while __sbx_read request; do
    __sbx_text "$request" type
    case $__sbx_value in
      execute) ;;
      shutdown) builtin return 1 ;;
      *) __sbx_write '{"type":"refused","reason":"a request of an unknown type"}'; builtin continue ;;
    esac
    __sbx_read __sbx_code || __sbx_break
    __sbx_text "$request" cell
    __sbx_cell=$__sbx_value
    __sbx_text "$request" token
    __sbx_token=$__sbx_value
    __sbx_text "$request" stdin
    __sbx_stdin=${__sbx_value:-/dev/null}
    if [[ $__sbx_cell != +([0-9]) || $__sbx_token != +([0-9a-f]) ]]; then
      __sbx_write '{"type":"refused","reason":"a request that makes no sense"}'
      builtin continue
    fi
    __sbx_count=$((__sbx_count + 1))
    BASH_ARGV0="cell $__sbx_count"
    # The number under which bash will keep the channel.
    exec {__sbx_0}</dev/null
    exec {__sbx_0}<&-
    __sbx_interrupted=
    builtin trap 'builtin trap "" INT; __sbx_interrupted=1; builtin exit 130' INT
    builtin return 0
  done
  builtin return 1
}

__sbx_end() {
  # What would print our own commands; it is back when the next cell begins.
  __sbx_before= __sbx_flags=$-
  builtin set +xv
  __sbx_debug=
  # Asking for it costs a process, which there may not be.
  [[ $__sbx_code != *[Dd][Ee][Bb][Uu][Gg]* ]] || __sbx_debugged=1
  if [[ $__sbx_debugged ]]; then
    __sbx_debug=$(builtin trap -p DEBUG)
    builtin trap - DEBUG
  fi
  builtin trap '' INT
  [[ $__sbx_flags != *v* ]] || __sbx_before+='set -v; '
  [[ -z $__sbx_debug ]] || __sbx_before+="$__sbx_debug; "
  [[ $__sbx_flags != *x* ]] || __sbx_before+='set -x; '
  __sbx_last=$2
  [[ $__sbx_flags != *e* ]] || __sbx_last=0
  local status=$1
  if [[ $1 == exit ]]; then
    # Some ways out of a cell have undone its redirections.
    [[ -S /dev/fd/0 ]] || exec <&"$__sbx_0" {__sbx_0}<&-
    __sbx_again=$(builtin trap -p)
  elif (($2 != 0)); then
    status=error
  fi
  [[ -z $__sbx_interrupted ]] || status=interrupted
  __sbx_ended="{\"type\":\"done\",\"cell\":$__sbx_cell,\"token\":\"$__sbx_token\",\"seq\":1,\"status\":\"$status\",\"exit_code\":$(($2 & 255)),\"execution_count\":$__sbx_count,\"dropped\":0"
  [[ $1 == exit ]] || __sbx_done
  __sbx_token=
}

__sbx_done() { __sbx_write "$__sbx_ended${1-}}"; }

__sbx_status() { builtin return "$1"; }

__sbx_start() {
  __sbx_pid=$BASHPID
  builtin trap "$__sbx_exit" EXIT
  builtin trap '' INT
}

# The end of the session: as at the end of a script.
__sbx_bye() {
  builtin trap - EXIT INT
  builtin eval "$__sbx_user_exit" </dev/null
  builtin exit 0
}

# What a cell says shall be done at the exit is done at the end of the session, not of the cell.
trap() {
  local arguments=("$@") action rest=() signal mine=
  [[ ${1-} != -- ]] || arguments=("${@:2}")
  if [[ $BASHPID != "$__sbx_pid" || ${1-} == -[lp] || ${#arguments[@]} -lt 2 ]]; then
    builtin trap "$@"
    builtin return
  fi
  action=${arguments[0]}
  for signal in "${arguments[@]:1}"; do
    case $signal in
      (EXIT | exit | 0) mine=1 ;;
      (*[Dd][Ee][Bb][Uu][Gg]) __sbx_debugged=1 rest+=("$signal") ;;
      (*) rest+=("$signal") ;;
    esac
  done
  if [[ $mine ]]; then
    __sbx_user_exit=$action
    [[ $action != - ]] || __sbx_user_exit=
  fi
  ((${#rest[@]} == 0)) || builtin trap -- "$action" "${rest[@]}"
}

readonly -f __sbx_broken __sbx_read __sbx_write __sbx_break __sbx_text __sbx_next __sbx_end __sbx_done __sbx_status __sbx_start __sbx_bye
__sbx_count=0 __sbx_last=0 __sbx_before= __sbx_user_exit= __sbx_interrupted= __sbx_token= __sbx_again= __sbx_ended= __sbx_debugged= __sbx_code=
# High, where there is room: cells may well use 10 and 11.
if [[ $(builtin ulimit -n) == unlimited || $(builtin ulimit -n) -gt 256 ]]; then
  __sbx_1=250 __sbx_2=251
  exec 250>&1 251>&2
else
  exec {__sbx_1}>&1 {__sbx_2}>&2
fi
builtin shopt -s expand_aliases
__sbx_start
__sbx_write "{\"type\":\"ready\",\"protocol\":1,\"language\":\"bash\",\"version\":\"${BASH_VERSINFO[0]}.${BASH_VERSINFO[1]}.${BASH_VERSINFO[2]}\",\"pid\":$BASHPID,\"features\":[\"execute\"],\"preloaded\":[],\"preload_failed\":{}}"
