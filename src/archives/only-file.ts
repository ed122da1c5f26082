import type { Writable } from 'node:stream';
import { extract } from 'tar-stream';
import { Fault } from '../foundation/fault.ts';
import { maxOnlyFileBytes } from './tar-limits.ts';

/**
 * Returns the text of the only file in an archive that a builder exports; undefined if there is none.
 *
 * @param exportTo writes the archive into a sink
 */
export async function readOnlyFile(
  exportTo: (sink: () => Writable) => Promise<unknown>,
): Promise<string | undefined> {
  const tar = extract();
  const parts: Buffer[] = [];
  let size = 0;
  tar.on('entry', (header, stream, next) => {
    stream.on('data', bytes => {
      const part = bytes as Buffer;
      size += part.length;
      if (header.type === 'file' && size <= maxOnlyFileBytes) parts.push(part);
    });
    stream.once('end', next);
    // A truncated archive fails each of its streams; the export reports the reason.
    stream.on('error', () => {});
    stream.resume();
  });
  await exportTo(() => tar as unknown as Writable);
  return parts.length === 0 ? undefined : Buffer.concat(parts).toString('utf8');
}

/** A file in an archive that a builder exports. */
export interface ExportedFile {
  /** Without a slash at its beginning. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Returns a sink for an archive that a builder exports, which passes on its files one after the other. A function that throws ends the
 * archive with its error.
 *
 * @param most files and directories; an archive with more fails with a `Fault`
 */
export function exportedFiles(
  receive: (file: ExportedFile) => Promise<void>,
  most: number,
): Writable {
  const tar = extract();
  let count = 0;
  tar.on('entry', ({ name, type, size = 0 }, stream, next) => {
    // A truncated archive fails each of its streams; the export reports the reason.
    stream.on('error', () => {});
    count += 1;
    if (count > most) return next(tooMany(most));
    if (type !== 'file') {
      stream.once('end', next);
      stream.resume();
      return;
    }
    const body = stream as unknown as AsyncIterable<Uint8Array>;
    receive({ name: name.replace(/^\.?\//, ''), size, body }).then(
      () => next(),
      error => next(error),
    );
  });
  return tar as unknown as Writable;
}

function tooMany(most: number): Fault {
  return new Fault('bad-request', `The step has written more than ${most} files`, {
    phase: 'build',
  });
}
