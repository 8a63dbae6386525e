#!/usr/bin/env bash
# Fills {{name}} in a template from NAME=VALUE arguments; regular expressions, arrays and printf.
declare -A values
for argument in "$@"; do
  if [[ $argument =~ ^([A-Za-z_]+)=(.*)$ ]]; then
    values[${BASH_REMATCH[1]}]=${BASH_REMATCH[2]}
  else
    echo "not NAME=VALUE: $argument" >&2
    exit 2
  fi
done
missing=()
while IFS= read -r line || [[ -n $line ]]; do
  filled=
  while [[ $line =~ ^([^{]*)\{\{\ *([A-Za-z_]+)\ *(\|\ *upper\ *)?\}\}(.*)$ ]]; do
    before=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]} filter=${BASH_REMATCH[3]} line=${BASH_REMATCH[4]}
    if [[ -v values[$name] ]]; then
      value=${values[$name]}
      [[ -n $filter ]] && value=${value^^}
    else
      value="<$name?>"
      missing+=("$name")
    fi
    filled+=$before$value
  done
  printf '%s%s\n' "$filled" "$line"
done
((${#missing[@]} == 0)) || printf 'missing: %s\n' "$(IFS=,; echo "${missing[*]}")"
