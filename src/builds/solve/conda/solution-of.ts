import type { CondaPackage } from '../../../conda/index.ts';
import { formatPlatform } from '../../../oci/naming.ts';
import type { SealedGrant } from '../../../platform/index.ts';
import type { MixedLayers, WheelFile } from '../../../pypi/index.ts';
import { type BuildPlan, recipeIn } from '../../plan/build-plan.ts';
import type { RightsOf } from '../build-rights.ts';
import { BuilderRequired, type BuilderRules, refuseBuilder, sentence } from './builder-required.ts';
import type { FindSolution } from './find-solution.ts';

/** The packages that a build would install. */
export interface Solution {
  readonly platforms: readonly PlatformPackages[];
  /** What requires a builder, in a sentence; undefined if Sluice makes the image itself. */
  readonly builderReason?: string;
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
}

/**
 * Returns the packages that a plan would install, without making anything, or why BuildKit would make the image; undefined
 * for all other plans. Throws a `Fault` for packages without a solution, and where the configuration rejects them.
 */
export type SolutionOf = (
  plan: BuildPlan,
  grant: SealedGrant | undefined,
  signal: AbortSignal,
) => Promise<Solution | undefined>;

export interface SolutionOfDeps extends BuilderRules {
  readonly findSolution: FindSolution;
  readonly layers: Pick<MixedLayers, 'missing'>;
  readonly rightsOf: RightsOf;
}

export function createSolutionOf(deps: SolutionOfDeps): SolutionOf {
  const { findSolution, layers, rightsOf } = deps;
  return async (plan, grant, signal) => {
    const recipe = recipeIn(plan);
    const native = recipe?.native;
    const { builderReasons: reasons = [] } = recipe ?? {};
    if (reasons.length > 0) return byBuilder(reasons);
    if (!native) return undefined;
    try {
      const origin = { ...recipe, native };
      const options = { signal, log: () => {}, isAnonymous: grant === undefined };
      const found = await findSolution(origin, rightsOf(grant), options);
      const platforms: PlatformPackages[] = [];
      for (const { platform, packages: ofConda, wheels } of found.platforms) {
        const missing = await layers.missing({ packages: ofConda, wheels });
        const urls = new Set([...missing.packages, ...missing.wheels].map(({ url }) => url));
        const packages = [...ofConda, ...wheels.map(asPackage)];
        platforms.push({
          platform: formatPlatform(platform),
          packages: packages.map(one => ({ ...one, isHere: !urls.has(one.url) })),
        });
      }
      return { platforms };
    } catch (error) {
      if (!(error instanceof BuilderRequired)) throw error;
      refuseBuilder(deps, native, error.reasons);
      return byBuilder(error.reasons);
    }
  };
}

function asPackage({ name, version, url, size }: WheelFile): Omit<PlannedPackage, 'isHere'> {
  return { name, version, build: 'pypi_0', url, size };
}

function byBuilder(reasons: readonly string[]): Solution {
  return { platforms: [], builderReason: `${sentence(reasons)} a builder` };
}
