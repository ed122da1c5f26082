/** A package of a solution or of a lock file: one archive of a channel. */
export interface CondaPackage {
  readonly name: string;
  readonly version: string;
  /** The build string, such as `py312_0`. */
  readonly build: string;
  readonly buildNumber: number;
  /** `noarch`, `linux-64` or `linux-aarch64`. */
  readonly subdir: string;
  /** `<name>-<version>-<build>.conda` or `.tar.bz2`. */
  readonly fileName: string;
  /** The address where the archive is published, without credentials. */
  readonly url: string;
  /** Bytes of the archive. */
  readonly size?: number | undefined;
  /** Lower-case hex digits. */
  readonly sha256?: string | undefined;
  readonly md5?: string | undefined;
  /** Match specifications of the packages that it requires. */
  readonly depends: readonly string[];
  /** The record as the repository data has it; undefined for a package of a lock file. */
  readonly record?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * True for `noarch: python` packages, and for those of the subdirectory `noarch` of which nothing says what they are: lock
 * files do not, nor do channels that were made by hand.
 */
export function mayDependOnPython({ subdir, record }: CondaPackage): boolean {
  const noarch = record?.noarch ?? undefined;
  return noarch === 'python' || (subdir === 'noarch' && noarch === undefined);
}

// They become parts of paths and of addresses. Source: CEP 26, and conda, Package naming conventions.
const plainPart = /^[A-Za-z0-9_][A-Za-z0-9_.+!~-]*$/;
const plainFileName = /^[A-Za-z0-9_][A-Za-z0-9_.+!~-]*\.(?:conda|tar\.bz2)$/;
const longestPart = 200;

/** Returns true when the names in a package can be parts of paths: a channel can write anything into its data. */
export function hasPlainNames(it: Pick<CondaPackage, 'name' | 'version' | 'build' | 'fileName'>) {
  return (
    [it.name, it.version, it.build].every(
      text => plainPart.test(text) && text.length <= longestPart,
    ) &&
    plainFileName.test(it.fileName) &&
    it.fileName.length <= longestPart
  );
}
