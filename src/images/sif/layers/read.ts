import { TarError, TarReader, type TarVisitor } from '../../../archives/index.ts';
import { type LayerFile, layerFault } from './file.ts';
import { unpackLayer } from './unpack.ts';

/**
 * Reads the tar file of a layer to its end, or until `next` returns false. `next` is called after each
 * piece, when the visitor has received its entries and content.
 * Throws a {@link Fault} that names the layer when the layer cannot be read.
 */
export async function readLayer(
  file: LayerFile,
  visitor: TarVisitor,
  signal: AbortSignal,
  next: (piece: Buffer) => boolean | Promise<boolean>,
): Promise<void> {
  const reader = new TarReader(visitor);
  try {
    for await (const chunk of unpackLayer(file, signal)) {
      reader.write(chunk);
      if (!(await next(chunk))) return;
    }
    reader.end();
  } catch (error) {
    if (error instanceof TarError) throw layerFault('bad-request', file, error.message);
    throw error;
  }
}
