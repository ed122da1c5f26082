import { createHmac, createSecretKey, randomUUID } from 'node:crypto';
import { mkdir, open, opendir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { sortInTurns } from '../../foundation/pause-turn.ts';
import type { DiskSpace } from '../../storage/directory/index.ts';

/** Files of indexes in one directory that can be fetched again: pages, and the metadata of wheels. The oldest go when it is full. */
export interface KeptFiles {
  /** Returns the path for what one text means. Nobody outside can tell it. */
  pathOf(place: string): string;
  /** Writes a file, or nothing: one that is not kept is fetched again. */
  write(path: string, parts: readonly Uint8Array[]): Promise<void>;
}

export interface KeptFilesDeps {
  /** Its own directory. */
  readonly directory: string;
  readonly space: Pick<DiskSpace, 'take'>;
  /** Another key makes all kept files unknown. */
  readonly key: Uint8Array;
  readonly maxBytes: number;
}

const maxFiles = 50_000;

export function createKeptFiles({ directory, space, key, maxBytes }: KeptFilesDeps): KeptFiles {
  const secret = createSecretKey(key);
  /** What is kept; undefined before it has been counted. */
  let kept: FileCount | undefined;
  let sweeping: Promise<void> | undefined;

  const makeRoom = async () => {
    const isFull = kept === undefined || kept.files > maxFiles || kept.bytes > maxBytes;
    if (!isFull) return;
    sweeping ??= removeOldest(directory, maxBytes)
      .then(left => {
        kept = left;
      })
      .finally(() => {
        sweeping = undefined;
      });
    await sweeping;
  };

  return {
    pathOf: place => join(directory, createHmac('sha256', secret).update(place).digest('hex')),
    async write(path, parts) {
      const draft = `${path}.${randomUUID()}.new`;
      const bytes = parts.reduce((sum, part) => sum + part.length, 0);
      try {
        space.take(bytes);
        await mkdir(directory, { recursive: true });
        const file = await open(draft, 'wx');
        try {
          await file.writev(parts);
        } finally {
          await file.close();
        }
        await rename(draft, path);
        if (kept !== undefined) {
          kept.files += 1;
          kept.bytes += bytes;
        }
        await makeRoom();
      } catch {
        await rm(draft, { force: true }).catch(() => {});
      }
    },
  };
}

interface FileCount {
  files: number;
  bytes: number;
}

/**
 * Removes the oldest files until a tenth of the room is free, and drafts that a server left which was killed. One file after the other:
 * many at once would hold the event loop. Returns what is left.
 */
async function removeOldest(directory: string, maxBytes: number): Promise<FileCount> {
  const found: { path: string; size: number; mtimeMs: number }[] = [];
  let bytes = 0;
  const hourAgo = Date.now() - 3_600_000;
  for await (const { name } of await opendir(directory)) {
    const path = join(directory, name);
    const facts = await stat(path).catch(() => undefined);
    if (facts === undefined) continue;
    const { size, mtimeMs } = facts;
    if (name.endsWith('.new') && mtimeMs < hourAgo) await rm(path, { force: true });
    else {
      found.push({ path, size, mtimeMs });
      bytes += size;
    }
  }
  let files = found.length;
  if (bytes <= maxBytes && files <= maxFiles) return { files, bytes };
  for (const { path, size } of await sortInTurns(found, (a, b) => a.mtimeMs - b.mtimeMs)) {
    if (bytes <= maxBytes * 0.9 && files <= maxFiles * 0.9) break;
    await rm(path, { force: true });
    bytes -= size;
    files -= 1;
  }
  return { files, bytes };
}
