/** A wheel of a solution or of a lock file: one file of an index of Python packages. */
export interface WheelFile {
  /** In any spelling: {@link projectName} compares names. */
  readonly name: string;
  readonly version: string;
  /** `numpy-2.1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl` */
  readonly fileName: string;
  /** The address where the wheel is published, without credentials. It is not part of what is installed. */
  readonly url: string;
  /** Bytes of the file. */
  readonly size?: number | undefined;
  /** Lower-case hex digits. */
  readonly sha256: string;
  /**
   * What `direct_url.json` says about a wheel that was requested by its address or built from a repository, without credentials.
   * Source: PyPA specifications, Recording the Direct URL Origin.
   */
  readonly directUrl?: Readonly<Record<string, unknown>> | undefined;
  /** What a wheel was built from, for one that no index has. */
  readonly source?: SourceFile | undefined;
  /** What a wheel was built from, for one of a repository. */
  readonly commit?: GitCommit | undefined;
}

/** A wheel that a request names by its address, with or without its digest. */
export type AddressedWheel = Omit<WheelFile, 'sha256'> & Partial<Pick<WheelFile, 'sha256'>>;

/** A project in a commit of a git repository. */
export interface GitCommit {
  /** https, without credentials, query and fragment. */
  readonly url: string;
  /** 40 lower-case hex digits. */
  readonly id: string;
  /** Folder of the project; undefined for that of the repository. */
  readonly subdirectory?: string | undefined;
}

/** A source distribution: one file of an index. */
export interface SourceFile {
  /** `docopt-0.6.2.tar.gz` */
  readonly fileName: string;
  /** The address where it is published, without credentials. */
  readonly url: string;
  /** Bytes of the file. */
  readonly size?: number | undefined;
  /** Lower-case hex digits. */
  readonly sha256: string;
}

/** A wheel that was built here, and what a solver reads about it. */
export interface BuiltWheel extends WheelFile {
  /** The text of its `METADATA`. */
  readonly metadata: string;
}

/** Returns the name of a project as indexes compare it. Source: PyPA specifications, Names and normalization. */
export function projectName(name: string): string {
  return name.replace(/[-_.]+/g, '-').toLowerCase();
}
