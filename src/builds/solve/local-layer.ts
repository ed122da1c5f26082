import type { MadeBlobs } from '../../images/index.ts';
import type { Descriptor } from '../../oci/index.ts';
import { drain } from '../../storage/content/byte-source.ts';
import type { ContentStore, LocalFile } from '../../storage/content/index.ts';

/** Returns a layer of an image as a file: the copy that is here, or what its registry sends. Its digest is not verified. */
export async function localLayer(
  content: Pick<ContentStore, 'lease' | 'scratch'>,
  blobs: MadeBlobs,
  layer: Descriptor,
  signal: AbortSignal,
): Promise<LocalFile> {
  const local = (await blobs.isKept(layer)) ? await content.lease(layer.digest) : undefined;
  if (local) return local;
  const file = await content.scratch(layer.size);
  try {
    const body = await blobs.open(layer, signal);
    await drain(body, bytes => file.write(bytes));
  } catch (error) {
    await file[Symbol.asyncDispose]();
    throw error;
  }
  return file;
}
