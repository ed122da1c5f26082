import { readFileSync } from 'node:fs';

/** Descriptors for files, the database, builders and logs. */
const reserved = 64;

/**
 * Returns how many connections of clients the open files of this process allow, undefined where the
 * system does not say. An answer may need a second descriptor: a file, or a connection to a registry.
 * Source: proc_pid_limits(5).
 */
export function connectionsOfDescriptors(): number | undefined {
  try {
    const line = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return line ? Math.max(8, Math.floor((Number(line[1]) - reserved) / 2)) : undefined;
  } catch {
    return undefined;
  }
}
