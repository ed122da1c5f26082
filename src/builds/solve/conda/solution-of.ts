import type { CondaPackage } from '../../../conda/conda-package.ts';
import type { PackageLayers } from '../../../conda/layers/package-layers.ts';
import { formatPlatform } from '../../../oci/platform.ts';
import type { SealedGrant } from '../../../platform/identities.ts';
import { type BuildPlan, recipeIn } from '../../plan/build-plan.ts';
import type { RightsOf } from '../build-rights.ts';
import { BuilderRequired, sentence } from './builder-required.ts';
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

/** A package, and whether its layer exists. */
export interface PlannedPackage extends CondaPackage {
  readonly isHere: boolean;
}

/**
 * Returns the packages that a plan would install, without making anything; undefined for a plan that BuildKit carries
 * out. Throws a `Fault` for packages without a solution.
 */
export type SolutionOf = (
  plan: BuildPlan,
  grant: SealedGrant | undefined,
  signal: AbortSignal,
) => Promise<Solution | undefined>;

export interface SolutionOfDeps {
  readonly findSolution: FindSolution;
  readonly layers: Pick<PackageLayers, 'missing'>;
  readonly rightsOf: RightsOf;
}

export function createSolutionOf({ findSolution, layers, rightsOf }: SolutionOfDeps): SolutionOf {
  return async (plan, grant, signal) => {
    const recipe = recipeIn(plan);
    const native = recipe?.native;
    if (!native) return undefined;
    try {
      const origin = { ...recipe, native };
      const found = await findSolution(origin, rightsOf(grant), { signal, log: () => {} });
      const platforms: PlatformPackages[] = [];
      for (const { platform, packages } of found.platforms) {
        const missing = await layers.missing({ packages });
        const urls = new Set(missing.map(({ url }) => url));
        platforms.push({
          platform: formatPlatform(platform),
          packages: packages.map(one => ({ ...one, isHere: !urls.has(one.url) })),
        });
      }
      return { platforms };
    } catch (error) {
      if (!(error instanceof BuilderRequired)) throw error;
      return { platforms: [], builderReason: `${sentence(error.reasons)} a builder` };
    }
  };
}
