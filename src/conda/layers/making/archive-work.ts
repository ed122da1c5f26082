import { Semaphore } from '../../../foundation/semaphore.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import type { PackageLayerRow } from '../../../storage/rows/index.ts';
import type { CondaPackage } from '../../conda-package.ts';
import type { FetchArchive, FetchedArchive, WantedArchive } from '../archive-fetch.ts';

type NamedArchive = WantedArchive &
  Pick<CondaPackage, 'name' | 'version'> &
  Partial<Pick<CondaPackage, 'build'>>;

/** Makes the layer of an archive. `written` receives how far it is, as in {@link PackageProgress}. */
export type MakeOf = (
  archive: FetchedArchive,
  signal: AbortSignal,
  written: Float64Array,
) => Promise<PackageLayerRow>;

// Archives of one host on this machine or on their way: more than are installed at once, so that the threads have work.
const archivesAtOnce = 8;

/** Returns the work for the layers of packages and wheels: fetches their archives and makes their layers, each once. */
export function createArchiveWork(fetchArchive: FetchArchive) {
  const making = new SingleFlight<PackageLayerRow & { progress: PackageProgress }>();
  const running = new Map<string, PackageProgress>();
  const turns = new Semaphore({ perKey: archivesAtOnce });

  const makeNow = async (key: string, wanted: NamedArchive, signal: AbortSignal, make: MakeOf) => {
    const progress = new PackageProgress(wanted);
    running.set(key, progress);
    try {
      // A build ends by its own limit of time.
      using _turn = await turns.take({ key: new URL(wanted.url).host, signal });
      progress.fetchBegan = Date.now();
      await using archive = await fetchArchive(wanted, signal, (bytes, size) =>
        progress.received(bytes, size),
      );
      progress.received(archive.size, archive.size);
      progress.makeBegan = Date.now();
      const layer = await make(archive, signal, progress.written);
      progress.madeAt = Date.now();
      return { ...layer, progress };
    } finally {
      if (running.get(key) === progress) running.delete(key);
    }
  };

  return {
    /**
     * Returns a new layer. Callers share the work for a key if they state the same, which is all that makes it fail: an index can
     * name the archive of another one, and lie about it.
     */
    make(
      key: string,
      stated: readonly unknown[],
      wanted: NamedArchive,
      signal: AbortSignal,
      make: MakeOf,
    ) {
      const work = (stop: AbortSignal) => makeNow(key, wanted, stop, make);
      return making.run(work, { key: JSON.stringify([key, ...stated]), signal });
    },
    /** Returns how far the work for a key is; undefined where nothing is done for it. */
    progressOf: (key: string) => running.get(key),
  };
}

/** How far the work for the layer of a package is. It changes while others look at it. Times are ms since the epoch. */
export class PackageProgress {
  /** `samtools-1.20-h50ea8bc_0` */
  readonly name: string;
  /** Bytes of the archive that have arrived. */
  fetched = 0;
  /** Bytes of the archive; 0 if unknown. */
  archiveBytes: number;
  fetchBegan: number | undefined;
  makeBegan: number | undefined;
  madeAt: number | undefined;
  /** Shared with the thread that makes the layer: bytes that are written, and all bytes of its files (0 if unknown). */
  readonly written = new Float64Array(new SharedArrayBuffer(2 * Float64Array.BYTES_PER_ELEMENT));

  constructor({
    name,
    version,
    build,
    size = 0,
  }: Pick<CondaPackage, 'name' | 'version' | 'size'> & Partial<Pick<CondaPackage, 'build'>>) {
    this.name = [name, version, ...(build === undefined ? [] : [build])].join('-');
    this.archiveBytes = size;
  }

  /** Takes the size of an archive of which a part has arrived. */
  received(bytes: number, size: number | undefined): void {
    this.fetched = bytes;
    this.archiveBytes = Math.max(this.archiveBytes, size ?? 0, bytes);
  }
}
