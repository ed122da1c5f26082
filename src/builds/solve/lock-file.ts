import type { Writable } from 'node:stream';
import { extract } from 'tar-stream';

const maxBytes = 4 * 1024 * 1024;

/** Returns the text of the only file in a stage that was exported as a tar archive. */
export async function readLockFile(
  exportTo: (sink: () => Writable) => Promise<unknown>,
): Promise<string | undefined> {
  const tar = extract();
  const parts: Buffer[] = [];
  let size = 0;
  tar.on('entry', (header, stream, next) => {
    stream.on('data', bytes => {
      const part = bytes as Buffer;
      size += part.length;
      if (header.type === 'file' && size <= maxBytes) parts.push(part);
    });
    stream.once('end', next);
    // A truncated archive fails each of its streams; the export reports the reason.
    stream.on('error', () => {});
    stream.resume();
  });
  await exportTo(() => tar as unknown as Writable);
  return parts.length === 0 ? undefined : Buffer.concat(parts).toString('utf8');
}
