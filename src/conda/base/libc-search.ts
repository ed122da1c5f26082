import type { TarEntry, TarVisitor } from '../../archives/index.ts';
import { namedArchitectures } from '../../oci/index.ts';

/** The C library of an image. */
export type Libc =
  | { readonly kind: 'glibc'; readonly version: string }
  /** musl: packages of conda do not run with it. */
  | { readonly kind: 'musl' };

// The places where the loader of a 64-bit system looks. Other architectures and toolchains have folders of the second kind.
const folder = /^(?:\.?\/)?(?:usr\/)?lib(?:64)?\/(?:([a-z0-9_]+)-linux-gnu\/)?([^/]+)$/;
const machines = new Set(namedArchitectures.map(([, { uname }]) => uname));
const versionedFile = /^libc-(\d+\.\d+)\.so$/;
/** The records of the packages of an environment at the path where images of packages have theirs. */
const environmentRecord = /^(?:\.?\/)?opt\/conda\/conda-meta\//;
const muslLoader = /^ld-musl-[a-z0-9_]+\.so\.1$/;
// The library says its version when it is run. Source: glibc, csu/version.c.
const banner = /GNU C Library \([^)\0]{0,100}\)[^\0]{0,40} version (\d+\.\d+)/;
const bannerBytes = 300;
const maxLibraryBytes = 64 * 1024 * 1024;

/** Finds the C library among the files of a layer, and an environment of conda. */
export class LibcSearch implements TarVisitor {
  #found: Libc | undefined;
  #hasMusl = false;
  #hasEnvironment = false;
  #tail = '';

  /** The GNU C library, once it was found. */
  get found(): Libc | undefined {
    return this.#found;
  }

  /** True when there is a loader of musl: it counts where there is no glibc in any layer. */
  get hasMusl(): boolean {
    return this.#hasMusl;
  }

  /** True when there is an environment at `/opt/conda`. */
  get hasEnvironment(): boolean {
    return this.#hasEnvironment;
  }

  entry({ path, kind, link, size }: TarEntry): boolean {
    if (environmentRecord.test(path)) this.#hasEnvironment = true;
    const [, machine, name] = folder.exec(path) ?? [];
    if (name === undefined || this.#found) return false;
    if (machine !== undefined && !machines.has(machine)) return false;
    if (muslLoader.test(name)) this.#hasMusl = true;
    const isLink = kind === 'symlink' || kind === 'link';
    const told = kind === 'file' ? name : isLink ? link.slice(link.lastIndexOf('/') + 1) : '';
    const isLibc = name === 'libc.so.6' || versionedFile.test(name);
    const version = isLibc ? versionedFile.exec(told)?.[1] : undefined;
    if (version !== undefined) this.#found = { kind: 'glibc', version };
    this.#tail = '';
    return (
      this.#found === undefined &&
      name === 'libc.so.6' &&
      kind === 'file' &&
      size <= maxLibraryBytes
    );
  }

  content(bytes: Buffer): void {
    if (this.#found) return;
    const text = this.#tail + bytes.toString('latin1');
    const version = banner.exec(text)?.[1];
    if (version !== undefined) this.#found = { kind: 'glibc', version };
    this.#tail = text.slice(-bannerBytes);
  }
}
