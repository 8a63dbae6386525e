// What the shells load. All that is said about sbx comes from `sbx __complete` at the time of completion, so that a
// script never knows other options than the program. It is the sbx of PATH that is asked, never one that is merely
// being typed (./sbx in a checkout): completing a line must not run a stranger's program.
#include <string>

#include "cli/complete.h"

namespace sbx::cli {
namespace {

constexpr char kBash[] = R"sh(# bash completion for sbx
_sbx() {
  # The words as they will be: bash splits them at = and : as well, where COMP_WORDBREAKS has these.
  local -a words=()
  local rest=$COMP_LINE word line item i
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((i > 0)) && [[ $rest != [[:space:]]* ]]; then
      words[${#words[@]} - 1]+=$word
    else
      words+=("$word")
    fi
    rest=${rest#"${rest%%[![:space:]]*}"}
    rest=${rest#"$word"}
  done
  local current=${words[${#words[@]} - 1]}
  # What bash itself leaves in place before what it completes.
  local kept=""
  [[ $current == *[=:]* ]] && kept=${current%"${current##*[=:]}"}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files)
        compopt -o filenames 2>/dev/null
        while IFS= read -r item; do COMPREPLY+=("$item"); done < <(compgen -f -- "${current#"$kept"}") ;;
      :directories)
        compopt -o filenames 2>/dev/null
        while IFS= read -r item; do COMPREPLY+=("$item"); done < <(compgen -d -- "${current#"$kept"}") ;;
      :commands)
        while IFS= read -r item; do COMPREPLY+=("$item"); done < <(compgen -c -- "${current#"$kept"}") ;;
      *)
        item=${line%%$'\t'*}
        COMPREPLY+=("${item#"$kept"}") ;;
    esac
  done < <(command sbx __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _sbx sbx
)sh";

constexpr char kZsh[] = R"sh(#compdef sbx
# zsh completion for sbx
_sbx() {
  local line
  local -a items
  local files=0 directories=0 commands=0
  for line in "${(@f)$(command sbx __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    case $line in
      '') ;;
      :files) files=1 ;;
      :directories) directories=1 ;;
      :commands) commands=1 ;;
      *$'\t'*) items+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}") ;;
      *) items+=("${line//:/\\:}") ;;
    esac
  done
  (( $#items )) && _describe -V sbx items
  # --option=FILE
  (( files || directories )) && [[ $PREFIX == --*=* ]] && compset -P 1 '*='
  (( commands )) && _command_names -e
  (( files )) && _files
  (( directories )) && _files -/
}
if [[ $funcstack[1] == _sbx ]]; then _sbx "$@"; else compdef _sbx sbx; fi
)sh";

constexpr char kFish[] = R"sh(# fish completion for sbx
function __sbx_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (commandline -ct)
    for line in (command sbx __complete $words "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path $current
            case :directories
                __fish_complete_directories $current
            case :commands
                __fish_complete_subcommand
            case '*'
                echo $line
        end
    end
end
complete -c sbx -f -a '(__sbx_complete)'
)sh";

}  // namespace

const char* completion_script(const std::string& shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  return nullptr;
}

}  // namespace sbx::cli
