import { userInfo } from 'node:os';
import type { Rows } from '../../storage/rows/rows.ts';

/** Returns who works at the command line, as the audit log calls them. */
export function commandLine(): string {
  try {
    return `command line (${userInfo().username})`;
  } catch {
    // In a container the number of a user may have no name.
    return `command line (${process.getuid?.() ?? 'unknown'})`;
  }
}

/** Notes in the audit log what a command has done to the data directory. Throws what the database throws. */
export async function noteLocally(
  rows: Pick<Rows, 'auditLog'>,
  action: string,
  target: string,
): Promise<void> {
  const audit = rows.auditLog(error => {
    throw error;
  });
  audit.add({ actor: commandLine(), action, target });
  await audit.flush();
}
