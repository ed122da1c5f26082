import type { Tally } from '../../../foundation/telemetry/counted.ts';
import type { PackageLayerRow } from '../../../storage/rows/index.ts';
import { mayDependOnPython } from '../../conda-package.ts';
import type { FetchArchive } from '../archive-fetch.ts';
import type { KeptLayers } from '../kept-layers.ts';
import { type LayerSubject, madeLayerKeys, otherLayerKey, packageLayerKey } from '../layer-key.ts';
import { createArchiveWork, type MakeOf, type PackageProgress } from './archive-work.ts';
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

export function createPackageMaker({
  kept,
  fetchArchive,
  limits,
  tally,
}: PackageMakerDeps): PackageMaker {
  const work = createArchiveWork(fetchArchive);

  const makeOf =
    (key: string, subject: LayerSubject): MakeOf =>
    async (archive, signal, written) => {
      // A package without a SHA-256 may have been made for one with it.
      const { path, sha256 } = archive;
      const known = packageLayerKey({ ...subject, package: { ...subject.package, sha256 } });
      const before = known === key ? undefined : await kept.use(known);
      const order = { kind: 'package', subject, archive: path, limits } as const;
      const layer = before ?? (await kept.make(known, order, signal, written));
      const others = new Set([key, ...madeLayerKeys(subject, factsOf(layer))]);
      others.delete(known);
      for (const other of others) await kept.alias(known, other);
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
      const { package: it } = subject;
      const { name, version, build, fileName, size } = it;
      const stated = [name, version, build, fileName, size, mayDependOnPython(it)];
      const layer = there ?? (await work.make(key, stated, it, signal, makeOf(key, subject)));
      return { ...layer, key, subject, facts: layer.facts ?? '{}' };
    },
    progressOf: work.progressOf,
  };
}

/** Returns what is known about a package whose layer is here. */
export function factsOf({ facts }: Pick<PackageLayerRow, 'facts'>): PackageFacts {
  return JSON.parse(facts ?? '{}') as PackageFacts;
}
