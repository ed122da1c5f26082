import type { InjectedLayer } from '../../images/augment/index.ts';
import type { Digest } from '../../oci/digest.ts';
import type { PackageLayerRow } from '../../storage/rows/index.ts';
import type { CondaPackage } from '../conda-package.ts';
import type { InstalledPackage, PythonPlace } from '../installing/installed-package.ts';
import type { DisputeParty } from './environment/settle-disputes.ts';
import type { PackageProgress } from './making/archive-work.ts';

/** Makes the layers of an environment, each package once for all images. */
export interface PackageLayers {
  /**
   * Throws a `Fault` (400) for more packages than an environment may have, and for two of the same name.
   *
   * @param added number of packages of another kind. Default: 0
   */
  check(packages: readonly CondaPackage[], added?: number): void;
  /** Returns where their Python looks for packages; undefined without Python, and if only its archive says that, and it is not here. */
  placeOf(packages: readonly CondaPackage[]): Promise<PythonPlace | undefined>;
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
  /** True for an image with another environment at the same path: a lowest layer removes that. Default: false. */
  readonly isReplaced?: boolean | undefined;
  /** Packages of another kind, which are installed after these. Default: none. */
  readonly added?: AddedPackages | undefined;
}

/** Packages of another kind in the same environment. Their layers lie above those of its Conda packages. */
export interface AddedPackages {
  readonly count: number;
  /** Makes the layers of all of them. Throws a `Fault` for an environment without Python. */
  make(
    python: PythonPlace | undefined,
    options: { readonly inTurn: MakeInTurn; readonly signal: AbortSignal },
  ): Promise<readonly DisputeParty<AddedLayer>[]>;
  /** Returns how far the work for a key is; undefined where nothing is done for it. */
  progressOf(key: string): PackageProgress | undefined;
}

export interface AddedLayer extends PackageLayerRow {
  readonly key: string;
  readonly name: string;
  /** Its name and version, as people write them. */
  readonly title: string;
  /** The work that made it now; undefined for a layer that was here. */
  readonly progress?: PackageProgress | undefined;
}

/**
 * Makes the layer of a package when it is its turn among the packages of the environment, and reports it.
 *
 * @param key of the layer
 * @param name of the package
 */
export type MakeInTurn = <L extends Pick<AddedLayer, 'key' | 'facts' | 'progress'>>(
  key: string,
  name: string,
  work: () => Promise<L>,
) => Promise<L>;

export interface LayerOptions {
  readonly signal: AbortSignal;
  /** Receives lines for the log of the build. */
  readonly log: (line: string) => void;
  /** Receives about every second how far the work is. */
  readonly report?: ((progress: LayerProgress) => void) | undefined;
}

/** How far the work for an environment is. */
export interface LayerProgress {
  /** Packages whose layers are here, and all packages. */
  readonly done: number;
  readonly total: number;
  /** Bytes that were fetched, and those that are fetched in all as far as known. */
  readonly fetched: number;
  readonly fetchedTotal: number;
  /** What is under way or has ended since the last report. */
  readonly parts: readonly PartProgress[];
}

/** How far a download or layer is. */
export interface PartProgress {
  readonly kind: 'download' | 'layer';
  /** `samtools-1.20-h50ea8bc_0` */
  readonly name: string;
  readonly bytes: number;
  /** 0 if unknown. */
  readonly totalBytes: number;
  readonly tookMs: number;
  readonly isDone: boolean;
}

export interface EnvironmentLayers {
  /** The lowest layer first. Their content is in the content store and was claimed. */
  readonly layers: readonly InjectedLayer[];
  /** Those of them that have packages. */
  readonly contents: readonly LayerContents[];
  readonly packages: readonly LayeredPackage[];
  /** Variables that the packages set when the environment is activated. */
  readonly variables: Readonly<Record<string, string>>;
}

/** The packages in a layer, by the keys of their own layers. */
export interface LayerContents {
  readonly digest: Digest;
  readonly keys: readonly string[];
}

/** A package of the environment, and what its installation has shown. */
export interface LayeredPackage extends Pick<InstalledPackage, 'index' | 'about' | 'linkScripts'> {
  readonly package: CondaPackage;
  /** What its archive has; undefined for a layer that an older version has made. */
  readonly sums?: InstalledPackage['sums'] | undefined;
}

/** The path of every environment in an image. */
export const environmentPrefix = '/opt/conda';
