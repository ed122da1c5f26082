import { opendir } from 'node:fs/promises';
import { join } from 'node:path';

/** True when there is any content below the root of a content store; creates nothing. */
export async function hasContent(root: string): Promise<boolean> {
  return hasFile(join(root, 'blobs'));
}

async function hasFile(path: string): Promise<boolean> {
  try {
    for await (const entry of await opendir(path)) {
      if (!entry.isDirectory() || (await hasFile(join(path, entry.name)))) return true;
    }
    return false;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
