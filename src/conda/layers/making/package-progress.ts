import type { CondaPackage } from '../../conda-package.ts';

/** How far the work for the layer of a package is. It changes while others look at it. Times are ms since the epoch. */
export class PackageProgress {
  /** `samtools-1.20-h50ea8bc_0` */
  readonly name: string;
  /** Bytes of the archive that have arrived. */
  fetched = 0;
  /** Bytes of the archive; 0 if unknown. */
  archiveBytes: number;
  fetchBegan: number | undefined;
  makeBegan: number | undefined;
  madeAt: number | undefined;
  /** Shared with the thread that makes the layer: bytes that are written, and all bytes of its files (0 if unknown). */
  readonly written = new Float64Array(new SharedArrayBuffer(2 * Float64Array.BYTES_PER_ELEMENT));

  constructor({ name, version, build, size = 0 }: CondaPackage) {
    this.name = `${name}-${version}-${build}`;
    this.archiveBytes = size;
  }

  /** Takes the size of an archive of which a part has arrived. */
  received(bytes: number, size: number | undefined): void {
    this.fetched = bytes;
    this.archiveBytes = Math.max(this.archiveBytes, size ?? 0, bytes);
  }
}
