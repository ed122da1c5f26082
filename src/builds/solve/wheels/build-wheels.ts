import { createHash } from 'node:crypto';
import {
  type CondaPackage,
  environmentPrefix,
  type FetchArchive,
  type LayeredPackage,
} from '../../../conda/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { inTurns } from '../../../foundation/work.ts';
import type { Documents, ImageMaker, ImageToVerify, VerifyImage } from '../../../images/index.ts';
import type { Document } from '../../../oci/index.ts';
import { formatPlatform, type Platform } from '../../../oci/naming.ts';
import {
  type BuiltWheel,
  fitOfWheel,
  type KeptWheels,
  type MixedLayers,
  type PythonSolver,
  type PythonTarget,
  type SourceFile,
  type WheelFile,
  WheelsMissing,
} from '../../../pypi/index.ts';
import { type NamedIndex, readPipLine } from '../../../pypi/requirements/index.ts';
import type { Access } from '../../../upstream/index.ts';
import { domainOfCaller, type LabelOf, type TrustDomain } from '../../domain.ts';
import type { StepCount } from '../../logs/run-step.ts';
import type { OfferImage } from '../bases/prepare-bases.ts';
import type { BuildRights } from '../build-rights.ts';
import type { BuildRun } from '../build-run.ts';
import type { RunWheelBuild, WheelResult } from './run-wheel-build.ts';
import { wheelRecipeVersion } from './wheel-recipe.ts';

/** A version of a project that has no wheel for an image. */
export interface SourceToBuild {
  readonly name: string;
  readonly version: string;
  readonly source: SourceFile;
}

/** What wheels are built for: their environment is the image with its packages of Conda. */
export interface WheelEnvironment {
  readonly platform: Platform;
  readonly access: Access;
  /** Manifest of the base image. */
  readonly base: Document;
  /** True for a base image with an environment of its own, which the packages replace. */
  readonly isReplaced: boolean;
  readonly packages: readonly CondaPackage[];
  readonly target: PythonTarget;
  /** Indexes that the request names. */
  readonly indexes: readonly NamedIndex[];
}

/** Builds wheels, or returns those that were built of the same before. Throws a `Fault` for a build that fails. */
export type BuildWheels = (
  sources: readonly SourceToBuild[],
  environment: WheelEnvironment,
) => Promise<readonly BuiltWheel[]>;

/** The build that wheels are for. */
export type WheelCaller = Pick<
  BuildRun,
  'id' | 'owner' | 'isTrusted' | 'requireBuilder' | 'log' | 'signal'
> & {
  readonly rights: Pick<BuildRights, 'limits' | 'forBuilder'>;
  readonly count: StepCount;
  /** Called before a builder is asked for. Throws where none may be used. */
  readonly beforeBuilder: (sources: readonly SourceToBuild[], domain: TrustDomain) => Promise<void>;
  /** Throws for packages that an environment of a builder cannot have. */
  readonly checkPackages: (packages: readonly LayeredPackage[]) => void;
};

export interface BuildWheelsDeps {
  readonly kept: KeptWheels;
  readonly layers: Pick<MixedLayers, 'make'>;
  readonly makeImage: ImageMaker;
  readonly documents: Documents;
  readonly verify: VerifyImage;
  readonly offer: OfferImage;
  readonly pythonSolver: Pick<PythonSolver, 'solve'>;
  /** Fetches files of indexes, and verifies their digests. */
  readonly fetchFile: FetchArchive;
  readonly run: RunWheelBuild;
  readonly labelOf: LabelOf;
}

/** What every build of a wheel has: those of a `pyproject.toml` that names nothing else, as in pip. */
const usualRequirements = ['pip', 'setuptools', 'wheel'];
/** A build shows one requirement after the other that is not in its `pyproject.toml`. */
const mostTries = 5;
const mostRequirements = 100;
const filesAtOnce = 4;

/** @returns the function for one build of an image */
export function createBuildWheels(deps: BuildWheelsDeps): (caller: WheelCaller) => BuildWheels {
  const { kept, layers, pythonSolver, fetchFile } = deps;

  /** Returns the wheels of what a build requires. They have an environment of their own: that of the image does not count. */
  const requiredWheels = async (
    { name, version }: SourceToBuild,
    requirements: readonly string[],
    { target, indexes }: WheelEnvironment,
    { log, signal, isTrusted }: WheelCaller,
  ): Promise<readonly WheelFile[]> => {
    const failed = (what: string) =>
      new Fault('bad-request', `The build of ${name} ${version} requires ${what}`, {
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
      throw error instanceof Fault
        ? error.retold(`The build of ${name} ${version} cannot begin. ${error.message}`)
        : error;
    }
  };

  /** Makes the image that wheels are built in, which only this build gets. */
  const environmentOf = async (
    { platform, access, base, isReplaced, packages }: WheelEnvironment,
    { log, signal, checkPackages }: WheelCaller,
  ) => {
    const options = { signal, log: (line: string) => log.write(`${line}\n`) };
    const made = await layers.make({ packages, wheels: [], isReplaced }, options);
    checkPackages(made.packages);
    const change = {
      layers: made.layers,
      env: [`CONDA_PREFIX=${environmentPrefix}`],
    };
    const { root, generated } = await deps.makeImage(access, base, change);
    const own = new Set<string>([
      ...generated.keys(),
      ...made.layers.map(({ gzipDigest }) => gzipDigest),
    ]);
    const { documents } = deps;
    const image: ImageToVerify = {
      ...{ root, access, platforms: [platform] },
      owns: digest => own.has(digest),
      // No registry has what was written for it.
      documents: {
        manifest: async (of, digest, mediaType) =>
          generated.get(digest) ?? documents.manifest(of, digest, mediaType),
        config: async (of, config) => generated.get(config.digest) ?? documents.config(of, config),
      },
    };
    const verified = await deps.verify(image, signal, () => {});
    return deps.offer({ ...verified, access, repository: 'environment' });
  };

  const buildOne = async (
    given: SourceToBuild,
    environment: WheelEnvironment,
    caller: WheelCaller,
    { image, key, domain, wheels }: BuildPlace,
  ): Promise<WheelResult & { readonly sourceBytes: number | undefined }> => {
    const { log, count, signal, rights } = caller;
    const title = titleOf(given);
    await using files = new AsyncDisposableStack();
    const wanted = [given.source, ...wheels];
    const found = await inTurns(filesAtOnce, wanted, async file => {
      const archive = files.use(await fetchFile(file, signal));
      return { fileName: file.fileName, path: archive.path, size: archive.size };
    });
    log.write(
      `\n${title} has no wheel: it is built from ${given.source.fileName}, without a network (${key.slice(0, 12)})\n`,
    );
    const result = await deps.run({
      title,
      environment: image,
      platform: formatPlatform(environment.platform),
      files: found,
      access: rights.forBuilder(undefined),
      ...{ domain, log, count, signal },
    });
    return { ...result, sourceBytes: found[0]?.size };
  };

  return caller => async (sources, environment) => {
    const domain = domainOfCaller({ ...caller, limits: caller.rights.limits });
    const place = { environment, domain: deps.labelOf(domain.name) };
    const found: BuiltWheel[] = [];
    const missing: SourceToBuild[] = [];
    const planned = new Map<SourceToBuild, RequiredWheels>();
    for (const given of sources) {
      const sourceKey = keyOfSource(given, place);
      const requirements = (await kept.requirementsOf(sourceKey)) ?? usualRequirements;
      const wheels = await requiredWheels(given, requirements, environment, caller);
      planned.set(given, { requirements, wheels });
      const wheel = await kept.find(keyOfWheel(sourceKey, wheels));
      if (wheel) found.push(wheel);
      else missing.push(given);
    }
    if (missing.length === 0) return found;
    await caller.beforeBuilder(missing, domain);
    using image = await environmentOf(environment, caller);
    for (const given of missing) {
      const sourceKey = keyOfSource(given, place);
      let { requirements, wheels } = planned.get(given) as RequiredWheels;
      for (let tries = 1; ; tries += 1) {
        const key = keyOfWheel(sourceKey, wheels);
        const result = await buildOne(given, environment, caller, {
          image: image.name,
          ...{ key, domain, wheels },
        });
        if ('missing' in result) {
          const more = [...new Set([...requirements, ...result.missing])];
          const isSame = more.length === requirements.length;
          if (isSame || tries === mostTries || more.length > mostRequirements) {
            throw unbuildable(given, result.missing);
          }
          requirements = more;
          wheels = await requiredWheels(given, requirements, environment, caller);
          continue;
        }
        const { fileName, metadata, bytes } = result;
        try {
          requireFitting(given, fileName, environment.target);
        } catch (error) {
          await bytes.abort();
          throw error;
        }
        const { name, version } = given;
        const source = { ...given.source, size: result.sourceBytes };
        const wheel = await kept.keep(key, { name, version, fileName, metadata, source }, bytes);
        await kept.noteRequirements(sourceKey, requirements, wheel);
        found.push(wheel);
        break;
      }
    }
    return found;
  };
}

interface RequiredWheels {
  readonly requirements: readonly string[];
  readonly wheels: readonly WheelFile[];
}

interface BuildPlace {
  /** Name of the environment's image. */
  readonly image: string;
  readonly key: string;
  readonly domain: TrustDomain;
  readonly wheels: readonly WheelFile[];
}

/**
 * Returns the key of a source distribution in an environment: all that its build sees but the wheels that it requires. A build runs
 * the code of strangers, so that only callers of one domain share what it makes.
 */
function keyOfSource(
  { name, version, source }: SourceToBuild,
  { environment, domain }: { environment: WheelEnvironment; domain: string },
): string {
  const { platform, base, isReplaced, packages } = environment;
  const archives = packages.map(({ url, sha256, md5 }) => [url, sha256 ?? md5 ?? null]);
  return keyOf([
    ...['built wheel', wheelRecipeVersion, domain, name, version, source.fileName, source.sha256],
    ...[formatPlatform(platform), base.digest, isReplaced, environmentPrefix],
    archives.toSorted(([one = ''], [other = '']) => ((one ?? '') < (other ?? '') ? -1 : 1)),
  ]);
}

function keyOfWheel(sourceKey: string, wheels: readonly WheelFile[]): string {
  return keyOf([sourceKey, wheels.map(({ fileName, sha256 }) => `${fileName} ${sha256}`).sort()]);
}

function keyOf(subject: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(subject)).digest('hex');
}

function titleOf({ name, version }: SourceToBuild): string {
  return `${name} ${version}`;
}

function requireFitting(given: SourceToBuild, fileName: string, target: PythonTarget): void {
  if (fitOfWheel(fileName, target) !== undefined) return;
  throw new Fault(
    'bad-request',
    `The build of ${titleOf(given)} has made ${JSON.stringify(fileName.slice(0, 200))}, which does not run with Python ${target.version} on Linux for ${target.machine}`,
    { phase: 'build' },
  );
}

function unbuildable(given: SourceToBuild, missing: readonly string[]): Fault {
  return new Fault(
    'bad-request',
    `The build of ${titleOf(given)} requires packages that it cannot have: ${missing.slice(0, 10).join(', ')}. Ask for a version with a wheel`,
    { phase: 'build' },
  );
}
