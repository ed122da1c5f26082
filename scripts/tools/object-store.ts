import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { objectStoreDirectory, objectStoreVersion } from '../../test/world/tools.ts';
import { installProgram } from './go-programs.ts';
import { lock } from './lock.ts';

const module = 'github.com/versity/versitygw/cmd/versitygw';

export function hasObjectStore(): boolean {
  return existsSync(objectStoreDirectory());
}

/** Compiles an S3-compatible object store from the Go module proxy. */
export async function buildObjectStore(): Promise<void> {
  const destination = objectStoreDirectory();
  using _lock = await lock(basename(destination));
  if (hasObjectStore()) return;
  console.log(`Compiling versitygw ${objectStoreVersion} to ${destination}`);
  const folder = `${destination}.unfinished`;
  await rm(folder, { recursive: true, force: true });
  try {
    await mkdir(folder, { recursive: true });
    await installProgram(folder, `${module}@v${objectStoreVersion}`);
    await rename(folder, destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
