import type { FetchArchive, LayeredPackage } from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { Semaphore } from '../../../foundation/semaphore.ts';
import { inTurns } from '../../../foundation/work.ts';
import { formatPlatform } from '../../../oci/naming.ts';
import {
  type BuiltWheel,
  type CommitFinder,
  checkBuiltWheel,
  identityOfWheel,
  type KeptWheels,
  type MixedLayers,
  type PythonSolver,
  type RepositoryReader,
  UvFailed,
  type WheelFile,
  WheelsMissing,
} from '../../../pypi/index.ts';
import {
  commitAddress,
  directUrlOf,
  projectName,
  readPipLine,
} from '../../../pypi/requirements/index.ts';
import { domainOfCaller, type LabelOf, type TrustDomain } from '../../domain.ts';
import type { StepCount } from '../../logs/run-step.ts';
import { createOfferEnvironment, type EnvironmentImageDeps } from '../bases/environment-image.ts';
import { isForOtherPlatform } from '../build-fault.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';
import { type CommitParts, currentNote, partsOfCommit } from './commit-parts.ts';
import type { RunWheelBuild, WheelResult } from './run-wheel-build.ts';
import {
  endOfAny,
  type KeyedPlace,
  keyOfAny,
  keyOfSource,
  keyOfWheel,
  type SourceToBuild,
  type WheelEnvironment,
} from './wheel-sources.ts';

/** Builds wheels, or returns those that were built of the same before. Throws a `Fault` for a build that fails. */
export type BuildWheels = (
  sources: readonly SourceToBuild[],
  environment: WheelEnvironment,
) => Promise<readonly BuiltWheel[]>;

/** The caller of a build that needs wheels. */
export interface RequirementsCaller extends Pick<BuildRun, 'owner' | 'isTrusted' | 'signal'> {
  readonly rights: Pick<BuildRights, 'limits'>;
  readonly log: Pick<BuildRun['log'], 'write'>;
}

/** The build that wheels are for. */
export type WheelCaller = Pick<BuildRun, 'owner' | 'isTrusted' | 'log' | 'signal'> & {
  readonly rights: Pick<BuildRights, 'limits' | 'forBuilder'>;
  readonly count: StepCount;
  /** Called before a builder is asked for. Throws where none may be used. */
  readonly beforeBuilder: (sources: readonly SourceToBuild[], domain: TrustDomain) => Promise<void>;
  /** Throws for packages that an environment of a builder cannot have. */
  readonly checkPackages: (packages: readonly LayeredPackage[]) => void;
};

export interface BuildWheelsDeps extends EnvironmentImageDeps {
  readonly kept: KeptWheels;
  readonly layers: Pick<MixedLayers, 'make' | 'missing'>;
  readonly pythonSolver: Pick<PythonSolver, 'solve'>;
  /** Fetches files of indexes, and verifies their digests. */
  readonly fetchFile: FetchArchive;
  readonly commits: Pick<CommitFinder, 'check'>;
  readonly repositories: RepositoryReader;
  readonly run: RunWheelBuild;
  readonly labelOf: LabelOf;
}

/** What every build of a wheel has: those of a `pyproject.toml` that names nothing else, as in pip. */
const usualRequirements = ['pip', 'setuptools', 'wheel'];
/** A build shows one requirement after the other that is not in its `pyproject.toml`. */
const mostTries = 5;
const mostRequirements = 100;
const filesAtOnce = 4;
/** Packages that have a layer each. */
const mostPlanned = 90;

/** Builds wheels for images, and plans that without a builder. */
export interface WheelBuilds {
  build(caller: WheelCaller): BuildWheels;
  /**
   * Returns wheels that were built before, and for each other one a stand-in that requires nothing. Its address is that of its source:
   * see {@link mustBuild}.
   */
  plan(caller: RequirementsCaller): BuildWheels;
}

/** Returns true for a wheel of a plan that does not exist yet. */
export function mustBuild({ source, commit, url }: WheelFile): boolean {
  return url === (commit ? commitAddress(commit) : source?.url);
}

export function createWheelBuilds(deps: BuildWheelsDeps): WheelBuilds {
  const { kept, layers, pythonSolver, fetchFile } = deps;
  const turns = new Semaphore({ perKey: 1 });
  const offerEnvironment = createOfferEnvironment(deps);

  /** Returns the wheels of what a build requires. They have an environment of their own: that of the image does not count. */
  const requiredWheels = async (
    given: SourceToBuild,
    requirements: readonly string[],
    { target, indexes }: WheelEnvironment,
    { log, signal, isTrusted }: RequirementsCaller,
  ): Promise<readonly WheelFile[]> => {
    const failed = (what: string) =>
      new Fault('bad-request', `The build of ${titleOf(given)} requires ${what}`, {
        phase: 'build',
      });
    const lines = requirements.map(text => ({ text, line: readPipLine(text) }));
    const projects = lines.map(({ text, line }) => {
      if (line.kind === 'project') return line;
      throw failed(`${JSON.stringify(text.slice(0, 200))}, which is not the name of a project`);
    });
    const request = { requirements: projects, packages: [], target, indexes };
    const options = {
      log: (line: string) => log.write(`${line}\n`),
      signal,
      isAnonymous: !isTrusted,
    };
    try {
      return await pythonSolver.solve(request, options);
    } catch (error) {
      if (error instanceof WheelsMissing) {
        const names = error.projects.map(one => one.name).join(', ');
        throw failed(`${names}, of which the index has no wheel: add a version that has one`);
      }
      if (error instanceof UvFailed) {
        log.write(`uv: ${error.words}\n`);
        throw failed(`packages that uv cannot choose: ${error.reason}`);
      }
      throw error instanceof Fault
        ? error.withMessage(`The build of ${titleOf(given)} cannot begin. ${error.message}`)
        : error;
    }
  };

  /** Returns the layers of an environment, with its packages of Conda alone. */
  const layersOf = (
    { packages, isReplaced }: WheelEnvironment,
    { log, signal }: RequirementsCaller,
  ) => {
    const options = { signal, log: (line: string) => log.write(`${line}\n`) };
    return layers.make({ packages, wheels: [], isReplaced }, options);
  };

  const buildOne = async (
    given: SourceToBuild,
    environment: WheelEnvironment,
    caller: WheelCaller,
    { image, key, domain, wheels, parts }: BuildPlace,
  ): Promise<WheelResult & { readonly sourceBytes: number | undefined }> => {
    const { log, count, signal, rights } = caller;
    const title = titleOf(given);
    await using files = new AsyncDisposableStack();
    const wanted = [...(given.source ? [given.source] : []), ...wheels];
    const found = await inTurns(filesAtOnce, wanted, async file => {
      const archive = await fetchFile(file, signal);
      // Another one may have failed meanwhile.
      if (files.disposed) await archive[Symbol.asyncDispose]();
      else files.use(archive);
      return { fileName: file.fileName, path: archive.path, size: archive.size };
    });
    const origin = given.commit
      ? `is built from ${commitAddress(given.commit)}`
      : `has no wheel: it is built from ${given.source.fileName}`;
    log.write(`\n${title} ${origin}, without a network (${key.slice(0, 12)})\n`);
    const result = await deps.run({
      title,
      environment: image,
      platform: formatPlatform(environment.platform),
      files: found,
      parts,
      access: rights.forBuilder(undefined),
      domain,
      log,
      count,
      signal,
    });
    return { ...result, sourceBytes: given.source && found[0]?.size };
  };

  /** Builds a wheel, again with the wheels that the build has missed. */
  const buildMissing = async (
    { given, key: sourceKey }: MissingWheel,
    environment: WheelEnvironment,
    caller: WheelCaller,
    place: Pick<BuildPlace, 'image' | 'domain'>,
  ): Promise<BuiltWheel> => {
    // Also what another build has shown while this one waited.
    let requirements = (await kept.notesOf(sourceKey))?.requirements ?? usualRequirements;
    await using parts =
      given.commit && (await partsOfCommit(deps.repositories, given.commit, caller));
    const history = parts?.note;
    for (let tries = 1; ; tries += 1) {
      const wheels = await requiredWheels(given, requirements, environment, caller);
      const key = keyOfWheel(sourceKey, wheels, history);
      const there = await kept.find(key);
      if (there) {
        requireName(given, there.name);
        return there;
      }
      const anyKey = keyOfAny(given, environment, wheels, deps.labelOf(place.domain.name));
      const result = await buildOne(given, environment, caller, {
        ...place,
        key,
        wheels,
        parts,
      }).catch(async (error: unknown) => {
        if (!isForOtherPlatform(error)) throw error;
        const any = anyKey === undefined ? undefined : await kept.find(anyKey);
        if (any) return { any };
        caller.log.write(
          `${titleOf(given)} was not built for another platform either: if it has no compiled parts, request a platform of the builder first\n`,
        );
        throw error;
      });
      if ('any' in result) {
        checkBuiltWheel(result.any, environment.target);
        const same = await kept.alias(key, result.any);
        await kept.note(sourceKey, { requirements, history }, same);
        return same;
      }
      if (!('missing' in result)) {
        const { fileName, metadata, bytes, sourceBytes } = result;
        let wheel: Omit<BuiltWheel, 'url' | 'sha256' | 'size'>;
        try {
          wheel = { ...originOf(given, { fileName, sourceBytes }), fileName, metadata };
          checkBuiltWheel(wheel, environment.target);
        } catch (error) {
          await bytes.abort();
          throw error;
        }
        const made = await kept.keep(key, wheel, bytes);
        await kept.note(sourceKey, { requirements, history }, made);
        if (anyKey !== undefined && given.source && fileName.endsWith(endOfAny)) {
          await kept.alias(anyKey, made);
        }
        return made;
      }
      const more = [...new Set([...requirements, ...result.missing])];
      const isSame = more.length === requirements.length;
      if (isSame || tries === mostTries || more.length > mostRequirements) {
        throw unbuildable(given, result.missing);
      }
      requirements = more;
    }
  };

  /** Returns the wheel of a build that has ended; undefined where none has, and where one would see something else now. */
  const keptWheel = async (
    given: SourceToBuild,
    sourceKey: string,
    environment: WheelEnvironment,
    caller: RequirementsCaller,
  ): Promise<BuiltWheel | undefined> => {
    const notes = await kept.notesOf(sourceKey);
    if (notes === undefined) return undefined;
    const { requirements, history: noted } = notes;
    const wheels = await requiredWheels(given, requirements, environment, caller);
    const { commit } = given;
    const history = commit && (await currentNote(deps.repositories, commit, noted, caller));
    const wheel = await kept.find(keyOfWheel(sourceKey, wheels, history));
    if (wheel && history?.listed !== noted?.listed) {
      await kept.note(sourceKey, { requirements, history }, wheel);
    }
    return wheel;
  };

  /** Returns the wheels that are here, and what is missing. */
  const lookUp = async (
    sources: readonly SourceToBuild[],
    environment: WheelEnvironment,
    caller: RequirementsCaller,
    place: KeyedPlace,
  ) => {
    const found: BuiltWheel[] = [];
    const missing: MissingWheel[] = [];
    for (const given of sources) {
      const key = keyOfSource(given, environment, place);
      const wheel = await keptWheel(given, key, environment, caller);
      if (wheel) {
        requireName(given, wheel.name);
        found.push(wheel);
        continue;
      }
      if (given.commit) await deps.commits.check(given.commit.url);
      missing.push({ given, key });
    }
    return { found, missing };
  };

  const domainOf = ({ rights, ...caller }: RequirementsCaller) =>
    domainOfCaller({ ...caller, limits: rights.limits });

  return {
    build: caller => async (sources, environment) => {
      const domain = domainOf(caller);
      const made = await layersOf(environment, caller);
      caller.checkPackages(made.packages);
      const place = { layers: made.layers, domain: deps.labelOf(domain.name) };
      const { found, missing } = await lookUp(sources, environment, caller, place);
      if (missing.length === 0) return found;
      await caller.beforeBuilder(
        missing.map(({ given }) => given),
        domain,
      );
      using image = await offerEnvironment(environment, made.layers, caller.signal);
      for (const one of missing) {
        // Images that begin together share a build: the second one finds its wheel.
        const work = () => buildMissing(one, environment, caller, { image: image.name, domain });
        found.push(await turns.run(work, { key: one.key, signal: caller.signal }));
      }
      return found;
    },

    plan: caller => async (sources, environment) => {
      const { packages, isReplaced } = environment;
      const { packages: unmade } = await layers.missing({ packages, wheels: [], isReplaced });
      // Nothing was built for an environment that was not made. Layers of several packages are not made to find out.
      if (unmade.length > 0 || packages.length > mostPlanned) return sources.map(standIn);
      const made = await layersOf(environment, caller);
      const place = { layers: made.layers, domain: deps.labelOf(domainOf(caller).name) };
      const { found, missing } = await lookUp(sources, environment, caller, place);
      return [...found, ...missing.map(({ given }) => standIn(given))];
    },
  };
}

/** Returns what is known about the wheel of a build. Throws a `Fault` for a commit of another project than the caller names. */
function originOf(
  given: SourceToBuild,
  { fileName, sourceBytes: size }: { fileName: string; sourceBytes: number | undefined },
): Pick<BuiltWheel, 'name' | 'version' | 'source' | 'commit' | 'directUrl'> {
  if (given.source) {
    const { name, version, source } = given;
    return { name, version, source: { ...source, size } };
  }
  const { commit } = given;
  const identity = identityOfWheel(fileName);
  if (identity === undefined) {
    throw refuseBuilt(
      given,
      `has made a wheel with the name ${JSON.stringify(fileName.slice(0, 200))}, which has no name and version that can be read`,
    );
  }
  requireName(given, identity.name);
  return { ...identity, commit, directUrl: directUrlOf(commit) };
}

function requireName(given: SourceToBuild, found: string): void {
  if (given.name === undefined || projectName(given.name) === projectName(found)) return;
  throw refuseBuilt(given, `has made a wheel of ${found}: write that name`);
}

function refuseBuilt(given: SourceToBuild, what: string): Fault {
  return new Fault('bad-request', `The build of ${titleOf(given)} ${what}`, { phase: 'build' });
}

function standIn(given: SourceToBuild): BuiltWheel {
  if (given.commit) {
    const { commit } = given;
    const last = (commit.subdirectory ?? commit.url.replace(/\.git$/, '')).split('/').at(-1) ?? '';
    const name = projectName(given.name ?? last.replace(/[^A-Za-z0-9]+/g, '-')).replace(
      /^-|-$/g,
      '',
    );
    const file = { name, version: commit.id, fileName: `${name}.whl`, sha256: '0'.repeat(64) };
    return { ...file, url: commitAddress(commit), commit, metadata: '' };
  }
  const { name, version, source } = given;
  const { url, sha256 } = source;
  const fileName = `${name.replaceAll('-', '_')}-${version}-py3-none-any.whl`;
  const metadata = `Metadata-Version: 2.1\nName: ${name}\nVersion: ${version}\n`;
  return { name, version, fileName, url, sha256, source, metadata };
}

/** A wheel that is not here. */
interface MissingWheel {
  readonly given: SourceToBuild;
  /** Key of the source distribution in its environment. */
  readonly key: string;
}

interface BuildPlace {
  /** Name of the environment's image. */
  readonly image: string;
  readonly key: string;
  readonly domain: TrustDomain;
  readonly wheels: readonly WheelFile[];
  /** For a commit: what belongs to it. */
  readonly parts: CommitParts | undefined;
}

/** Returns what is built, for messages: `docopt 0.6.2`. */
export function titleOf(given: SourceToBuild): string {
  if (!given.commit) return `${given.name} ${given.version}`;
  const { url, id } = given.commit;
  return `${given.name ?? url} at ${id.slice(0, 12)}`;
}

function unbuildable(given: SourceToBuild, missing: readonly string[]): Fault {
  // The authors of packages wrote these texts.
  const names = missing.slice(0, 10).map(name => JSON.stringify(name.slice(0, 100)));
  return new Fault(
    'bad-request',
    `The build of ${titleOf(given)} requires packages that it cannot have: ${names.join(', ')}. Ask for a version with a wheel`,
    { phase: 'build' },
  );
}
