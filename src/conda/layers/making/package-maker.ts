import { Semaphore } from '../../../foundation/semaphore.ts';
import { SingleFlight } from '../../../foundation/single-flight.ts';
import type { Tally } from '../../../foundation/telemetry/counted.ts';
import type { PackageLayerRow } from '../../../storage/rows/index.ts';
import { type CondaPackage, mayDependOnPython } from '../../conda-package.ts';
import type { FetchArchive } from '../archive-fetch.ts';
import type { KeptLayers } from '../kept-layers.ts';
import { type LayerSubject, madeLayerKeys, otherLayerKey, packageLayerKey } from '../layer-key.ts';
import type { UnpackLimits } from './layer-threads.ts';
import type { PackageFacts } from './package-facts.ts';

/** The layer of one package. */
export interface PackageLayer extends PackageLayerRow {
  readonly key: string;
  readonly subject: LayerSubject;
  readonly facts: string;
  /** The work that made it now; undefined for a layer that was here. */
  readonly progress?: PackageProgress | undefined;
}

/** Returns the layer of a package, which is made when it is not here. One caller's work serves all that wait for it. */
export type MakePackage = (subject: LayerSubject, signal: AbortSignal) => Promise<PackageLayer>;

interface PackageMaker {
  readonly make: MakePackage;
  /** Returns how far the work for a key is; undefined where nothing is done for it. */
  progressOf(key: string): PackageProgress | undefined;
}

interface PackageMakerDeps {
  readonly kept: KeptLayers;
  readonly fetchArchive: FetchArchive;
  readonly limits: UnpackLimits;
  readonly tally: Tally;
}

// Archives of one host on this machine or on their way: more than are installed at once, so that the threads have work.
const archivesAtOnce = 8;

export function createPackageMaker({
  kept,
  fetchArchive,
  limits,
  tally,
}: PackageMakerDeps): PackageMaker {
  const making = new SingleFlight<PackageLayerRow & { progress: PackageProgress }>();
  const running = new Map<string, PackageProgress>();
  const turns = new Semaphore({ perKey: archivesAtOnce });

  const make = async (key: string, subject: LayerSubject, signal: AbortSignal) => {
    const progress = new PackageProgress(subject.package);
    running.set(key, progress);
    try {
      return { ...(await makeInTurn(key, subject, progress, signal)), progress };
    } finally {
      if (running.get(key) === progress) running.delete(key);
    }
  };
  const makeInTurn = async (
    key: string,
    subject: LayerSubject,
    progress: PackageProgress,
    signal: AbortSignal,
  ): Promise<PackageLayerRow> => {
    // A build ends by its own limit of time.
    using _turn = await turns.take({ key: new URL(subject.package.url).host, signal });
    progress.fetchBegan = Date.now();
    await using archive = await fetchArchive(subject.package, signal, (bytes, size) =>
      progress.received(bytes, size),
    );
    progress.received(archive.size, archive.size);
    progress.makeBegan = Date.now();
    // A package without a SHA-256 may have been made for one with it.
    const { sha256 } = archive;
    const known = packageLayerKey({ ...subject, package: { ...subject.package, sha256 } });
    const before = known === key ? undefined : await kept.use(known);
    const order = { kind: 'package', subject, archive: archive.path, limits } as const;
    const layer = before ?? (await kept.make(known, order, signal, progress.written));
    const others = new Set([key, ...madeLayerKeys(subject, factsOf(layer))]);
    others.delete(known);
    for (const other of others) await kept.alias(known, other);
    progress.madeAt = Date.now();
    return layer;
  };

  /** Returns a layer that is here, and makes it known by the key. */
  const use = async (key: string, subject: LayerSubject): Promise<PackageLayerRow | undefined> => {
    const there = await kept.use(key);
    const other = otherLayerKey(subject);
    if (there || other === undefined) return there;
    const found = await kept.use(other);
    // A layer of an older version may have been made for one Python all the same.
    if (!found || factsOf(found).index.noarch === 'python') return undefined;
    await kept.alias(other, key);
    return found;
  };

  return {
    async make(subject, signal) {
      const key = packageLayerKey(subject);
      const there = await use(key, subject);
      tally.add('package layers', { source: there ? 'kept' : 'made' });
      const layer =
        there ??
        (await making.run(stop => make(key, subject, stop), {
          key: workKey(key, subject),
          signal,
        }));
      return { ...layer, key, subject, facts: layer.facts ?? '{}' };
    },
    progressOf: key => running.get(key),
  };
}

/**
 * Returns the key of work that callers share: with all that makes it fail. A channel can name the archive of another one, and lie
 * about it: its callers must not fail the work of others.
 */
function workKey(key: string, { package: it }: LayerSubject): string {
  const { name, version, build, fileName, size } = it;
  return JSON.stringify([key, name, version, build, fileName, size, mayDependOnPython(it)]);
}

/** Returns what is known about a package whose layer is here. */
export function factsOf({ facts }: Pick<PackageLayerRow, 'facts'>): PackageFacts {
  return JSON.parse(facts ?? '{}') as PackageFacts;
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
