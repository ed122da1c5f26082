import { lstat, opendir, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type DiskContent,
  type DiskFigure,
  type DiskUse,
  diskContents,
} from '../../foundation/telemetry/index.ts';
import { contextPrefix } from '../../hosted/uploads/index.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import { eachRow, type Rows, type UsedContent } from '../../storage/rows/index.ts';
import { createDigestFilter, markBuilds, markRequests } from './sweep/marks.ts';

/** What takes space in the data directory, measured in the background. */
export interface DiskUseWatch {
  /** Returns the last look; undefined before the first one has ended. */
  latest(): DiskUse | undefined;
  /** Looks again, unless the last look is recent for the time that it took. */
  look(signal?: AbortSignal): Promise<void>;
}

export interface DiskUseDeps {
  readonly directory: string;
  readonly content: ContentStore;
  readonly rows: Pick<Rows, 'contentUse' | 'requests' | 'builds'>;
}

const hourMs = 3_600_000;
/** A look may take one part in so many of the time. */
const largestShare = 50;

/** Folders and files by what they are for. */
const places: ReadonlyArray<readonly [DiskContent, readonly string[]]> = [
  ['repository data of Conda', ['conda']],
  ['logs of builds', ['logs']],
  ['lists of files in layers', ['listings']],
  ['database', ['sluice.db', 'sluice.db-wal', 'sluice.db-shm']],
  ['builder', ['buildkit']],
  ['unfinished and damaged content', ['content/tmp', 'content/journal', 'content/damaged', 'sif']],
];

export function createDiskUseWatch({ directory, content, rows }: DiskUseDeps): DiskUseWatch {
  let last: DiskUse | undefined;

  /** Counts all content once, by what refers to it. */
  const contents = async (signal?: AbortSignal): Promise<Map<DiskContent, FileBytes>> => {
    const served = createDigestFilter();
    await markRequests(content, rows.requests, Date.now(), served, signal);
    await markBuilds(content, rows.builds, served, signal);
    const sums = new Map<DiskContent, FileBytes>();
    let after = '';
    const all = eachRow(async limit => {
      const page = await rows.contentUse.after(after, limit);
      after = page.at(-1)?.digest ?? after;
      return page;
    }, signal);
    for await (const one of all) {
      const kind = useOf(one, served.mayHave(one.digest));
      const { files, bytes } = sums.get(kind) ?? { files: 0, bytes: 0 };
      sums.set(kind, { files: files + 1, bytes: bytes + one.size, isWhole: true });
    }
    return sums;
  };

  return {
    latest: () => last,

    async look(signal) {
      const age = last ? Date.now() - last.at : Number.POSITIVE_INFINITY;
      // A clock that goes back makes a look old as well.
      if (age >= 0 && age < Math.max(hourMs, largestShare * (last?.tookMs ?? 0))) return;
      const began = performance.now();
      const sums = await contents(signal);
      for (const [kind, names] of places) {
        const paths = names.map(name => join(directory, name));
        sums.set(kind, await bytesBelow(paths, signal));
      }
      const { blocks, bavail, bsize } = await statfs(directory);
      const none = { files: 0, bytes: 0, isWhole: true };
      const figures = diskContents.map(
        (kind): DiskFigure => ({ content: kind, ...(sums.get(kind) ?? none) }),
      );
      last = {
        at: Date.now(),
        tookMs: performance.now() - began,
        figures,
        diskBytes: blocks * bsize,
        freeBytes: bavail * bsize,
      };
    },
  };
}

function useOf(
  { repository, artifactType, isPackageLayer, isCached }: UsedContent,
  isServed: boolean,
): DiskContent {
  if (repository?.startsWith(contextPrefix)) return 'build contexts';
  if (isPackageLayer) return 'layers of Conda packages';
  if (repository !== null) {
    const isSif = artifactType?.includes('.sylabs.sif.') ?? false;
    return isSif ? 'Singularity images in repositories' : 'hosted repositories';
  }
  if (isCached) return 'cache of registries';
  return isServed ? 'served images and injected layers' : 'unreferenced content';
}

/** What files take on the disk. */
interface FileBytes {
  readonly files: number;
  readonly bytes: number;
  /** False when there are more files than were counted. */
  readonly isWhole: boolean;
}

const filesBetweenRests = 256;
const restMs = 5;
/** More files than a server has, except those of a builder that unpacks images into folders. */
const mostFiles = 500_000;

/** Returns what the files below some paths take on the disk, a few at a time. What cannot be read counts as nothing. */
export async function bytesBelow(
  paths: readonly string[],
  signal?: AbortSignal,
  most = mostFiles,
): Promise<FileBytes> {
  let files = 0;
  let bytes = 0;
  const waiting = [...paths];
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    signal?.throwIfAborted();
    if (files >= most) return { files, bytes, isWhole: false };
    const found = await lstat(path).catch(() => undefined);
    if (!found) continue;
    bytes += found.blocks * 512;
    if (!found.isDirectory()) {
      files += 1;
      if (files % filesBetweenRests === 0) {
        await sleep(restMs, undefined, signal ? { signal } : {});
      }
      continue;
    }
    // The names of one folder are in memory: a folder of Sluice has at most some ten thousand.
    const entries = await opendir(path).catch(() => undefined);
    if (!entries) continue;
    try {
      for await (const { name } of entries) waiting.push(join(path, name));
    } catch {
      // It was removed meanwhile.
    }
  }
  return { files, bytes, isWhole: true };
}
