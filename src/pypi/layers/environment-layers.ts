import type {
  AddedPackages,
  CondaEnvironmentFiles,
  CondaPackage,
  EnvironmentLayers,
  LayerOptions,
  PackageLayers,
} from '../../conda/index.ts';
import { environmentPrefix } from '../../conda/index.ts';
import { Fault } from '../../foundation/fault.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { compareTexts } from '../../foundation/text.ts';
import { projectName, type WheelFile } from '../wheel-file.ts';
import type { WheelPlace } from '../wheels/open-wheel.ts';
import { type WheelFacts, wheelLayerKey } from './wheel-layer.ts';
import {
  addedName,
  createWheelMaker,
  type WheelLayer,
  type WheelMaker,
  type WheelMakerDeps,
  wheelFactsOf,
} from './wheel-maker.ts';

/** The packages of an environment for one platform: those of Conda, and wheels that are installed after them. */
export interface MixedEnvironment extends Omit<CondaEnvironmentFiles, 'added'> {
  /** In any order: a wheel is installed after those that it requires. */
  readonly wheels: readonly WheelFile[];
}

/** Makes the layers of an environment with packages of both kinds, each package once for all images. */
export interface MixedLayers {
  /**
   * Throws a `Fault` (400) for more packages than an environment may have, for two of one kind with the same name, and for a wheel whose
   * names are not those of a wheel.
   */
  check(environment: Pick<MixedEnvironment, 'packages' | 'wheels'>): void;
  /**
   * Returns the layers of an environment, as `PackageLayers.make` does; without wheels, the same ones. A wheel whose layer is here is not
   * fetched: the caller checks that its address may be used. Throws a `Fault` for an
   * environment with wheels and without a Conda package `python`.
   */
  make(environment: MixedEnvironment, options: LayerOptions): Promise<LayeredEnvironment>;
  /** Returns the packages that have no layer yet: they would be fetched. */
  missing(environment: MixedEnvironment): Promise<{
    readonly packages: readonly CondaPackage[];
    readonly wheels: readonly WheelFile[];
  }>;
}

export interface LayeredEnvironment extends EnvironmentLayers {
  readonly wheels: readonly LayeredWheel[];
}

/** A wheel of the environment, and what its installation has shown. */
export interface LayeredWheel extends WheelFacts {
  readonly wheel: WheelFile;
}

export interface MixedLayersDeps extends WheelMakerDeps {
  readonly packageLayers: PackageLayers;
}

/** Wheels are installed after all Conda packages. */
const tier = 1;

export function createMixedLayers({ packageLayers, ...deps }: MixedLayersDeps): MixedLayers {
  const maker = createWheelMaker(deps);
  const check = ({ packages, wheels }: Pick<MixedEnvironment, 'packages' | 'wheels'>) => {
    packageLayers.check(packages, wheels.length);
    checkNames(wheels);
  };
  return {
    check,

    async make({ wheels, ...environment }, options) {
      check({ packages: environment.packages, wheels });
      if (wheels.length === 0) {
        return { ...(await packageLayers.make(environment, options)), wheels: [] };
      }
      const made: WheelLayer[] = [];
      const added = addedWheels(wheels, maker, made);
      const layered = await packageLayers.make({ ...environment, added }, options);
      const found: LayeredWheel[] = [];
      for (const layer of made) {
        const facts = wheelFactsOf(layer);
        found.push({ wheel: layer.subject.package, ...facts });
        if (facts.warnings.length > 0) {
          options.log(`${layer.subject.package.fileName}: ${facts.warnings.join('; ')}`);
        }
        await pauseTurn();
      }
      return { ...layered, wheels: found };
    },

    async missing({ wheels, ...environment }) {
      check({ packages: environment.packages, wheels });
      const packages = await packageLayers.missing(environment);
      const python =
        wheels.length === 0 ? undefined : await packageLayers.placeOf(environment.packages);
      if (!python) return { packages, wheels };
      const found: WheelFile[] = [];
      for (const wheel of wheels) {
        const place = { prefix: environmentPrefix, python };
        if (!(await maker.has({ package: wheel, place }))) found.push(wheel);
        await pauseTurn();
      }
      return { packages, wheels: found };
    },
  };
}

/** @param found receives the layers as they are when each wheel is alone */
function addedWheels(
  wheels: readonly WheelFile[],
  maker: WheelMaker,
  found: WheelLayer[],
): AddedPackages {
  return {
    count: wheels.length,
    progressOf: maker.progressOf,
    async make(python, { inTurn, signal }) {
      if (!python) throw withoutPython();
      const make = (wheel: WheelFile, place: WheelPlace) => {
        const subject = { package: wheel, place };
        return inTurn(wheelLayerKey(subject), addedName(wheel.name), () =>
          maker.make(subject, signal),
        );
      };
      const place = { prefix: environmentPrefix, python };
      const all: Promise<WheelLayer>[] = [];
      for (const wheel of wheels.toSorted(byName)) {
        await pauseTurn();
        const made = make(wheel, place);
        // One that fails before the last one begins must not end the process.
        made.catch(() => undefined);
        all.push(made);
      }
      found.push(...(await Promise.all(all)));
      return found.map(layer => ({
        layer,
        name: layer.name,
        isNoarch: false,
        tier,
        depends: () => requiredBy(layer),
        remake: lostPaths => make(layer.subject.package, { ...place, lostPaths }),
      }));
    },
  };
}

/** Returns the names of the wheels that a wheel requires: its order of installation depends on them. */
function requiredBy(layer: WheelLayer): string[] {
  const { requiresDist } = wheelFactsOf(layer).metadata;
  return requiresDist
    .filter(one => !/\bextra\b/.test(one.split(';', 2)[1] ?? ''))
    .map(one => addedName(/^[\w.-]+/.exec(one)?.[0] ?? ''));
}

const plainName = /^[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?$/;
const plainVersion = /^[\w.+!-]+$/;
const plainFileName = /^[\w.+!-]+\.whl$/;
const longestName = 200;

function checkNames(wheels: readonly WheelFile[]): void {
  const names = new Set<string>();
  for (const { name, version, fileName, sha256 } of wheels) {
    const isPlain =
      plainName.test(name) && plainVersion.test(version) && plainFileName.test(fileName);
    const isShort = [name, version, fileName].every(text => text.length <= longestName);
    if (!isPlain || !isShort || !/^[0-9a-f]{64}$/.test(sha256)) {
      throw new Fault(
        'bad-request',
        `${JSON.stringify(fileName.slice(0, longestName))} is not a wheel with a name, a version and a SHA-256: report it to its index`,
        { phase: 'layer' },
      );
    }
    const plain = projectName(name);
    if (names.has(plain)) {
      throw new Fault('bad-request', `The environment has two wheels of ${plain}: remove one`, {
        phase: 'layer',
      });
    }
    names.add(plain);
  }
}

function withoutPython(): Fault {
  return new Fault(
    'bad-request',
    'The environment has packages from PyPI and no Conda package python: add python to its packages',
    { phase: 'layer' },
  );
}

function byName({ name: one }: WheelFile, { name: other }: WheelFile): number {
  return compareTexts(projectName(one), projectName(other));
}
