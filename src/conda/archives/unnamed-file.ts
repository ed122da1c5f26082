import { randomUUID } from 'node:crypto';
import { openSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';

/** Opens a new file without a name, to read and write. It disappears when it is closed, and with the process. */
export function openUnnamed(directory: string): number {
  const path = join(directory, `scratch-${randomUUID()}`);
  const fd = openSync(path, 'wx+', 0o600);
  unlinkSync(path);
  return fd;
}
