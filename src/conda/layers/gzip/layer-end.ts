import { tarEnd } from '../../../archives/tar-writer.ts';
import { createGzipWriter } from './gzip-writer.ts';

let member: Buffer | undefined;

/**
 * Returns the last gzip member of every layer of packages: the end of the tar file, and nothing else. Without it, a layer
 * is the beginning of a longer one.
 */
export function layerEnd(): Buffer {
  if (member === undefined) {
    using gzip = createGzipWriter(bytes => {
      member = Buffer.from(bytes);
    });
    gzip.write(tarEnd);
    gzip.end();
  }
  return member as unknown as Buffer;
}
