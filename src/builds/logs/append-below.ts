import { appendFile, mkdir } from 'node:fs/promises';

/** Appends to a file in a directory, which it makes if there is none. */
export async function appendBelow(
  directory: string,
  path: string,
  content: string | Buffer,
): Promise<void> {
  try {
    await appendFile(path, content, { mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await appendFile(path, content, { mode: 0o600 });
  }
}
