import type { CondaPackage } from '../../../conda/index.ts';
import type { Document } from '../../../oci/index.ts';
import { formatPlatform } from '../../../oci/naming.ts';
import type { SealedGrant } from '../../../platform/index.ts';
import type { MixedLayers, WheelFile } from '../../../pypi/index.ts';
import { commitAddress } from '../../../pypi/requirements/index.ts';
import type { Access } from '../../../upstream/index.ts';
import type { DomainMember } from '../../domain.ts';
import { type BuildPlan, recipeIn } from '../../plan/build-plan.ts';
import type { CondaSource } from '../../recipe/conda/conda-source.ts';
import type { RightsOf } from '../build-rights.ts';
import { type ScriptLayers, scriptReason } from '../scripts/script-layers.ts';
import { isRunnable, scriptedPackages } from '../scripts/script-recipe.ts';
import { mustBuild, type WheelBuilds } from '../wheels/build-wheels.ts';
import {
  BuilderRequired,
  type BuilderRules,
  refuseBuilder,
  requireBuilderAllowed,
  sentence,
} from './builder-required.ts';
import type { FindSolution, FoundPlatform } from './find-solution.ts';
import { inLinkOrder } from './make-conda-image.ts';
import { sourceOf } from './python-packages.ts';

/** The packages that a build would install. */
export interface Solution {
  readonly platforms: readonly PlatformPackages[];
  /** What requires a builder, in a sentence; undefined if Sluice makes the image itself. */
  readonly builderReason?: string;
  /** Which packages a builder makes first, in a sentence; undefined for none. */
  readonly wheelReason?: string;
}

export interface PlatformPackages {
  /** `linux/amd64` */
  readonly platform: string;
  readonly packages: readonly PlannedPackage[];
}

/** A package of either kind, and whether its layer exists. One of PyPI has the build that conda lists for it. */
export interface PlannedPackage
  extends Pick<CondaPackage, 'name' | 'version' | 'build' | 'url' | 'size'> {
  readonly isHere: boolean;
  /**
   * True for what a builder makes a wheel of first: what it requires is not known yet. Also for a package whose link script a builder
   * runs, as far as its archive is known.
   */
  readonly mustBuild?: true | undefined;
}

/**
 * Returns the packages that a plan would install, without making anything, or why BuildKit would make the image; undefined
 * for all other plans. Throws a `Fault` for packages without a solution, and where the configuration rejects them.
 */
export type SolutionOf = (
  plan: BuildPlan,
  grant: SealedGrant | undefined,
  signal: AbortSignal,
  caller: SolutionCaller,
) => Promise<Solution | undefined>;

/** Who would request the build. */
export type SolutionCaller = Pick<DomainMember, 'owner' | 'isTrusted'>;

export interface SolutionOfDeps extends BuilderRules {
  readonly findSolution: FindSolution;
  readonly layers: Pick<MixedLayers, 'missing' | 'make'>;
  readonly rightsOf: RightsOf;
  readonly wheelBuilds: Pick<WheelBuilds, 'plan'>;
  readonly scriptLayers: Pick<ScriptLayers, 'isKept'>;
}

export function createSolutionOf(deps: SolutionOfDeps): SolutionOf {
  const { findSolution, layers, rightsOf, wheelBuilds, scriptLayers } = deps;
  return async (plan, grant, signal, caller) => {
    const recipe = recipeIn(plan);
    const native = recipe?.native;
    const { builderReasons: reasons = [] } = recipe ?? {};
    if (reasons.length > 0) return byBuilder(reasons);
    if (!native) return undefined;
    try {
      const origin = { ...recipe, native };
      const rights = rightsOf(grant);
      const log = { write() {} };
      const buildWheels = wheelBuilds.plan({ ...caller, rights, log, signal });
      const isAnonymous = grant === undefined;
      const options = { signal, log: log.write, isAnonymous, buildWheels };
      const found = await findSolution(origin, rights, options);
      const unbuilt = found.platforms.flatMap(({ wheels }) => wheels).filter(mustBuild);
      const reasons: string[] = [...new Set(unbuilt.map(sourceOf))];
      const owner = { ...caller, rights };
      /** Returns the packages whose link scripts have not run. All layers of Conda are here. */
      const toLink = async (
        { packages, wheels, isReplaced, platform, base, access }: LinkedPlatform,
        source: CondaSource,
        lacksWheels: boolean,
      ) => {
        if (packages.length + wheels.length > mostPlanned) return [];
        const environment = { packages, wheels: lacksWheels ? [] : wheels, isReplaced };
        const made = await layers.make(environment, { signal, log: log.write });
        const scripted = inLinkOrder(source, packages, scriptedPackages(made.packages));
        if (scripted.length === 0 || !scripted.every(isRunnable)) return [];
        const unlinked = { platform, access, base, layers: made.layers, scripted };
        const isKept = !lacksWheels && (await scriptLayers.isKept(owner, unlinked));
        return isKept ? [] : scripted;
      };
      if (reasons.length > 0) requireBuilderAllowed(deps, reasons);
      const platforms: PlatformPackages[] = [];
      const scripts = new Set<string>();
      for (const [at, one] of found.platforms.entries()) {
        const { platform, packages: ofConda, wheels } = one;
        const missing = await layers.missing({ packages: ofConda, wheels });
        const urls = new Set([...missing.packages, ...missing.wheels].map(({ url }) => url));
        const base = found.base.images[at];
        const unlinked =
          base && missing.packages.length === 0
            ? await toLink({ ...one, base, access: found.source }, native, urls.size > 0)
            : [];
        for (const { package: it } of unlinked) scripts.add(it.url);
        for (const it of unlinked) reasons.push(scriptReason(it));
        const packages = [
          ...ofConda.map(one => ({
            ...one,
            isHere: !urls.has(one.url),
            ...(scripts.has(one.url) ? ({ mustBuild: true } as const) : {}),
          })),
          ...wheels.map(one => ({ ...asPackage(one), isHere: !urls.has(one.url) })),
        ];
        platforms.push({ platform: formatPlatform(platform), packages });
      }
      if (scripts.size > 0) requireBuilderAllowed(deps, reasons);
      return {
        platforms,
        ...(reasons.length === 0 ? {} : { wheelReason: `${sentence(reasons)} a builder` }),
      };
    } catch (error) {
      if (!(error instanceof BuilderRequired)) throw error;
      refuseBuilder(deps, native, error.reasons);
      return byBuilder(error.reasons);
    }
  };
}

/** Packages that have a layer each. */
const mostPlanned = 90;

interface LinkedPlatform extends FoundPlatform {
  readonly base: Document;
  readonly access: Access;
}

function asPackage(wheel: WheelFile): Omit<PlannedPackage, 'isHere'> {
  const { name, version } = wheel;
  const { commit } = wheel;
  const { url, size } = commit
    ? { url: commitAddress(commit), size: undefined }
    : (wheel.source ?? wheel);
  const built = mustBuild(wheel) ? ({ mustBuild: true } as const) : {};
  return { name, version, build: 'pypi_0', url, size, ...built };
}

function byBuilder(reasons: readonly string[]): Solution {
  return { platforms: [], builderReason: `${sentence(reasons)} a builder` };
}
