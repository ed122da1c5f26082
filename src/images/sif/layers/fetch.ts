import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { splitDigest } from '../../../oci/digest.ts';
import type { Descriptor } from '../../../oci/index.ts';
import { type ByteSource, drain } from '../../../storage/content/byte-source.ts';
import type { ScratchSpace } from '../scratch-space.ts';
import { type LayerFile, layerFault } from './file.ts';

/**
 * Writes a layer to a new file. Throws a {@link Fault} unless the layer has the size and digest in its manifest.
 * Also throws the errors of the source: the signal's reason after an abort.
 */
export async function fetchLayer(
  { digest, size }: Descriptor,
  source: ByteSource,
  file: LayerFile,
  space: Pick<ScratchSpace, 'write'>,
  signal: AbortSignal,
): Promise<void> {
  const { algorithm, hex } = splitDigest(digest);
  const hash = createHash(algorithm);
  const stop = () => source.destroy(signal.reason);
  signal.addEventListener('abort', stop);
  let written = 0;
  try {
    signal.throwIfAborted();
    await using target = await open(file.path, 'wx');
    await drain(source, async bytes => {
      written += bytes.length;
      if (written > size) throw layerFault('upstream', file, 'is larger than its manifest says');
      space.write(bytes.length);
      // The write runs on another thread while this one hashes.
      const writing = target.writeFile(bytes);
      hash.update(bytes);
      await writing;
    });
  } finally {
    signal.removeEventListener('abort', stop);
    source.destroy();
  }
  if (written < size) throw layerFault('upstream', file, 'is smaller than its manifest says');
  if (hash.digest('hex') !== hex) {
    throw layerFault('upstream', file, 'does not have the digest that its manifest specifies');
  }
}
