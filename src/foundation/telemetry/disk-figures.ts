import { Gauge, type Registry } from 'prom-client';

/** What takes space in the data directory. Content that several things refer to counts for the first of them. */
export const diskContents = [
  'build contexts',
  'layers of Conda packages',
  'Singularity images in repositories',
  'hosted repositories',
  'cache of registries',
  'served images and injected layers',
  'unreferenced content',
  'repository data of Conda',
  'logs of builds',
  'lists of files in layers',
  'database',
  'builder',
  'unfinished and damaged content',
] as const;
export type DiskContent = (typeof diskContents)[number];

export interface DiskFigure {
  readonly content: DiskContent;
  readonly files: number;
  readonly bytes: number;
  /** False when there is more than was counted. */
  readonly isWhole: boolean;
}

export interface DiskUse {
  /** When the look at the disk ended, ms since the epoch. */
  readonly at: number;
  readonly tookMs: number;
  readonly figures: readonly DiskFigure[];
  /** Bytes of the disk. */
  readonly diskBytes: number;
  readonly freeBytes: number;
}

/** Adds metrics of the disk: as they were at the last look. */
export function addDiskMetrics(registry: Registry, latest: () => DiskUse | undefined): void {
  const registers = [registry];
  new Gauge({
    name: 'sluice_disk_content_bytes',
    help: 'Bytes in the data directory, by what they are for; measured in the background',
    labelNames: ['content'],
    registers,
    collect() {
      for (const { content, bytes } of latest()?.figures ?? []) this.set({ content }, bytes);
    },
  });
  new Gauge({
    name: 'sluice_disk_size_bytes',
    help: 'Bytes of the disk of the data directory, free or not',
    registers,
    collect() {
      const use = latest();
      if (use) this.set(use.diskBytes);
    },
  });
  new Gauge({
    name: 'sluice_disk_free_bytes',
    help: 'Free bytes on the disk of the data directory; measured in the background',
    registers,
    collect() {
      const use = latest();
      if (use) this.set(use.freeBytes);
    },
  });
}
