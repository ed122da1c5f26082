import { createHash } from 'node:crypto';
import type { SentContext } from '../../../builds/plan/index.ts';
import { hashTar } from '../../../contexts/hash-tar.ts';
import type { Digest } from '../../../oci/index.ts';
import type { ContextDirectory } from './packed-context.ts';
import { cutBlobs, grainOf } from './upload/cut-blobs.ts';

/**
 * Returns the properties of a context directory as a server computes them. They are the same for every way of sending
 * it.
 */
export async function measureDirectory({
  path,
  entries,
  bytes,
}: ContextDirectory): Promise<SentContext> {
  const hash = createHash('sha256');
  const content = cutBlobs(path, entries, grainOf(bytes));
  await hashTar(entries, content, piece => void hash.update(piece));
  const tarDigest = `sha256:${hash.digest('hex')}` as Digest;
  return { digest: tarDigest, tarDigest };
}
