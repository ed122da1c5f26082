import type { Writable } from 'node:stream';
import { extract } from 'tar-stream';
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
