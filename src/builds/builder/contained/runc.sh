#!/bin/sh
# runc with the limits of a build. Steps run without raw sockets; the steps of one build share a control group, which
# limits memory, processes and processors; a watch ends a step when its build has written too much. A step without
# limits does not run.
#
# The number of a build is in /etc/hosts of its steps (src/builds/builder/build-host.ts): BuildKit leaves addresses of
# extra hosts out of its cache keys, but not control groups.
set -eu
count_seconds=10
bundle='' next=''
for word; do
  case $next in --bundle | -b) bundle=$word ;; esac
  next=$word
done

# Prints the processes of a control group and of those below it.
processes() {
  cat "/sys/fs/cgroup$1/cgroup.procs" "/sys/fs/cgroup$1"/*/cgroup.procs \
    "/sys/fs/cgroup/pids$1/cgroup.procs" "/sys/fs/cgroup/pids$1"/*/cgroup.procs
}

end_step() {
  echo "This step was ended: its build has written more than the $1 that a build may write" > "/proc/$step/fd/2"
  processes "$group" | xargs kill -KILL
}

# Sets the KiB and number of files that only processes of the build know: they hold them open without a name.
count_nameless() {
  devices=$(stat -c %d "$bundle/rootfs" "$SLUICE_STATE" | tr '\n' ' ')
  # shellcheck disable=SC2046
  set -- $(processes "$build_group" | "${0%/*}/nameless.sh" "$devices" "$count_seconds")
  nameless_kib=$1 nameless_files=$2
}

# Sets the free KiB and the free and whole number of files of the state.
look() {
  # shellcheck disable=SC2046
  set -- $(stat -f -c '%f %S %d %c' "$SLUICE_STATE")
  kib=$(($1 * $2 / 1024)) files=$3 all_files=$4
}

# The disk has no quota for a build. What all builds have written since this one began is cheap to ask. When that is
# more than this one may still write, its files are measured: those of its finished steps too. What BuildKit removes
# meanwhile hides what is written, so they are also measured soon after the start of a step, and every half minute.
watch() {
  step=$1
  upper=$(sed -n "s#.* $bundle/rootfs .*[,]upperdir=\([^,]*\).*#\1#p" /proc/self/mountinfo)
  mounts=$(tr ',' '\n' < "$config" | sed -n "s#^\"source\":\"\($SLUICE_STATE/[^\"]*\)\".*#\1#p" | grep -v "^$bundle" || true)
  printf '%s\n' "$upper" "$mounts" >> "$record/places"
  IFS='
 '
  # What the first step of the build has found.
  read -r first_kib first_files most_files < "$record/first"
  next=$SLUICE_BUILD_DISK next_files=$most_files rounds=60
  while sleep 0.5 && kill -0 "$step"; do
    look
    rounds=$((rounds + 1)) grown=$((first_kib - kib)) grown_files=$((first_files - files))
    [ $rounds -lt 60 ] || { rounds=0 next=$((grown - 1)) next_files=$((grown_files - 1)); }
    if [ $grown -gt "$next" ]; then
      measure size_of_places
      left=$((SLUICE_BUILD_DISK - ${measured:-0} - nameless_kib))
      [ $left -ge 0 ] || end_step "$((SLUICE_BUILD_DISK / 1024)) MiB"
      next=$((grown + $(larger $left $((SLUICE_BUILD_DISK / 8)))))
    fi
    if [ $grown_files -gt "$next_files" ]; then
      measure files_of_places
      left=$((most_files - ${measured:-0} - nameless_files))
      [ $left -ge 0 ] || end_step "$most_files files"
      next_files=$((grown_files + $(larger $left $((most_files / 8)))))
    fi
  done
}

larger() {
  [ "$1" -gt "$2" ] && echo "$1" || echo "$2"
}

# Measures files with a name by the given command, and those without. A file that loses its name in between would be in
# neither sum: then both are measured again.
measure() {
  count_nameless
  for _ in 1 2 3; do
    before="$nameless_kib $nameless_files"
    measured=$("$1")
    count_nameless
    [ "$nameless_kib $nameless_files" != "$before" ] || return 0
  done
}

# Prints the KiB of the folders that steps of the build have written to.
size_of_places() {
  places | xargs -r du -skc | tail -n 1 | cut -f 1
}

# Prints the number of files in them.
files_of_places() {
  places | xargs -r -I {} find {} -xdev | wc -l
}

# Prints the folders that steps of the build have written to.
places() {
  sort -u "$record/places" | while read -r place; do
    [ ! -d "$place" ] || printf '%s\n' "$place"
  done
}

# Makes the control group of the build, and the record of what its first step finds.
join_build() {
  build=$(build_number) || return 1
  build_group=$SLUICE_GROUP/build-$build
  group=$build_group/$(basename "$(sed -n 's/.*"cgroupsPath":"\([^"]*\)".*/\1/p' "$config")")
  printf '%s\n' "$SLUICE_BUILD_LIMITS" | while read -r place file value; do
    limits=/sys/fs/cgroup/$place$build_group
    mkdir -p "$limits" || exit 1
    # Not every kernel counts swap.
    [ -e "$limits/$file" ] || [ "$file" != memory.swap.max ] || continue
    echo "$value" > "$limits/$file" || exit 1
  done || return 1
  record=$SLUICE_FOLDER/builds/$build
  if mkdir -p "$SLUICE_FOLDER/builds" && mkdir "$record" 2> /dev/null; then
    look
    echo "$kib $files $((all_files / 4))" > "$record/first.new"
    mv "$record/first.new" "$record/first"
    forget_old
  fi
  tries=0
  until [ -e "$record/first" ] || [ $tries -ge 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
  done
  # Without it nothing would limit the disk.
  [ -e "$record/first" ]
}

# The number of the build that the step belongs to. Within JSON strings each quote has a backslash before it: only
# members of the document match. A mount of the step at /etc/hosts takes the place of BuildKit's file: its content, and
# so the number, would be the step's own choice. The source of a tmpfs is no path.
build_number() {
  hosts=$(tr '{' '\n' < "$config" | sed -n 's#^"destination":"/etc/hosts",.*"source":"\([^"]*\)".*#\1#p' | head -n 1)
  name=${hosts#"$SLUICE_STATE"/runc-*/executor/}
  case $name in
    '' | */* | "$hosts")
      echo 'A step cannot mount a file at /etc/hosts: mount it at another path' >&2
      return 1
      ;;
  esac
  number=$(sed -n "s/^0\.\([0-9.]*\)[[:space:]]$SLUICE_BUILD_HOST\$/\1/p" "$hosts" | head -n 1)
  echo "${number:-none}"
}

# No build takes a day. A control group with processes cannot be removed.
forget_old() {
  find "$SLUICE_FOLDER/builds" -mindepth 1 -maxdepth 1 -mmin +1440 | while read -r old; do
    rm -rf "$old"
    rmdir "/sys/fs/cgroup$SLUICE_GROUP/build-${old##*/}" "/sys/fs/cgroup"/*"$SLUICE_GROUP/build-${old##*/}" || true
  done 2> /dev/null
}

if [ -n "$bundle" ]; then
  config=$bundle/config.json
  if ! join_build; then
    echo 'the limits of the build cannot be set' >&2
    exit 1
  fi
  # Programs would wait for the socket of these variables, which no step has (builder-configuration.ts).
  sed -i \
    -e 's/"CAP_NET_RAW",//g; s/,"CAP_NET_RAW"//g' \
    -e 's#,"OTEL_TRACES_EXPORTER=otlp","OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=unix:///dev/otel-grpc.sock","OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc"##' \
    -e "s#\"cgroupsPath\":\"[^\"]*\"#\"cgroupsPath\":\"$group\"#" "$config"
  if grep -q '[^\\]"CAP_NET_RAW"' "$config" || ! grep -qF "\"cgroupsPath\":\"$group\"" "$config"; then
    echo 'the limits of the step cannot be set' >&2
    exit 1
  fi
  # Without the step's output, whose end is waited for.
  watch $$ < /dev/null > /dev/null 2>&1 &
fi
exec "$SLUICE_RUNC" "$@"
