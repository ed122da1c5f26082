import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { promisify } from 'node:util';

/**
 * Unmounts what a builder that was killed has left mounted below its directory; returns how many mounts
 * there were. Does nothing without root, who alone can have mounted something there.
 */
export async function releaseMounts(directory: string): Promise<number> {
  if (process.getuid?.() !== 0) return 0;
  const table = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '');
  const places = mountsBelow(directory, table);
  // The deepest first. One by one: a mount that ended with another one is not a failure.
  for (const place of places.reverse()) {
    await promisify(execFile)('umount', ['--lazy', place]).catch(() => {});
  }
  return places.length;
}

/**
 * Mount points of BuildKit's worker, in the order of the table: no disk that an operator has mounted there.
 * Source: proc_pid_mountinfo(5).
 */
function mountsBelow(directory: string, table: string): string[] {
  return table
    .split('\n')
    .map(line => unescaped(line.split(' ')[4] ?? ''))
    .filter(place => place.startsWith(`${directory}/state/runc-`));
}

/** Spaces and the like are octal numbers there. */
function unescaped(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}
