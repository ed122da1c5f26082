#!/bin/sh
# runc, with the limits of one step: no raw sockets, so much memory, so many processes and processors are written
# into what it is to run, and a watch ends a step that writes too much. A step without its limits does not run.
set -eu
count_seconds=10
bundle='' next=''
for word; do
  case $next in --bundle | -b) bundle=$word ;; esac
  next=$word
done

processes() {
  cat "/sys/fs/cgroup$group/cgroup.procs" "/sys/fs/cgroup/pids$group/cgroup.procs"
}

end_step() {
  echo "This step was ended: it has written more than the $1 that a step may" > "/proc/$step/fd/2"
  processes | xargs kill -KILL
}

# Sets the KiB and number of files that only the step's processes know: they hold them open without a name.
count_nameless() {
  devices=$(stat -c %d "$bundle/rootfs" "$SLUICE_STATE" | tr '\n' ' ')
  # shellcheck disable=SC2046
  set -- $(processes | "${0%/*}/nameless.sh" "$devices" "$count_seconds")
  nameless_kib=$1 nameless_files=$2
}

# Sets the free KiB and the free and whole number of files of the state.
look() {
  # shellcheck disable=SC2046
  set -- $(stat -f -c '%f %S %d %c' "$SLUICE_STATE")
  kib=$(($1 * $2 / 1024)) files=$3 all_files=$4
}

# The disk has no quota for each step. What all have written since this one began is cheap to ask; only when that is
# more than one may write, the files of this one are measured.
watch() {
  step=$1
  group=$(sed -n 's/.*"cgroupsPath":"\([^"]*\)".*/\1/p' "$config")
  upper=$(sed -n "s#.* $bundle/rootfs .*[,]upperdir=\([^,]*\).*#\1#p" /proc/self/mountinfo)
  mounts=$(tr ',' '\n' < "$config" | sed -n "s#^\"source\":\"\($SLUICE_STATE/[^\"]*\)\".*#\1#p" | grep -v "^$bundle" || true)
  IFS='
 '
  look
  first_kib=$kib first_files=$files most_files=$((all_files / 4))
  next=$SLUICE_STEP_DISK next_files=$most_files rounds=0
  while sleep 0.5 && kill -0 "$step"; do
    look
    rounds=$((rounds + 1)) grown=$((first_kib - kib)) grown_files=$((first_files - files))
    # What was measured once is measured again after some growth, or after half a minute.
    [ $rounds -lt 60 ] || { rounds=0 next=$SLUICE_STEP_DISK next_files=$most_files; }
    if [ $grown -gt "$next" ]; then
      next=$((grown + SLUICE_STEP_DISK / 8))
      count_nameless
      # shellcheck disable=SC2086
      [ $(($(du -skc $upper $mounts | tail -n 1 | cut -f 1) + nameless_kib)) -le "$SLUICE_STEP_DISK" ] ||
        end_step "$((SLUICE_STEP_DISK / 1024)) MiB"
    fi
    if [ $grown_files -gt "$next_files" ]; then
      next_files=$((grown_files + most_files / 8))
      count_nameless
      # shellcheck disable=SC2086
      [ $(($(find $upper $mounts -xdev | wc -l) + nameless_files)) -le "$most_files" ] || end_step "$most_files files"
    fi
  done
}

if [ -n "$bundle" ]; then
  config=$bundle/config.json
  # Within JSON strings each of these quotes has a backslash before it: only members of the document match.
  sed -i \
    -e 's/"CAP_NET_RAW",//g; s/,"CAP_NET_RAW"//g' \
    -e "s/\"resources\":{/&$SLUICE_STEP_LIMITS,/" "$config"
  if grep -q '[^\\]"CAP_NET_RAW"' "$config" || ! grep -qF "$SLUICE_STEP_LIMITS" "$config"; then
    echo 'the limits of the step cannot be set' >&2
    exit 1
  fi
  # Without the step's output, whose end is waited for.
  watch $$ < /dev/null > /dev/null 2>&1 &
fi
exec "$SLUICE_RUNC" "$@"
