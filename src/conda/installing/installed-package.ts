/** Where a package is installed. */
export interface InstallPlace {
  /** Absolute path of the environment: `/opt/conda`. */
  readonly prefix: string;
  /** Required by `noarch: python` packages; undefined for an environment without Python. */
  readonly python?: PythonPlace | undefined;
  /**
   * Paths relative to the prefix that other packages of the environment keep (`resolveClobbering`). The package's own are
   * installed as `__clobbers__/<name>/<path>`. Default: none.
   */
  readonly lostPaths?: readonly string[] | undefined;
}

/** The Python of an environment, as far as `noarch: python` packages depend on it. */
export interface PythonPlace {
  /** Minor version with its ABI flag, such as `3.12` or `3.13t`. */
  readonly minorVersion: string;
  /** Path of the directory for packages, relative to the prefix: `lib/python3.12/site-packages`. */
  readonly sitePackages: string;
}

/** Digests and size of an archive. */
export interface ArchiveSums {
  readonly sha256: string;
  readonly md5: string;
  readonly size: number;
}

/** What the installation of a package has shown. */
export interface InstalledPackage {
  /** The package's own `info/index.json`. */
  readonly index: Readonly<Record<string, unknown>>;
  /** The package's own `info/about.json`: license, home page, summary. */
  readonly about: Readonly<Record<string, unknown>>;
  /** What the archive has, whatever the channel or lock file states. */
  readonly sums: ArchiveSums;
  /** Variables of `etc/conda/env_vars.d/*.json`. */
  readonly variables: Readonly<Record<string, string>>;
  /** Paths of scripts that must run when the package is linked; an installation without running them is incomplete. */
  readonly linkScripts: readonly string[];
}
