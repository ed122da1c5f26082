import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sweepAtEnd } from './sweeper.ts';

/**
 * A temporary directory; `remove` takes it away with all that is in it, and so does the end of this
 * process.
 */
export interface TempDir extends AsyncDisposable {
  readonly path: string;
  join(...parts: string[]): string;
  remove(): Promise<void>;
}

export async function makeTempDir(purpose: string, parent = tmpdir()): Promise<TempDir> {
  const path = await mkdtemp(join(parent, `sluice-${purpose}-`));
  sweepAtEnd(path);
  const remove = () => rm(path, { recursive: true, force: true, maxRetries: 5 });
  return {
    path,
    join: (...parts) => join(path, ...parts),
    remove,
    [Symbol.asyncDispose]: remove,
  };
}
