import type { FileHandle } from 'node:fs/promises';
import { Fault, isDiskFull } from '../../../../foundation/fault.ts';
import type { ScratchSpace } from '../../conversion-limits.ts';

/** The file that a squashfs is written to. */
export interface SquashfsOutput {
  /**
   * Writes bytes at a position of the squashfs. Throws a {@link Fault} if the disk is full, or if the limit of the
   * conversion does not allow them.
   */
  write(bytes: Uint8Array, position: number): Promise<void>;
}

/** @param offset position of the squashfs in the file */
export function openOutput(
  file: FileHandle,
  offset: number,
  space: Pick<ScratchSpace, 'take' | 'write'>,
): SquashfsOutput {
  let known = 0;
  return {
    async write(bytes, position) {
      const end = position + bytes.length;
      if (end > known) {
        space.take(end - known);
        space.write(end - known);
        known = end;
      }
      try {
        for (let at = 0; at < bytes.length; ) {
          const { bytesWritten } = await file.write(
            bytes,
            at,
            bytes.length - at,
            offset + position + at,
          );
          at += bytesWritten;
        }
      } catch (cause) {
        throw isDiskFull(cause) ? diskFull(cause) : cause;
      }
    },
  };
}

/** Writes one part of a squashfs after the other. */
export class Appender {
  readonly #output: SquashfsOutput;
  /** Position of the next part. */
  position: number;

  constructor(output: SquashfsOutput, position: number) {
    this.#output = output;
    this.position = position;
  }

  async add(parts: readonly Buffer[]): Promise<void> {
    if (parts.length === 0) return;
    const bytes = Buffer.concat(parts);
    await this.#output.write(bytes, this.position);
    this.position += bytes.length;
  }
}

function diskFull(cause: unknown): Fault {
  const message =
    'The disk has no space left to make the Singularity image: ask the operator to free disk space';
  return new Fault('storage-full', message, { phase: 'build', cause });
}
