import { type ChildProcess, spawn } from 'node:child_process';

// Reads paths until its input ends, which happens when this process ends in any way. A dying program may still write,
// which makes rm and rmdir fail, so both are repeated for a while.
const script = `
trap '' INT TERM HUP
while IFS= read -r path; do set -- "$@" "$path"; done
for path; do
  for attempt in $(seq 50); do
    case $path in
      /sys/fs/cgroup/*) [ ! -d "$path" ] || find "$path" -depth -type d -exec rmdir {} + ;;
      *)
        for mounted in $(awk -v p="$path/" 'index($2, p) == 1 { print $2 }' /proc/self/mounts | sort -r); do
          umount "$mounted"
        done
        rm -rf "$path" ;;
    esac && break
    sleep 0.2
  done
done 2>/dev/null
`;

let sweeper: ChildProcess | undefined;

/**
 * Has a directory, or a control group under /sys/fs/cgroup, removed after this process has ended, even when it was
 * killed. Missing paths do no harm.
 */
export function sweepAtEnd(path: string): void {
  sweeper ??= startSweeper();
  sweeper.stdin?.write(`${path}\n`);
}

function startSweeper(): ChildProcess {
  // Detached: an interrupt from the terminal must reach this process but not the sweeper.
  const child = spawn('sh', ['-c', script], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  child.unref();
  // Neither may keep this process running.
  (child.stdin as unknown as { unref?(): void }).unref?.();
  return child;
}
