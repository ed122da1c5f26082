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
}

/** Returns the name of a project as indexes compare it. Source: PyPA specifications, Names and normalization. */
export function projectName(name: string): string {
  return name.replace(/[-_.]+/g, '-').toLowerCase();
}
