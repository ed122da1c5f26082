import { setMaxListeners } from 'node:events';
import { tarPadding, ustarHeader } from '../../archives/tar-writer.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { Semaphore } from '../../foundation/semaphore.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import type { Tally } from '../../foundation/telemetry/counted.ts';
import { compareTexts } from '../../foundation/text.ts';
import type { InjectedLayer } from '../../images/augment/index.ts';
import type { ContentStore } from '../../storage/content/index.ts';
import type { PackageLayerRow } from '../../storage/rows/index.ts';
import { type CondaPackage, mayDependOnPython } from '../conda-package.ts';
import type { PythonPlace } from '../installing/installed-package.ts';
import type { FetchArchive } from './archive-fetch.ts';
import { packageParty, settleDisputes } from './environment/settle-disputes.ts';
import { groupPackages, layersOfAdded, mostPackageLayers } from './group-packages.ts';
import { goneMeanwhile, type KeptLayers } from './kept-layers.ts';
import {
  type LayerSubject,
  otherLayerKey,
  packageLayerKey,
  sharedLayerKey,
  tarLayerKey,
} from './layer-key.ts';
import { createLayerLog, type LayerLog } from './layer-log.ts';
import { layerTitles, titleOfLayer, titleOfPackage } from './layer-title.ts';
import type { UnpackLimits } from './making/layer-threads.ts';
import {
  createPackageMaker,
  factsOf,
  type MakePackage,
  type PackageLayer,
} from './making/package-maker.ts';
import {
  type AddedLayer,
  type CondaEnvironmentFiles,
  type EnvironmentLayers,
  environmentPrefix,
  type MakeInTurn,
  type PackageLayers,
} from './package-layers.ts';

interface PackageLayersDeps {
  readonly content: ContentStore;
  readonly kept: KeptLayers;
  readonly fetchArchive: FetchArchive;
  readonly limits: PackageLimits;
  readonly tally: Tally;
}

/**
 * Packages of one environment that are fetched or made at once. Others wait behind no more than these, however many packages it
 * has. As many as are fetched from one channel at once, and those that are installed meanwhile.
 */
const packagesAtOnce = 10;

/** Sentences of the log about packages whose files others replace. */
const mostReplaced = 20;

/** Characters of what is kept about the packages of an environment: usual ones have 2000 each. */
const mostFactsLength = 16 * 2 ** 20;

interface PackageLimits extends UnpackLimits {
  /** Packages of an environment. */
  readonly maxCount: number;
}

export function createPackageLayers({
  content,
  kept,
  fetchArchive,
  limits,
  tally,
}: PackageLayersDeps): PackageLayers {
  const maker = createPackageMaker({ kept, fetchArchive, limits, tally });
  const join = createJoiner(kept, content);

  /** Returns where the Python of an environment looks for packages: what its archive says, if nothing else does. */
  const placeFor = async (
    packages: readonly CondaPackage[],
    make: MakePackage,
    signal: AbortSignal,
  ): Promise<PythonPlace | undefined> => {
    const python = pythonOf(packages);
    if (!python) return undefined;
    const index = python.record ?? factsOf(await make(subjectOf(python, undefined), signal)).index;
    return pythonPlaceOf(python, index);
  };

  const makeAll = async (
    packages: readonly CondaPackage[],
    place: PythonPlace | undefined,
    make: MakePackage,
    signal: AbortSignal,
  ): Promise<PackageLayer[]> => {
    const all: Promise<PackageLayer>[] = [];
    for (const one of packages) {
      await pauseTurn();
      const made = make(subjectOf(one, place), signal);
      // One that fails before the last one begins must not end the process.
      made.catch(() => undefined);
      all.push(made);
    }
    return Promise.all(all);
  };

  const keptPlace = async (packages: readonly CondaPackage[]): Promise<PythonPlace | undefined> => {
    const python = pythonOf(packages);
    if (!python) return undefined;
    if (python.record) return pythonPlaceOf(python, python.record);
    const layer = await kept.use(packageLayerKey(subjectOf(python, undefined)));
    return layer && pythonPlaceOf(python, factsOf(layer).index);
  };

  const tarLayer = async (tar: Buffer, signal: AbortSignal): Promise<PackageLayerRow> => {
    const key = tarLayerKey(tar);
    return (await kept.use(key)) ?? kept.make(key, { kind: 'tar', tar }, signal);
  };

  const makeLayers = async (
    environment: CondaEnvironmentFiles,
    signal: AbortSignal,
    progress: LayerLog,
  ): Promise<EnvironmentLayers> => {
    const packages = environment.packages.toSorted(byName);
    const { added } = environment;
    const turns = new Semaphore({ limit: packagesAtOnce });
    let factsLength = 0;
    const inTurn: MakeInTurn = async (key, name, work) => {
      progress.begin(key);
      const layer = await turns.run(work);
      factsLength += layer.facts?.length ?? 0;
      if (factsLength > mostFactsLength) throw tooWordy(name);
      progress.made(layer, name);
      return layer;
    };
    const make: MakePackage = (subject, stop) =>
      inTurn(packageLayerKey(subject), subject.package.name, () => maker.make(subject, stop));
    const isPlaced = added !== undefined || packages.some(mayDependOnPython);
    const place = isPlaced ? await placeFor(packages, make, signal) : undefined;
    const [ofPackages, ofAdded = []] = await Promise.all([
      makeAll(packages, place, make, signal),
      added?.make(place, { inTurn, signal }),
    ]);
    const settled = await settleDisputes<PackageLayer | AddedLayer>(
      [...ofPackages.map(layer => packageParty(layer, make, signal)), ...ofAdded],
      kept,
    );
    const made = settled.layers.slice(0, ofPackages.length) as PackageLayer[];
    const above = settled.layers.slice(ofPackages.length) as AddedLayer[];
    for (const sentence of settled.replaced.slice(0, mostReplaced)) progress.say(sentence);
    const mostAbove = layersOfAdded(made.length, above.length);
    const groupsOfPackages = groupPackages(
      made.map(layer => ({ ...layer, ...namesOf(layer.subject.package) })),
      mostPackageLayers - mostAbove,
    );
    const groupsAbove = groupPackages(above, mostAbove);
    const groups = [...groupsOfPackages, ...groupsAbove];
    const tars = environment.isReplaced ? [replacingTar(environmentPrefix)] : [];
    const layers = await Promise.all([
      ...tars.map(tar => tarLayer(tar, signal)),
      ...groups.map(group => join(group, signal)),
      tarLayer(historyTar(environment, environmentPrefix), signal),
    ]);
    const titles = [
      ...tars.map(() => layerTitles.replaced),
      ...groupsOfPackages.map(group => titleOfLayer('conda', titlesOf(group))),
      ...groupsAbove.map(group => titleOfLayer('pypi', titlesOf(group))),
      layerTitles.history,
    ];
    progress.end(layers);
    const variables: Record<string, string> = {};
    const layered: EnvironmentLayers['packages'][number][] = [];
    for (const layer of made) {
      const { variables: own, ...facts } = factsOf(layer);
      Object.assign(variables, own);
      layered.push({ package: layer.subject.package, ...facts });
      await pauseTurn();
    }
    const contents = groups.map((group, at) => ({
      digest: (layers[tars.length + at] as PackageLayerRow).digest,
      keys: group.map(({ key }) => key),
    }));
    return {
      layers: layers.map((layer, at) => injectedLayer(layer, titles[at])),
      contents,
      packages: layered,
      variables,
    };
  };

  return {
    placeOf: keptPlace,

    check: (packages, added = 0) => checkPackages(packages, limits.maxCount, added),

    async make(environment, { signal, ...output }) {
      const { packages, added } = environment;
      checkPackages(packages, limits.maxCount, added?.count);
      // Ends the work for the other packages when one of them fails.
      const stop = new AbortController();
      setMaxListeners(0, stop.signal);
      const leave = () => stop.abort(signal.reason);
      signal.addEventListener('abort', leave, { once: true });
      const progress = createLayerLog(
        packages.length + (added?.count ?? 0),
        key => maker.progressOf(key) ?? added?.progressOf(key),
        output,
      );
      try {
        signal.throwIfAborted();
        return await makeLayers(environment, stop.signal, progress);
      } finally {
        progress.close();
        signal.removeEventListener('abort', leave);
        stop.abort(new Error('the work for this environment has ended'));
      }
    },

    async missing({ packages }) {
      checkPackages(packages, limits.maxCount);
      const place = await keptPlace(packages);
      const found: CondaPackage[] = [];
      for (const one of packages) {
        await pauseTurn();
        const subject = subjectOf(one, place);
        if (await kept.has(packageLayerKey(subject))) continue;
        const other = otherLayerKey(subject);
        if (other === undefined || !(await kept.has(other))) found.push(one);
      }
      return found;
    },
  };
}

function subjectOf(one: CondaPackage, python: PythonPlace | undefined): LayerSubject {
  return { package: one, place: { prefix: environmentPrefix, python } };
}

function pythonOf(packages: readonly CondaPackage[]): CondaPackage | undefined {
  return packages.find(({ name }) => name === 'python');
}

function checkPackages(packages: readonly CondaPackage[], most: number, added = 0): void {
  const count = packages.length + added;
  if (count > most) {
    throw new Fault(
      'bad-request',
      `The environment has ${count} packages, at most ${most} are allowed: request fewer, or ask the operator to raise conda.packages.maxCount`,
      { phase: 'layer' },
    );
  }
  const names = new Set<string>();
  for (const { name } of packages) {
    if (names.has(name)) {
      throw new Fault('bad-request', `The environment has two packages named ${name}: remove one`, {
        phase: 'layer',
      });
    }
    names.add(name);
  }
}

function tooWordy(name: string): Fault {
  return new Fault(
    'bad-request',
    `The packages of the environment have more than ${mostFactsLength / 2 ** 20} million characters of dependencies and variables, ${name} among them: choose other builds of its packages, or report it to their authors`,
    { phase: 'layer' },
  );
}

function namesOf(one: CondaPackage): Readonly<Record<'name' | 'title', string>> {
  return { name: one.name, title: titleOfPackage(one) };
}

function titlesOf(group: readonly { readonly title: string }[]): readonly string[] {
  return group.map(({ title }) => title);
}

function injectedLayer({ digest, size, tarDigest }: PackageLayerRow, holds = ''): InjectedLayer {
  return { gzipDigest: digest, gzipSize: size, tarDigest, holds };
}

function byName({ name: one }: CondaPackage, { name: other }: CondaPackage): number {
  return compareTexts(one, other);
}

/**
 * Returns the tar entry that removes an environment from the layers below. Source: OCI image specification, Whiteouts.
 *
 * @param prefix absolute path of the environment
 */
function replacingTar(prefix: string): Buffer {
  const name = prefix.lastIndexOf('/') + 1;
  const path = `${prefix.slice(1, name)}.wh.${prefix.slice(name)}`;
  return ustarHeader({ path, kind: 'file', mode: 0o644 });
}

/**
 * Returns where the Python of an environment looks for packages. Throws a {@link Fault} for a Python without a version.
 * Source: CEP 17.
 *
 * @param index its record in the repository data, or its own `info/index.json`
 */
function pythonPlaceOf(
  { version, fileName }: CondaPackage,
  index: Readonly<Record<string, unknown>>,
): PythonPlace {
  const minor = /^\d+\.\d+/.exec(version)?.[0];
  if (minor === undefined) throw unusable(fileName, `has the version ${version}`);
  const given = index.python_site_packages_path;
  const sitePackages = typeof given === 'string' ? given : `lib/python${minor}/site-packages`;
  if (!/^(?!\.\.?\/)[\w.+-]+(?:\/(?!\.\.?(?:\/|$))[\w.+-]+)*$/.test(sitePackages)) {
    throw unusable(fileName, 'has a python_site_packages_path that is not a path below the prefix');
  }
  // A free-threaded Python has its own directory.
  const minorVersion = sitePackages.includes(`/python${minor}t/`) ? `${minor}t` : minor;
  return { minorVersion, sitePackages };
}

function unusable(fileName: string, what: string): Fault {
  return new Fault('bad-request', `${fileName} ${what}: choose another build of Python`, {
    phase: 'layer',
  });
}

/** Returns one layer with the files of several. Throws a {@link Fault} when one of them is gone. */
type JoinLayers = (
  layers: readonly PackageLayerRow[],
  signal: AbortSignal,
) => Promise<PackageLayerRow>;

function createJoiner(
  kept: Pick<KeptLayers, 'use' | 'make'>,
  content: Pick<ContentStore, 'lease'>,
): JoinLayers {
  const joining = new SingleFlight<PackageLayerRow>();

  const join = async (
    key: string,
    layers: readonly PackageLayerRow[],
    signal: AbortSignal,
  ): Promise<PackageLayerRow> => {
    await using leases = new AsyncDisposableStack();
    const files: { path: string; size: number }[] = [];
    for (const { digest, size } of layers) {
      const file = await content.lease(digest);
      if (!file) throw goneMeanwhile();
      files.push({ path: leases.use(file).path, size });
    }
    // Not before it ends: copies from an object store would go.
    return await kept.make(key, { kind: 'shared', layers: files }, signal);
  };

  return async (layers, signal) => {
    const [alone] = layers;
    if (alone && layers.length === 1) return alone;
    const key = sharedLayerKey(layers.map(({ digest }) => digest));
    return (await kept.use(key)) ?? joining.run(stop => join(key, layers, stop), { key, signal });
  };
}

/**
 * Returns the tar entries of `conda-meta/history`, by which conda, mamba and pixi recognise an environment. It lists the
 * packages and not the request: a request with the lock file of an image gives the same image.
 *
 * @param prefix absolute path of the environment
 */
function historyTar(environment: CondaEnvironmentFiles, prefix: string): Buffer {
  const content = Buffer.from(historyOf(environment));
  const root = prefix.slice(1);
  const metadata = `${root}/conda-meta`;
  const directories = [root, metadata].map(path =>
    ustarHeader({ path, kind: 'directory', mode: 0o755 }),
  );
  const path = `${metadata}/history`;
  const size = content.length;
  return Buffer.concat([
    ...directories,
    ustarHeader({ path, kind: 'file', mode: 0o644, size }),
    content,
    tarPadding(size),
  ]);
}

/** Source: conda, conda/history.py. */
function historyOf({ packages }: CondaEnvironmentFiles): string {
  const added = packages.map(({ url }) => `+${url.replace(/\.(?:conda|tar\.bz2)$/, '')}`).sort();
  return ['==> 1980-01-01 00:00:00 <==', ...added, ''].join('\n');
}
