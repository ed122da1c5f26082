import type { CondaPackage } from '../../../conda/index.ts';
import { formatPlatform } from '../../../oci/naming.ts';
import type { SealedGrant } from '../../../platform/index.ts';
import type { MixedLayers, WheelFile } from '../../../pypi/index.ts';
import { commitAddress } from '../../../pypi/requirements/index.ts';
import type { DomainMember } from '../../domain.ts';
import { type BuildPlan, recipeIn } from '../../plan/build-plan.ts';
import type { RightsOf } from '../build-rights.ts';
import { mustBuild, type WheelBuilds } from '../wheels/build-wheels.ts';
import {
  BuilderRequired,
  type BuilderRules,
  refuseBuilder,
  requireBuilderAllowed,
  sentence,
} from './builder-required.ts';
import type { FindSolution } from './find-solution.ts';
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
  /** True for a source distribution that a builder makes a wheel of first: what it requires is not known yet. */
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
  readonly layers: Pick<MixedLayers, 'missing'>;
  readonly rightsOf: RightsOf;
  readonly wheelBuilds: Pick<WheelBuilds, 'plan'>;
}

export function createSolutionOf(deps: SolutionOfDeps): SolutionOf {
  const { findSolution, layers, rightsOf, wheelBuilds } = deps;
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
      const reasons = [...new Set(unbuilt.map(sourceOf))];
      if (reasons.length > 0) requireBuilderAllowed(deps, reasons);
      const platforms: PlatformPackages[] = [];
      for (const { platform, packages: ofConda, wheels } of found.platforms) {
        const missing = await layers.missing({ packages: ofConda, wheels });
        const urls = new Set([...missing.packages, ...missing.wheels].map(({ url }) => url));
        const packages = [
          ...ofConda.map(one => ({ ...one, isHere: !urls.has(one.url) })),
          ...wheels.map(one => ({ ...asPackage(one), isHere: !urls.has(one.url) })),
        ];
        platforms.push({ platform: formatPlatform(platform), packages });
      }
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
