import { readFileSync } from 'node:fs';

/** Descriptors that files, the database, builders and logs require. */
const reserved = 64;

/**
 * Returns how many client connections the limit of open files allows; undefined when the system reports no limit. A
 * response may require a second descriptor: a file, or a connection to a registry. Source: proc_pid_limits(5).
 */
export function connectionsOfDescriptors(): number | undefined {
  try {
    const line = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
    return line ? Math.max(8, Math.floor((Number(line[1]) - reserved) / 2)) : undefined;
  } catch {
    return undefined;
  }
}
