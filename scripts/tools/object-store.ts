import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { basename } from 'node:path';
import { objectStoreDirectory, objectStoreVersion } from '../../test/world/tools.ts';
import { lock } from './lock.ts';
import { run } from './run.ts';

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
    const flags = ['-trimpath', '-buildvcs=false', '-ldflags', '-s -w'];
    await run('nice', ['-n', '19', 'go', 'install', ...flags, `${module}@v${objectStoreVersion}`], {
      GOBIN: folder,
      CGO_ENABLED: '0',
      GOFLAGS: `${process.env.GOFLAGS ?? ''} -modcacherw`.trim(),
    });
    await rename(folder, destination);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
