import { userInfo } from 'node:os';
import type { Rows } from '../../storage/rows/index.ts';

/** Returns the name of the command line's user in the audit log. */
export function commandLine(): string {
  try {
    return `command line (${userInfo().username})`;
  } catch {
    // In a container, a user number may have no name.
    return `command line (${process.getuid?.() ?? 'unknown'})`;
  }
}

/** Notes an action of a command in the audit log. Throws the errors of the database. */
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
