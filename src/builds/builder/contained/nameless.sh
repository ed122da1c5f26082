#!/bin/sh
# Prints the KiB and the number of files that have no name any more and that processes hold open or mapped. Threads may
# have descriptors that their process does not have.
#
# usage: nameless.sh DEVICES SECONDS < PROCESSES
#   DEVICES  numbers of the file systems to count, after each a space
#   SECONDS  what cannot be counted in this time counts as more than a disk holds
#   PROCESSES  their ids, one a line
{
  # shellcheck disable=SC2016
  xargs -r timeout "$2" sh -c '
    for id; do
      echo /proc/$id/task/*/fd /proc/$id/map_files
    done | xargs -r sh -c '\''find "$@" -type l -exec stat -L -c "%h %d %i %b" {} + ; :'\'' sh' sh ||
    echo late
} 2> /dev/null | awk -v devices=" $1" '
  $1 == "late" { kib = files = 2 ^ 40 }
  # The files of a step and those mapped have different devices, but one number.
  $1 == "0" && index(devices, " " $2 " ") && !seen[$3]++ { kib += $4 / 2; files += 1 }
  END { printf "%d %d\n", kib, files }'
