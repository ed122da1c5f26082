import type { InjectedLayer } from '../../images/augment/image-change.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { InstalledPackage } from '../installing/installed-package.ts';

/** Makes the layers of an environment, each package once for all images. */
export interface PackageLayers {
  /**
   * Returns the layers of an environment. Fetches and installs only packages that have no layer yet. The same packages
   * give the same layers on every server. Throws a `Fault` for an archive that is unavailable, damaged or harmful.
   */
  make(environment: CondaEnvironmentFiles, options: LayerOptions): Promise<EnvironmentLayers>;
  /** Returns the packages that have no layer yet: their archives would be fetched. */
  missing(environment: CondaEnvironmentFiles): Promise<readonly CondaPackage[]>;
}

/** The packages of an environment for one platform. */
export interface CondaEnvironmentFiles {
  /** In any order. */
  readonly packages: readonly CondaPackage[];
}

export interface LayerOptions {
  readonly signal: AbortSignal;
  /** Receives text for the log of the build. */
  readonly log: (text: string) => void;
}

export interface EnvironmentLayers {
  /** The lowest layer first. Their content is in the content store and was claimed. */
  readonly layers: readonly InjectedLayer[];
  readonly packages: readonly LayeredPackage[];
  /** Variables that the packages set when the environment is activated. */
  readonly variables: Readonly<Record<string, string>>;
}

/** A package of the environment, and what its installation has shown. */
export interface LayeredPackage extends Pick<InstalledPackage, 'index' | 'about' | 'linkScripts'> {
  readonly package: CondaPackage;
}

/** The path of every environment in an image. */
export const environmentPrefix = '/opt/conda';
